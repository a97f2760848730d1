package pawl

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// family adds to a start whose child the run is, and what its subworkflows mean.
func family(t *testing.T, d *datadriven.TestData, m workflow.Start) workflow.Start {
	var pin string
	var depth int
	d.MaybeScanArgs(t, "pin", &pin)
	d.MaybeScanArgs(t, "depth", &depth)
	if pin != "" {
		m.Pins = workflow.Pins{{Name: pin, Hash: "hash-of-" + pin}}
	}
	if depth > 0 {
		m.Parent = &workflow.Parent{Run: "p", Token: 1, Attempt: 1, Root: "p", Depth: depth}
	}
	return m
}

// fromChild returns what a child tells or asks its parent in a story.
func (s *story) fromChild(d *datadriven.TestData, id workflow.TokenID, attempt int) workflow.Message {
	if d.Cmd == "child-asks" {
		return workflow.ChildAsks{Token: id, Attempt: attempt}
	}
	m := workflow.ChildEnded{Token: id, Attempt: attempt, Status: workflow.RunCompleted}
	text, status := strings.TrimSpace(d.Input), ""
	if d.MaybeScanArgs(s.t, "status", &status); status == "" {
		m.Output, _ = s.json(text).(map[string]any)
		return m
	}
	var err error
	m.Status, err = workflow.ParseRunStatus(status)
	require.NoError(s.t, err)
	m.Failure = &workflow.Failure{Message: text, Permanent: d.HasArg("permanent"), Node: "deep", Token: 9}
	d.MaybeScanArgs(s.t, "code", &m.Failure.Code)
	return m
}
