package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unshown are the commands whose output is in no script, each with the reason.
var unshown = map[string]string{
	"completion": "a program for a shell, whatever the width",
	"restore":    "times of a copy that follows an engine",
	"serve":      "addresses and a key, until it is interrupted",
	"version":    "that of the build",
	"worker":     "addresses, until it is interrupted",
}

// The output of every command stands in a script, at 80 columns and at 160.
func TestEveryCommandAtTwoWidths(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	require.NoError(t, err)
	shown := map[string]map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		addShown(shown, string(text))
	}
	var missing []string
	for _, v := range verbs() {
		for _, columns := range []string{"80", "160"} {
			if !shown[v.name][columns] && unshown[v.name] == "" && !v.hidden {
				missing = append(missing, v.name+" at "+columns)
			}
		}
	}
	require.Empty(t, missing)
}

var (
	setWidth   = regexp.MustCompile(`^env COLUMNS=([0-9]+)$`)
	comparison = regexp.MustCompile(`^cmp(sized)? std(out|err) `)
	playedVerb = regexp.MustCompile(`^(?:! )?(?:pawl|(?:status|process) [0-9]+) ([a-z]+)`)
)

// addShown adds the widths at which a script compares what each command prints.
func addShown(shown map[string]map[string]bool, script string) {
	columns, name := "", ""
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "-- ") {
			return
		}
		if m := setWidth.FindStringSubmatch(line); m != nil {
			columns = m[1]
		} else if m := playedVerb.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else if name != "" && comparison.MatchString(line) {
			if shown[name] == nil {
				shown[name] = map[string]bool{}
			}
			shown[name][columns] = true
		}
	}
}
