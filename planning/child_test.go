package planning_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

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

// childMessage returns what a child tells or asks its parent.
func childMessage(t *testing.T, d *datadriven.TestData, id workflow.TokenID, attempt int, input any) workflow.Message {
	if d.Cmd == "child-asks" {
		return workflow.ChildAsks{Token: id, Attempt: attempt}
	}
	m := workflow.ChildEnded{Token: id, Attempt: attempt, Status: workflow.RunCompleted}
	var status string
	if d.MaybeScanArgs(t, "status", &status); status == "" {
		m.Output, _ = input.(map[string]any)
		return m
	}
	var err error
	if m.Status, err = workflow.ParseRunStatus(status); err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	m.Failure = &workflow.Failure{Message: strings.TrimSpace(d.Input), Permanent: d.HasArg("permanent"), Node: "deep", Token: 9}
	d.MaybeScanArgs(t, "code", &m.Failure.Code)
	return m
}
