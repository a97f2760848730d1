// Package story reads the commands of the stories in planning/testdata, for the
// tests that play them: on the planner alone, and on an actor with a store. The
// README there lists the commands.
package story

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Reader makes messages of the commands of a story. The test fails at a
// command that cannot be read.
type Reader struct {
	T *testing.T
	// Key returns the attempt of a token that runs, and the epoch of its
	// dispatch: what a result carries that names no other.
	Key func(workflow.TokenID) (attempt int, epoch workflow.Epoch)
}

// ownEpoch is how stories write the epoch of a dispatch; any other number is a
// foreign one.
const ownEpoch = 7

// Message returns what a command sends, nil if it sends nothing.
func (r Reader) Message(d *datadriven.TestData) state.Message {
	switch d.Cmd {
	case "start":
		return r.start(d)
	case "complete", "fail", "heartbeat":
		return r.result(d)
	case "child-ended", "child-asks":
		return r.child(d)
	case "cancel", "retry", "skip", "suspend", "pause", "resume":
		return r.operator(d)
	case "signal", "vote":
		return r.event(d)
	case "cancel-nodes", "add-branch", "close-group":
		return r.group(d)
	}
	return nil
}

// start reads whose child the run is, too, and what its subworkflows mean.
func (r Reader) start(d *datadriven.TestData) state.Message {
	m := state.Start{}
	m.Input, _ = r.json(d).(map[string]any)
	if pin := r.text(d, "pin"); pin != "" {
		m.Pins = workflow.Pins{{Name: pin, Hash: "hash-of-" + pin}}
	}
	if depth := r.number(d, "depth", 0); depth > 0 {
		m.Parent = &workflow.Parent{Run: "p", Token: 1, Attempt: 1, Root: "p", Depth: depth}
	}
	return m
}

// result reads what an executor says of an attempt.
func (r Reader) result(d *datadriven.TestData) state.Message {
	id, _ := r.target(d)
	attempt, epoch := r.Key(id)
	attempt = r.number(d, "attempt", attempt)
	if n := r.number(d, "epoch", ownEpoch); n != ownEpoch {
		epoch++
	}
	switch d.Cmd {
	case "complete":
		return state.TaskCompleted{Token: id, Attempt: attempt, Epoch: epoch, Output: r.json(d)}
	case "fail":
		return state.TaskFailed{Token: id, Attempt: attempt, Epoch: epoch, Failure: r.failure(d)}
	}
	return state.Heartbeat{Token: id, Attempt: attempt, Epoch: epoch}
}

// child reads what a child tells or asks its parent.
func (r Reader) child(d *datadriven.TestData) state.Message {
	id, _ := r.target(d)
	attempt, _ := r.Key(id)
	attempt = r.number(d, "attempt", attempt)
	if d.Cmd == "child-asks" {
		return state.ChildAsks{Token: id, Attempt: attempt}
	}
	m := state.ChildEnded{Token: id, Attempt: attempt, Status: workflow.RunCompleted}
	status := r.text(d, "status")
	if status == "" {
		m.Output, _ = r.json(d).(map[string]any)
		return m
	}
	var err error
	if m.Status, err = workflow.ParseRunStatus(status); err != nil {
		r.T.Fatalf("%s: %v", d.Pos, err)
	}
	f := r.failure(d)
	f.Node, f.Token = "deep", 9
	m.Failure = &f
	return m
}

// operator reads what an operator, or a fault, does to the run.
func (r Reader) operator(d *datadriven.TestData) state.Message {
	id, node := r.target(d)
	switch d.Cmd {
	case "cancel":
		return state.Cancel{Reason: strings.TrimSpace(d.Input)}
	case "retry":
		return state.Retry{Token: id, Node: node}
	case "skip":
		return state.Skip{Token: id, Node: node, Output: r.json(d)}
	case "suspend":
		return state.Suspend{Cause: strings.TrimSpace(d.Input)}
	case "pause":
		return state.Pause{Parent: d.HasArg("parent")}
	}
	return state.Resume{Parent: d.HasArg("parent")}
}

// event reads a signal or a vote.
func (r Reader) event(d *datadriven.TestData) state.Message {
	if d.Cmd == "signal" {
		return state.Signal{
			Name: r.text(d, "name"), ID: r.text(d, "id"), Payload: r.json(d), Transient: d.HasArg("transient"),
			TTL: time.Duration(r.number(d, "ttl", 0)) * time.Second,
		}
	}
	id, node := r.target(d)
	return state.Ballot{Token: id, Node: node, By: r.text(d, "by"), Approved: d.HasArg("approved"), Data: r.json(d)}
}

// group reads what is said to a group, or to some nodes.
func (r Reader) group(d *datadriven.TestData) state.Message {
	name, origin := r.text(d, "group"), workflow.TokenID(r.number(d, "origin", 0))
	switch d.Cmd {
	case "add-branch":
		return state.AddBranch{Group: name, Origin: origin, Item: r.json(d)}
	case "close-group":
		return state.CloseGroup{Group: name, Origin: origin}
	}
	var nodes []string
	d.MaybeScanArgs(r.T, "nodes", &nodes)
	m := state.CancelNodes{}
	for _, n := range nodes {
		m.Nodes = append(m.Nodes, workflow.NodeID(n))
	}
	return m
}

// target reads token=N and node=ID.
func (r Reader) target(d *datadriven.TestData) (workflow.TokenID, workflow.NodeID) {
	return workflow.TokenID(r.number(d, "token", 0)), workflow.NodeID(r.text(d, "node"))
}

// failure reads the code of a failure; its message stands below.
func (r Reader) failure(d *datadriven.TestData) workflow.Failure {
	return workflow.Failure{Code: r.text(d, "code"), Message: strings.TrimSpace(d.Input), Permanent: d.HasArg("permanent")}
}

func (r Reader) text(d *datadriven.TestData, key string) (out string) {
	d.MaybeScanArgs(r.T, key, &out)
	return out
}

func (r Reader) number(d *datadriven.TestData, key string, otherwise int) int {
	d.MaybeScanArgs(r.T, key, &otherwise)
	return otherwise
}

// json reads the value below a command; nil if there is none.
func (r Reader) json(d *datadriven.TestData) any {
	text := strings.TrimSpace(d.Input)
	if text == "" {
		return nil
	}
	v, err := value.Decode([]byte(text), value.Limits{})
	if err != nil {
		r.T.Fatalf("%s: %v", d.Pos, err)
	}
	return v
}

// Duration returns how long a command, advance or sleep, lets time go on.
func (r Reader) Duration(d *datadriven.TestData) time.Duration {
	out, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		r.T.Fatalf("%s: %v", d.Pos, err)
	}
	return out
}
