package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/pawltest"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/rescue"
)

// docs/operations.md has, for each command whose lines of JSON are no objects of the API, which fields they have.
func TestFieldsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	for _, c := range []struct {
		command, what string
		line          reflect.Type
		more          []string // fields that the command adds
	}{
		{"check", "a definition", reflect.TypeFor[fileReport](), nil},
		{"coverage", "a definition that was met", reflect.TypeFor[coveredDefinition](), nil},
		{"diff", "the comparison", reflect.TypeFor[replay.Comparison](), nil},
		{"graph", "the picture", reflect.TypeFor[graphReport](), nil},
		{"recover", "the report", reflect.TypeFor[pawl.RecoverReport](), nil},
		{"replay", "a run", reflect.TypeFor[replay.Report](), nil},
		{"replay", "the last line", reflect.TypeFor[replaySummary](), nil},
		{"replay --definition", "a run", reflect.TypeFor[replay.Substitution](), nil},
		{"step", "a record", reflect.TypeFor[replay.Frame](), nil},
		{"test", "a scenario", reflect.TypeFor[pawltest.Report](), nil},
		{"test", "the last line", reflect.TypeFor[summary](), nil},
		{"verify, repair", "a finding", reflect.TypeFor[rescue.Finding](), nil},
		{"verify, repair", "the last line", reflect.TypeFor[rescue.Report](), nil},
		{"worker", "the first line", reflect.TypeFor[joined](), nil},
	} {
		var names []string
		for _, name := range append(fieldsOf(c.line), c.more...) {
			names = append(names, "`"+name+"`")
		}
		row := "| `" + c.command + "` | " + c.what + " | " + strings.Join(names, ", ") + " |"
		assert.Contains(t, string(data), row)
	}
}

// fieldsOf returns the names that the fields of a struct have in JSON.
func fieldsOf(t reflect.Type) (out []string) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-" || f.Anonymous && name == "":
		case name == "":
			out = append(out, f.Name)
		default:
			out = append(out, name)
		}
	}
	return out
}
