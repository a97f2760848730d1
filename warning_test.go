package pawl_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

const careless = `
name: careless
start: a
nodes: [{id: a}, {id: b}, {id: c}]
transitions: [{from: a, to: b, condition: input.ok}, {from: c, to: c}]
`

// The warnings of a definition are returned by Publish, and reach the log at
// Publish or at Start, once.
func TestWarnings(t *testing.T) {
	codes := []string{workflow.ProblemMayMatchNothing, workflow.ProblemUnreachable, workflow.ProblemEndlessCycle}
	run := workflow.Run{Definition: define(t, careless)}
	for _, first := range []string{"publish", "start"} {
		t.Run(first+" first", func(t *testing.T) {
			var log bytes.Buffer
			e := open(t, t.TempDir(), pawl.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			begin := func(id workflow.RunID) {
				run.ID = id
				require.NoError(t, e.Start(t.Context(), run, map[string]any{"ok": true}))
				_, err := e.Wait(t.Context(), id)
				require.NoError(t, err)
			}
			if first == "start" {
				begin("before")
			}
			for range 2 {
				warnings, err := e.Publish(run.Definition)
				require.NoError(t, err)
				require.Len(t, warnings, len(codes))
				for i, p := range warnings {
					require.Equal(t, codes[i], p.Code)
				}
			}
			begin("after")
			require.Equal(t, len(codes), strings.Count(log.String(), "level=WARN"), log.String())
			for _, code := range codes {
				require.Contains(t, log.String(), "definition=careless version=1 problem=")
				require.Contains(t, log.String(), "("+code+")")
			}
		})
	}
}
