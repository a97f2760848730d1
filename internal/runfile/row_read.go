package runfile

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A reader reads columns of a run's file and keeps the first error.
type rowReader struct {
	*sqlite.Row
	err error
}

func (r *rowReader) keepError(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

// valueAt returns the JSON value in column i, nil for NULL.
func (r *rowReader) valueAt(i int) any {
	if r.Null(i) {
		return nil
	}
	v, err := codec.DecodeValue([]byte(r.Text(i)))
	r.keepError(err)
	return v
}

func (r *rowReader) failureAt(i int) *workflow.Failure {
	f, err := column.ParseFailure(r.Text(i))
	r.keepError(err)
	return f
}

func (r *rowReader) countsAt(i int) state.Counts {
	if r.Null(i) {
		return nil
	}
	c := state.Counts{}
	r.keepError(json.Unmarshal([]byte(r.Text(i)), &c))
	return c
}

func (r *rowReader) epochAt(i int) workflow.Epoch {
	if r.Null(i) {
		return 0
	}
	n, err := strconv.ParseUint(r.Text(i), 16, 64)
	r.keepError(err)
	return workflow.Epoch(n)
}

func (r *rowReader) scopeAt(i int) workflow.Scope {
	return workflow.Scope{Group: workflow.GroupID(r.Int64(i)), Branch: r.Int(i + 1)}
}

func (r *rowReader) scanToken() *state.Token {
	t := &state.Token{
		ID: workflow.TokenID(r.Int64(0)), Node: workflow.NodeID(r.Text(1)), Parent: workflow.TokenID(r.Int64(3)),
		Scope: r.scopeAt(4), Attempt: r.Int(6), Base: r.Int(7), Epoch: r.epochAt(8), Due: column.TimeAt(r.Row, 9),
		Beat: column.TimeAt(r.Row, 10), Via: workflow.TransitionID(r.Text(11)), Counts: r.countsAt(12), Input: r.valueAt(13),
		Failure: r.failureAt(14), Caught: r.failureAt(15), Source: r.valueAt(16),
		Order: r.Int64(17), Holds: r.Text(18), Held: r.Int64(19) == 1, Votes: r.votesAt(20),
		Memory: r.memoryAt(21),
	}
	var err error
	t.Status, err = workflow.ParseTokenStatus(r.Text(2))
	r.keepError(err)
	return t
}

func (r *rowReader) scanGroup() *state.Group {
	g := &state.Group{
		ID: workflow.GroupID(r.Int64(0)), Name: r.Text(1), Origin: workflow.TokenID(r.Int64(2)),
		Node: workflow.NodeID(r.Text(3)), Scope: r.scopeAt(4), First: workflow.TokenID(r.Int64(7)), Total: r.Int(8),
		Max: r.Int(9), Open: r.Int64(10) == 1, Started: r.Int(11), Arrived: r.Int(12), Ended: r.Int(13),
		Failed: r.Int(14), Due: column.TimeAt(r.Row, 15), Counts: r.countsAt(17), Result: r.valueAt(18), Caught: r.failureAt(19),
		Unstarted: r.Int(21), Closed: r.Int64(22) == 1,
	}
	var err error
	g.Phase, err = workflow.ParsePhase(r.Text(6))
	r.keepError(err)
	if !r.Null(16) {
		r.keepError(json.Unmarshal([]byte(r.Text(16)), &g.Spawns))
	}
	if !r.Null(20) {
		r.keepError(json.Unmarshal([]byte(r.Text(20)), &g.Added))
	}
	return g
}

func (r *rowReader) votesAt(i int) []state.Vote {
	if r.Null(i) {
		return nil
	}
	v, err := votes.Decode([]byte(r.Text(i)), nil)
	r.keepError(err)
	b, _ := v.(ballots)
	return b.Votes
}

func (r *rowReader) memoryAt(i int) *state.TaskMemory {
	if r.Null(i) {
		return nil
	}
	v, err := memories.Decode([]byte(r.Text(i)), nil)
	r.keepError(err)
	m, _ := v.(state.TaskMemory)
	return &m
}

func (r *rowReader) scanSignal() *state.KeptSignal {
	return &state.KeptSignal{
		Seq: state.SignalID(r.Int64(0)), Name: r.Text(1), ID: r.Text(2), Payload: r.valueAt(3), Due: column.TimeAt(r.Row, 4), Done: r.Int64(5) == 1,
	}
}

func (r *rowReader) scanStep() *state.Step {
	return &state.Step{Node: workflow.NodeID(r.Text(0)), Phase: state.StepPhase(r.Int(1)), Resolved: r.Int(2), Live: r.Int(3)}
}

func (r *rowReader) scanBranch() state.BranchChange {
	status, err := state.ParseBranchStatus(r.Text(2))
	r.keepError(err)
	return state.BranchChange{Scope: r.scopeAt(0), Status: status, Failure: r.failureAt(3)}
}

func (r *rowReader) scanData() state.DataChange {
	c := state.DataChange{Scope: r.scopeAt(0), Value: r.valueAt(4)}
	var err error
	c.Path, err = value.ParsePointer(r.Text(2))
	r.keepError(err)
	if i := r.Int(3); i >= 0 {
		c.Kind, c.Index = state.DataAppend, i
	}
	return c
}

func (r *rowReader) scanEvent() decision.Event {
	data, err := column.ParseObject(r.Text(7))
	r.keepError(err)
	return decision.Event{
		Seq: r.Int64(0), Record: r.Int64(1), At: time.UnixMilli(r.Int64(2)).UTC(), Type: workflow.EventType(r.Text(3)),
		Token: workflow.TokenID(r.Int64(4)), Node: workflow.NodeID(r.Text(5)), Group: workflow.GroupID(r.Int64(6)), Data: data,
	}
}

func (r *rowReader) scanEntry() Entry {
	e := Entry{Encoded: decision.Encoded{
		Seq: r.Int64(0), At: time.UnixMilli(r.Int64(1)).UTC(), Epoch: r.epochAt(2), Planner: r.Int(3),
		Message: []byte(r.Text(4)), Decisions: []byte(r.Text(5)),
	}}
	if !e.Sum.SetBytes(r.Bytes(6)) {
		r.keepError(errors.New("its checksum has the wrong size"))
	}
	return e
}
