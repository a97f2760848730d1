// Package story reads the commands of the stories in planning/testdata, for the
// tests that play them: on the planner alone, and on an actor with a store. The
// README there lists the commands.
package story

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/amount"
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
	Key func(workflow.TokenID) (attempt int, epoch state.Epoch)
	// Now returns the instant of the story.
	Now func() time.Time
}

// ownEpoch is how stories write the epoch of a dispatch; any other number is a
// foreign one.
const ownEpoch = 7

// Message returns what a command sends, nil if it sends nothing.
func (r Reader) Message(d *datadriven.TestData) state.Message {
	switch d.Cmd {
	case "start":
		return r.startMessage(d)
	case "complete", "fail", "snooze", "heartbeat":
		return r.resultMessage(d)
	case "child-ended", "child-asks":
		return r.childMessage(d)
	case "cancel", "retry", "skip", "suspend", "pause", "resume", "patch", "raise":
		return r.operatorMessage(d)
	case "fork":
		return r.forkMessage(d)
	case "signal", "vote":
		return r.eventMessage(d)
	case "cancel-nodes", "add-branch", "close-group":
		return r.groupMessage(d)
	}
	return nil
}

// startMessage reads whose child the run is, too, and what its subworkflows mean.
func (r Reader) startMessage(d *datadriven.TestData) state.Message {
	m := state.Start{}
	m.Input, _ = r.readJSON(d).(map[string]any)
	if pin := r.readText(d, "pin"); pin != "" {
		m.Pins = state.Pins{{Name: pin, Hash: "hash-of-" + pin}}
	}
	if at := r.readText(d, "scheduled"); at != "" {
		scheduled, err := time.Parse(time.RFC3339, at)
		require.NoError(r.T, err)
		m.ScheduledAt = scheduled.UTC()
	}
	if depth := r.readNumber(d, "depth", 0); depth > 0 {
		m.Parent = &workflow.Parent{Run: "p", Token: 1, Attempt: 1, Root: "p", Depth: depth}
	}
	return m
}

// resultMessage reads what an executor says of an attempt.
func (r Reader) resultMessage(d *datadriven.TestData) state.Message {
	id, _ := r.readTarget(d)
	attempt, epoch := r.Key(id)
	attempt = r.readNumber(d, "attempt", attempt)
	if n := r.readNumber(d, "epoch", ownEpoch); n != ownEpoch {
		epoch++
	}
	var metadata map[string]any
	if cost := r.readNumber(d, "cost", 0); cost > 0 {
		metadata = map[string]any{"cost": int64(cost)}
	}
	switch d.Cmd {
	case "complete":
		return state.TaskCompleted{Token: id, Attempt: attempt, Epoch: epoch, Output: r.readJSON(d), Metadata: metadata}
	case "fail":
		after := time.Duration(r.readNumber(d, "after", 0)) * time.Second
		return state.TaskFailed{Token: id, Attempt: attempt, Epoch: epoch, Failure: r.readFailure(d), RetryAfter: after, Metadata: metadata}
	}
	if d.Cmd == "snooze" {
		return state.TaskSnoozed{Token: id, Attempt: attempt, Epoch: epoch, After: time.Duration(r.readNumber(d, "after", 0)) * time.Second}
	}
	return state.Heartbeat{Token: id, Attempt: attempt, Epoch: epoch, Details: r.readJSON(d)}
}

// childMessage reads what a child tells or asks its parent.
func (r Reader) childMessage(d *datadriven.TestData) state.Message {
	id, _ := r.readTarget(d)
	attempt, _ := r.Key(id)
	attempt = r.readNumber(d, "attempt", attempt)
	if d.Cmd == "child-asks" {
		return state.ChildAsks{Token: id, Attempt: attempt}
	}
	m := state.ChildEnded{Token: id, Attempt: attempt, Status: workflow.RunCompleted}
	status := r.readText(d, "status")
	if status == "" {
		m.Output, _ = r.readJSON(d).(map[string]any)
		return m
	}
	if err := m.Status.UnmarshalText([]byte(status)); err != nil {
		r.T.Fatalf("%s: %v", d.Pos, err)
	}
	f := r.readFailure(d)
	f.Node, f.Token, f.By = "deep", 9, r.readText(d, "by")
	m.Failure = &f
	return m
}

// operatorMessage reads what an operator, or a fault, does to the run.
func (r Reader) operatorMessage(d *datadriven.TestData) state.Message {
	id, node := r.readTarget(d)
	switch d.Cmd {
	case "cancel":
		return state.Cancel{Reason: strings.TrimSpace(d.Input)}
	case "retry":
		return state.Retry{Token: id, Node: node, Parked: d.HasArg("parked"), Input: workflow.RetryInput(r.readText(d, "input"))}
	case "skip":
		return state.Skip{Token: id, Node: node, Parked: d.HasArg("parked"), Output: r.readJSON(d)}
	case "suspend":
		return state.Suspend{Cause: strings.TrimSpace(d.Input)}
	case "patch":
		ops, _ := r.readJSON(d).([]any)
		return state.Patch{Base: r.readNumber(d, "base", 1), Ops: ops}
	case "raise":
		meta, _ := r.readJSON(d).(map[string]any)
		return state.Raise{Meta: amount.Of(meta)}
	case "pause":
		return state.Pause{Parent: d.HasArg("parent")}
	}
	return state.Resume{Parent: d.HasArg("parent")}
}

// forkMessage reads as what the run goes on; a result may be given for a token.
func (r Reader) forkMessage(d *datadriven.TestData) state.Message {
	id, node := r.readTarget(d)
	m := state.RunForked{
		Run: workflow.RunID(r.readText(d, "as")), From: workflow.ForkPoint{Run: "r", Record: int64(r.readNumber(d, "at", 1))},
		InFlight: workflow.InFlight(r.readText(d, "in-flight")), AsOf: r.Now().Add(-time.Duration(r.readNumber(d, "later", 0)) * time.Second).UnixMilli(),
	}
	if id != 0 || node != "" {
		m.Results = []workflow.ForkResult{{Token: id, Node: node, Output: r.readJSON(d)}}
	}
	return m
}

// eventMessage reads a signal or a vote.
func (r Reader) eventMessage(d *datadriven.TestData) state.Message {
	if d.Cmd == "signal" {
		return state.Signal{
			Name: r.readText(d, "name"), ID: r.readText(d, "id"), Payload: r.readJSON(d), Transient: d.HasArg("transient"), Early: d.HasArg("early"),
			TTL: time.Duration(r.readNumber(d, "ttl", 0)) * time.Second,
		}
	}
	id, node := r.readTarget(d)
	return state.Ballot{ID: r.readText(d, "id"), Token: id, Node: node, By: r.readText(d, "by"), Approved: d.HasArg("approved"), Data: r.readJSON(d)}
}

// groupMessage reads what is said to a group, or to some nodes.
func (r Reader) groupMessage(d *datadriven.TestData) state.Message {
	name, origin := r.readText(d, "group"), workflow.TokenID(r.readNumber(d, "origin", 0))
	switch d.Cmd {
	case "add-branch":
		return state.AddBranch{ID: r.readText(d, "id"), Group: name, Origin: origin, Item: r.readJSON(d)}
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

// readTarget reads token=N and node=ID.
func (r Reader) readTarget(d *datadriven.TestData) (workflow.TokenID, workflow.NodeID) {
	return workflow.TokenID(r.readNumber(d, "token", 0)), workflow.NodeID(r.readText(d, "node"))
}

// readFailure reads the code of a failure; its message stands below.
func (r Reader) readFailure(d *datadriven.TestData) workflow.Failure {
	return workflow.Failure{Code: r.readText(d, "code"), Message: strings.TrimSpace(d.Input), Permanent: d.HasArg("permanent")}
}

func (r Reader) readText(d *datadriven.TestData, key string) (out string) {
	d.MaybeScanArgs(r.T, key, &out)
	return out
}

func (r Reader) readNumber(d *datadriven.TestData, key string, otherwise int) int {
	d.MaybeScanArgs(r.T, key, &otherwise)
	return otherwise
}

// readJSON reads the value below a command; nil without one.
func (r Reader) readJSON(d *datadriven.TestData) any {
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
