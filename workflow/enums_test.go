package workflow

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/merge"
)

// enumerated returns the values of an enumerated type as a definition writes them; nil for another type.
func enumerated(goType reflect.Type) []string {
	at := slices.IndexFunc(enumerations, func(list any) bool { return reflect.TypeOf(list).Elem() == goType })
	if at < 0 {
		return nil
	}
	values := reflect.ValueOf(enumerations[at])
	var out []string
	for i := range values.Len() {
		out = append(out, fmt.Sprint(values.Index(i)))
	}
	return out
}

// An enumeration is a field of a definition that takes one of a list of values.
type enumeration struct {
	path   string // as "approval.onTimeout", from the struct that has it
	values []string
}

// enumerationsOf returns the enumerated fields below a type, and refuses a field of a type of this package that is a text
// with no list: it names something, as [NodeID], or its values are a list that is written by hand somewhere.
func enumerationsOf(t *testing.T, goType reflect.Type, path string) (out []enumeration) {
	for goType.Kind() == reflect.Pointer || goType.Kind() == reflect.Slice || goType.Kind() == reflect.Map {
		goType = goType.Elem()
	}
	if values := enumerated(goType); values != nil {
		return []enumeration{{path, values}}
	}
	if goType == reflect.TypeFor[Merge]() {
		out = append(out, enumeration{"merge.strategy", textsOf(merge.All())})
	}
	if goType.Kind() == reflect.String && !slices.Contains([]string{"string", "NodeID", "TransitionID"}, goType.Name()) {
		t.Errorf("%s: %s is a text with a type of its own, and has no list", path, goType)
	}
	if goType.Kind() != reflect.Struct || strings.HasSuffix(path, "any.any") {
		return out
	}
	for i := range goType.NumField() {
		if f := goType.Field(i); f.IsExported() {
			_, last, _ := strings.Cut("."+path, ".")
			if j := strings.LastIndex(last, "."); j >= 0 {
				last = last[j+1:]
			}
			out = append(out, enumerationsOf(t, f.Type, strings.TrimPrefix(last+"."+camel(f.Name), "."))...)
		}
	}
	return out
}

// TestValuesAreNamed: a value that is not of its list is answered with all that are, and docs/definition.md names each of
// them in the table row of its field, or in one of its own.
func TestValuesAreNamed(t *testing.T) {
	page := readFile(t, "../docs/definition.md")
	var rows []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "|") {
			rows = append(rows, line)
		}
	}
	found := enumerationsOf(t, reflect.TypeFor[Definition](), "")
	for _, e := range found {
		field := e.path[strings.LastIndex(e.path, ".")+1:]
		of := regexp.MustCompile(`\b` + field + `\b`)
		for _, v := range e.values {
			word := regexp.MustCompile("[`(\\[: ]" + v + "[`,)\\]} ]")
			named := slices.ContainsFunc(rows, func(row string) bool {
				return word.MatchString(row) && (of.MatchString(row) || strings.HasPrefix(row, "| `"+v+"` |"))
			})
			require.True(t, named, "docs/definition.md has no row with %s and its value %s", e.path, v)
		}
	}
	refused := map[string]string{
		"mode":                        `"mode": "x"`,
		"nodes.join":                  `"nodes": [{"id": "a", "join": "x"}]`,
		"nodes.unmatched":             `"nodes": [{"id": "a", "unmatched": "x"}]`,
		"retry.exhausted":             `"nodes": [{"id": "a", "retry": {"exhausted": "x"}}]`,
		"approval.onTimeout":          `"nodes": [{"id": "a", "approval": {"onTimeout": "x"}}]`,
		"transitions.outcome":         `"transitions": [{"outcome": "x"}]`,
		"merge.strategy":              `"groups": {"g": {"merge": {"strategy": "x"}}}`,
		"merge.as":                    `"groups": {"g": {"merge": {"as": "x"}}}`,
		"synchronization.strategy":    `"transitions": [{"synchronization": {"strategy": "x"}}]`,
		"synchronization.remaining":   `"transitions": [{"synchronization": {"remaining": "x"}}]`,
		"synchronization.onTimeout":   `"transitions": [{"synchronization": {"onTimeout": "x"}}]`,
		"synchronization.onShortfall": `"transitions": [{"synchronization": {"onShortfall": "x"}}]`,
	}
	for _, e := range found {
		path := strings.Replace(e.path, "groups.", "synchronization.", 1)
		require.Contains(t, refused, path)
		_, err := ParseJSON([]byte(`{"name": "n", ` + refused[path] + `}`))
		require.Error(t, err)
		require.Contains(t, err.Error(), `"x" is not one of `+strings.Join(e.values, ", "), path)
	}
}
