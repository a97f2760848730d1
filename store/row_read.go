package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A reader reads columns of a run's file and keeps the first error.
type reader struct {
	*sqlite.Row
	err error
}

func (r *reader) keep(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

// value returns the JSON value in column i, nil for NULL.
func (r *reader) value(i int) any {
	if r.Null(i) {
		return nil
	}
	v, err := codec.DecodeValue([]byte(r.Text(i)))
	r.keep(err)
	return v
}

func (r *reader) failure(i int) *workflow.Failure {
	f, err := parseFailure(r.Text(i))
	r.keep(err)
	return f
}

func (r *reader) counts(i int) workflow.Counts {
	if r.Null(i) {
		return nil
	}
	c := workflow.Counts{}
	r.keep(json.Unmarshal([]byte(r.Text(i)), &c))
	return c
}

func (r *reader) epoch(i int) workflow.Epoch {
	if r.Null(i) {
		return 0
	}
	n, err := strconv.ParseUint(r.Text(i), 16, 64)
	r.keep(err)
	return workflow.Epoch(n)
}

func (r *reader) scope(i int) workflow.Scope {
	return workflow.Scope{Group: workflow.GroupID(r.Int64(i)), Branch: r.Int(i + 1)}
}

func (r *reader) token() *workflow.Token {
	t := &workflow.Token{
		ID: workflow.TokenID(r.Int64(0)), Node: workflow.NodeID(r.Text(1)), Parent: workflow.TokenID(r.Int64(3)),
		Scope: r.scope(4), Attempt: r.Int(6), Base: r.Int(7), Epoch: r.epoch(8), Due: instant(r.Row, 9),
		Beat: instant(r.Row, 10), Via: workflow.TransitionID(r.Text(11)), Counts: r.counts(12), Input: r.value(13),
		Failure: r.failure(14), Caught: r.failure(15), Source: r.value(16),
		Order: r.Int64(17), Holds: r.Text(18), Held: r.Int64(19) == 1, Votes: r.votes(20),
	}
	var err error
	t.Status, err = workflow.ParseTokenStatus(r.Text(2))
	r.keep(err)
	return t
}

func (r *reader) group() *workflow.Group {
	g := &workflow.Group{
		ID: workflow.GroupID(r.Int64(0)), Name: r.Text(1), Origin: workflow.TokenID(r.Int64(2)),
		Node: workflow.NodeID(r.Text(3)), Scope: r.scope(4), First: workflow.TokenID(r.Int64(7)), Total: r.Int(8),
		Max: r.Int(9), Open: r.Int64(10) == 1, Started: r.Int(11), Arrived: r.Int(12), Ended: r.Int(13),
		Failed: r.Int(14), Due: instant(r.Row, 15), Counts: r.counts(17), Result: r.value(18), Caught: r.failure(19),
		Unstarted: r.Int(21), Closed: r.Int64(22) == 1,
	}
	var err error
	g.Phase, err = workflow.ParsePhase(r.Text(6))
	r.keep(err)
	if !r.Null(16) {
		r.keep(json.Unmarshal([]byte(r.Text(16)), &g.Spawns))
	}
	if !r.Null(20) {
		r.keep(json.Unmarshal([]byte(r.Text(20)), &g.Added))
	}
	return g
}

func (r *reader) votes(i int) []workflow.Vote {
	if r.Null(i) {
		return nil
	}
	v, err := votes.Decode([]byte(r.Text(i)), nil)
	r.keep(err)
	b, _ := v.(ballots)
	return b.Votes
}

func (r *reader) signal() *workflow.KeptSignal {
	return &workflow.KeptSignal{
		Seq: workflow.SignalID(r.Int64(0)), Name: r.Text(1), ID: r.Text(2), Payload: r.value(3), Due: instant(r.Row, 4), Done: r.Int64(5) == 1,
	}
}

func (r *reader) step() *workflow.Step {
	return &workflow.Step{Node: workflow.NodeID(r.Text(0)), Phase: workflow.StepPhase(r.Int(1)), Resolved: r.Int(2), Live: r.Int(3)}
}

func (r *reader) branch() workflow.BranchChange {
	status, err := workflow.ParseBranchStatus(r.Text(2))
	r.keep(err)
	return workflow.BranchChange{Scope: r.scope(0), Status: status, Failure: r.failure(3)}
}

func (r *reader) data() workflow.DataChange {
	c := workflow.DataChange{Scope: r.scope(0), Value: r.value(4)}
	var err error
	c.Path, err = parsePointer(r.Text(2))
	r.keep(err)
	if i := r.Int(3); i >= 0 {
		c.Kind, c.Index = workflow.DataAppend, i
	}
	return c
}

func (r *reader) event() decision.Event {
	data, err := object(r.Text(7))
	r.keep(err)
	return decision.Event{
		Seq: r.Int64(0), Record: r.Int64(1), At: time.UnixMilli(r.Int64(2)).UTC(), Type: decision.EventType(r.Text(3)),
		Token: workflow.TokenID(r.Int64(4)), Node: workflow.NodeID(r.Text(5)), Group: workflow.GroupID(r.Int64(6)), Data: data,
	}
}

func (r *reader) journal() entry {
	e := entry{Encoded: decision.Encoded{
		Seq: r.Int64(0), At: time.UnixMilli(r.Int64(1)).UTC(), Epoch: r.epoch(2), Planner: r.Int(3),
		Message: []byte(r.Text(4)), Decisions: []byte(r.Text(5)),
	}}
	if !e.sum.set(r.Bytes(6)) {
		r.keep(errors.New("a checksum is none"))
	}
	return e
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// parsePointer is the inverse of pointer.
func parsePointer(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, "/")
	if parts[0] != "" {
		return nil, fmt.Errorf("%.40q is not a pointer", text)
	}
	for i, p := range parts {
		parts[i] = unescape.Replace(p)
	}
	return parts[1:], nil
}
