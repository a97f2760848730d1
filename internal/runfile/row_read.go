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

// A rowReader reads columns of a run's file and keeps the first error, so that a row is read in one expression and
// checked once. The value of a column after an error has no meaning, and is dropped with the row. The functions below
// follow the columns in file.sql by number, and are the inverses of those in row_write.go: a new column goes into all
// three.
type rowReader struct {
	*sqlite.Row
	err error
}

// keepError notes an error, unless there is one already: the first is the cause of the others.
func (r *rowReader) keepError(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

// valueAt returns the JSON value in column i, nil for NULL. NULL stands for nil in a field that may be missing; a
// value null is read as nil too.
func (r *rowReader) valueAt(i int) any {
	if r.Null(i) {
		return nil
	}
	v, err := codec.DecodeValue([]byte(r.Text(i)))
	r.keepError(err)
	return v
}

// failureAt returns the failure in column i, nil for NULL.
func (r *rowReader) failureAt(i int) *workflow.Failure {
	f, err := column.ParseFailure(r.Text(i))
	r.keepError(err)
	return f
}

// countsAt returns the loop counts in column i, nil for NULL: most tokens have come by no loop.
func (r *rowReader) countsAt(i int) state.Counts {
	if r.Null(i) {
		return nil
	}
	c := state.Counts{}
	r.keepError(json.Unmarshal([]byte(r.Text(i)), &c))
	return c
}

// epochAt returns the epoch in column i, 0 for NULL. It is a text: an epoch has 64 bits without a sign, an INTEGER of
// SQLite has a sign.
func (r *rowReader) epochAt(i int) state.Epoch {
	if r.Null(i) {
		return 0
	}
	n, err := strconv.ParseUint(r.Text(i), 16, 64)
	r.keepError(err)
	return state.Epoch(n)
}

// scopeAt returns the scope in columns i and i+1: a group and a branch of it.
func (r *rowReader) scopeAt(i int) workflow.Scope {
	return workflow.Scope{Group: workflow.GroupID(r.Int64(i)), Branch: r.Int(i + 1)}
}

// scanToken returns the token of a row. Its status is a text, so that a query of the file can be read.
func (r *rowReader) scanToken() *state.Token {
	t := &state.Token{
		ID: workflow.TokenID(r.Int64(0)), Node: workflow.NodeID(r.Text(1)), Parent: workflow.TokenID(r.Int64(3)),
		Scope: r.scopeAt(4), Attempt: r.Int(6), Base: r.Int(7), Epoch: r.epochAt(8), Due: column.TimeAt(r.Row, 9),
		Beat: column.TimeAt(r.Row, 10), Via: workflow.TransitionID(r.Text(11)), Counts: r.countsAt(12), Input: r.valueAt(13),
		Failure: r.failureAt(14), Caught: r.failureAt(15), Source: r.valueAt(16),
		Order: r.Int64(17), Holds: r.Text(18), Held: r.Int64(19) == 1, Votes: r.votesAt(20),
		Memory: r.memoryAt(21),
	}
	r.keepError(t.Status.UnmarshalText([]byte(r.Text(2))))
	return t
}

// scanGroup returns the group of a row, without what is counted from the tokens in it: state.Restore counts that.
func (r *rowReader) scanGroup() *state.Group {
	g := &state.Group{
		ID: workflow.GroupID(r.Int64(0)), Name: r.Text(1), Origin: workflow.TokenID(r.Int64(2)),
		Node: workflow.NodeID(r.Text(3)), Scope: r.scopeAt(4), First: workflow.TokenID(r.Int64(7)), Total: r.Int(8),
		Max: r.Int(9), Open: r.Int64(10) == 1, Started: r.Int(11), Arrived: r.Int(12), Ended: r.Int(13),
		Failed: r.Int(14), Due: column.TimeAt(r.Row, 15), Counts: r.countsAt(17), Result: r.valueAt(18), Caught: r.failureAt(19),
		Unstarted: r.Int(21), Closed: r.Int64(22) == 1,
	}
	r.keepError(g.Phase.UnmarshalText([]byte(r.Text(6))))
	if !r.Null(16) {
		r.keepError(json.Unmarshal([]byte(r.Text(16)), &g.Spawns))
	}
	if !r.Null(20) {
		r.keepError(json.Unmarshal([]byte(r.Text(20)), &g.Added))
	}
	return g
}

// votesAt returns the votes in column i, nil for NULL. They keep their types: JSON alone would make a double of an
// int in the data of a vote.
func (r *rowReader) votesAt(i int) []state.Vote {
	if r.Null(i) {
		return nil
	}
	v, err := votes.Decode([]byte(r.Text(i)), nil)
	r.keepError(err)
	b, _ := v.(ballots)
	return b.Votes
}

// memoryAt returns what a token remembers of its task, nil for NULL.
func (r *rowReader) memoryAt(i int) *state.TaskMemory {
	if r.Null(i) {
		return nil
	}
	v, err := memories.Decode([]byte(r.Text(i)), nil)
	r.keepError(err)
	m, _ := v.(state.TaskMemory)
	return &m
}

// scanSignal returns the signal of a row. A sender without an id, and one with the id "", are the same.
func (r *rowReader) scanSignal() *state.KeptSignal {
	return &state.KeptSignal{
		Seq: state.SignalID(r.Int64(0)), Name: r.Text(1), ID: r.Text(2), Payload: r.valueAt(3), Due: column.TimeAt(r.Row, 4), Done: r.Int64(5) == 1,
	}
}

// scanStep returns the step of a row. Its phase is a number, and so the order of the phases is part of the format.
func (r *rowReader) scanStep() *state.Step {
	return &state.Step{Node: workflow.NodeID(r.Text(0)), Phase: state.StepPhase(r.Int(1)), Resolved: r.Int(2), Live: r.Int(3)}
}

// scanBranch returns how a branch was resolved. Branches that run have no row.
func (r *rowReader) scanBranch() state.BranchChange {
	status, err := state.ParseBranchStatus(r.Text(2))
	r.keepError(err)
	return state.BranchChange{Scope: r.scopeAt(0), Status: status, Failure: r.failureAt(3)}
}

// scanData returns a write to the data: an element of a list, or a value if the index is -1. Nothing in a file drops
// a scope: what was dropped is not there.
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

// scanEvent returns the event of a row.
func (r *rowReader) scanEvent() decision.Event {
	data, err := column.ParseObject(r.Text(7))
	r.keepError(err)
	return decision.Event{
		Seq: r.Int64(0), Record: r.Int64(1), At: time.UnixMilli(r.Int64(2)).UTC(), Type: workflow.EventType(r.Text(3)),
		Token: workflow.TokenID(r.Int64(4)), Node: workflow.NodeID(r.Text(5)), Group: workflow.GroupID(r.Int64(6)), Data: data,
	}
}

// scanEntry returns the record of a row. Its large values are in another table, and are read when it is decoded.
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
