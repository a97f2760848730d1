package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/workflow"
)

// No line is wider than the console, also with letters that take two columns, and nothing is hidden in one.
func TestNoLineIsTooWide(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 200), strings.Repeat("注文", 70), strings.Repeat("e\u0301", 150), "a" + strings.Repeat("注文b", 60), strings.Repeat("😀", 60)} {
		for width := range 90 {
			short := elideMiddle(text, width)
			require.LessOrEqual(t, diagram.CountColumns(short), width)
			require.GreaterOrEqual(t, diagram.CountColumns(short), width-2, "%d: %s", width, short)
		}
		var out strings.Builder
		con := &console{Out: &out, Width: 40}
		con.printLine("%s", text)
		con.printTable([][]string{{"RUN", "NODE", "STATUS"}, {text, text, "running"}, {"a", "b", "paused"}})
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, diagram.CountColumns(strings.TrimSuffix(line, "\n")), 40, line)
		}
	}
	require.Equal(t, "a·b·c·d", printableText("a\u200bb\u202ec\u2066d"))
}

// Where tokens do different things, each number is told; for a single token there is no number.
func TestTokensText(t *testing.T) {
	for want, tokens := range map[string]map[workflow.TokenStatus]int{
		"":                                     {workflow.Completed: 3},
		"parked":                               {workflow.WaitingForOperator: 1},
		"23 task out · 1 parked":               {workflow.Dispatched: 23, workflow.WaitingForOperator: 1},
		"2 done · task out":                    {workflow.Completed: 2, workflow.Dispatched: 1},
		"9,812 done · 1 task out · 1 retrying": {workflow.Completed: 9812, workflow.Dispatched: 1, workflow.Retrying: 1},
	} {
		require.Equal(t, want, tokensText(tokens))
	}
}
