// Package forking plans forks of runs: it finds the record after which a run is forked, and the records and the state of the fork. It commits
// nothing.
package forking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/shown"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An AgainError is a pawl.AgainError.
type AgainError struct {
	Run   workflow.RunID
	Nodes []workflow.NodeID // whose tasks or children it would send again
}

// Error names the nodes.
func (e *AgainError) Error() string {
	names := make([]string, len(e.Nodes))
	for i, n := range e.Nodes {
		names[i] = string(n)
	}
	return fmt.Sprintf("run %q: %v: %s", string(e.Run), refusal.ErrAgain, strings.Join(names, ", "))
}

// Unwrap returns refusal.ErrAgain.
func (e *AgainError) Unwrap() error { return refusal.ErrAgain }

// As finds e as a type of package pawl.
func (e *AgainError) As(target any) bool { return shown.As(e, target) }

// An Error is a pawl.ForkError: it says why a run cannot be forked as of a record.
type Error struct {
	Run    workflow.RunID
	Record int64 // the fork was to be as of this one
	Last   int64 // its last record
	Err    error // state.ErrEnded: the run had ended by then; refusal.ErrInvalid: it has no such record
}

// Error names the run and the record, and up to which record the run can be forked.
func (e *Error) Error() string {
	if errors.Is(e.Err, state.ErrEnded) && e.Last == 1 {
		return fmt.Sprintf("run %q cannot be forked: it ended with its first record; start it again", string(e.Run))
	}
	if errors.Is(e.Err, state.ErrEnded) {
		return fmt.Sprintf("run %q cannot be forked as of record %d: it had ended; up to record %d it can", string(e.Run), e.Record, e.Last-1)
	}
	return fmt.Sprintf("run %q cannot be forked as of record %d: it has %d records", string(e.Run), e.Record, e.Last)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// As finds e as a type of package pawl.
func (e *Error) As(target any) bool { return shown.As(e, target) }

// A Fork is a run that is about to be made of another one.
type Fork struct {
	Source  *store.ForkSource
	Message state.RunForked
	Records []decision.Record // all of them; the last one makes the fork
	State   *state.State      // after them
	Blobs   []decision.Blob   // to which the last one refers
	Told    []decision.Told   // by the last one

	unkept []workflow.NodeID // that have completed in the source, and are performed again to come to the node of a rerun
}

// Plan finds the record after which a run is forked, and decides what comes of it: epoch is that of the tasks of the fork.
func Plan(source *store.ForkSource, m state.RunForked, epoch state.Epoch, now time.Time) (*Fork, error) {
	f, err := Place(source, m, now)
	if err != nil {
		return nil, err
	}
	err = f.addRecord(epoch, now)
	return f, err
}

// Place finds the record after which a run is forked. The fork has the records up to it.
func Place(source *store.ForkSource, m state.RunForked, now time.Time) (*Fork, error) {
	head, last := &source.Head, int64(len(source.Records))
	ended := head.Status.Final()
	at := m.From.Record
	if m.Node != "" || m.Token != 0 {
		t, made, err := findMade(source, m.Node, m.Token)
		if err != nil {
			return nil, err
		}
		m.Node, m.Token, at = t.Node, t.ID, made
		if ended && at == last {
			at-- // which is 0 if that was the first
		}
	}
	switch {
	case at > last:
		return nil, &Error{Run: head.Run, Record: at, Last: last, Err: refusal.ErrInvalid}
	case ended && (at == last || last == 1):
		return nil, &Error{Run: head.Run, Record: last, Last: last, Err: state.ErrEnded}
	case at == 0 && ended:
		at = last - 1
	case at == 0:
		at = last
	}
	m.From.Record, m.AsOf = at, source.Records[at-1].At.UnixMilli()
	if at == last && !ended {
		m.AsOf = now.UnixMilli()
	}
	f := &Fork{Source: source, Message: m, Records: beginAs(source.Records[:at], head.Run)}
	if m.Token == 0 {
		return f, nil
	}
	err := f.keepEnds()
	return f, err
}

// keepEnds notes what has completed since the record of a rerun, and neither follows from its
// token, or from a task to which a result is given, nor leads to it.
func (f *Fork) keepEnds() error {
	at, first := f.Message.From.Record, workflow.TokenID(0)
	trail := newTrail(f.Message.Token)
	var graph *compiled.Graph // as of that record
	var ends []state.KeptEnd
	s, err := f.Source.Replay(f.Source.Records, func(s *state.State, r *decision.Record) {
		if r.Seq < at {
			return
		}
		if r.Seq == at {
			first, graph = s.NextToken, s.Graph
			trail.beginAsOf(s, f.Message.Results)
		}
		trail.noteRecord(s, r)
		if r.Seq < int64(len(f.Source.Records)) {
			next := &f.Source.Records[r.Seq]
			s.Epoch, s.Rules = next.Epoch, next.Planner
			ends = append(ends, planning.Ends(s, next.Message, next.At)...)
		}
	})
	if err != nil {
		return err
	}
	again := map[workflow.TokenID]bool{} // that lead to the token
	for id := f.Message.Token; id >= first; {
		if id = s.Token(id).Parent; id != 0 {
			again[id] = true
		}
	}
	for _, end := range ends {
		t := s.Token(end.Token)
		n := s.Graph.Node(t.Node)
		sends := n == nil || n.Kind == workflow.KindTask || n.Kind == workflow.KindSubworkflow // nil: a patch has removed it
		switch {
		case again[t.ID]:
			if sends && !slices.Contains(f.unkept, t.Node) {
				f.unkept = append(f.unkept, t.Node)
			}
		case trail.follows[t.ID], !sends && graph.Node(t.Node) == nil: // the fork has no such node, and nothing of it was sent
		default:
			f.Message.Kept = append(f.Message.Kept, end)
		}
	}
	f.listMade(s, trail, first)
	return nil
}

// listMade lists the tokens that were made since the record of the fork, from the token first on, and have completed or led
// to those: and with each the others that the planner may confuse with it.
func (f *Fork) listMade(s *state.State, trail *trail, first workflow.TokenID) {
	before := func(id workflow.TokenID) workflow.TokenID {
		if trail.unsure[id] {
			return 0 // so that none stands for it
		}
		return cmp.Or(trail.behind[id], s.Token(id).Parent)
	}
	type kinship struct { // as of the planner
		parent workflow.TokenID
		node   workflow.NodeID
	}
	named, kin := map[workflow.TokenID]bool{}, map[kinship]bool{}
	for _, end := range f.Message.Kept {
		for id := end.Token; id >= first && !named[id]; id = before(id) {
			named[id], kin[kinship{before(id), s.Token(id).Node}] = true, true
		}
	}
	for id := first; id < s.NextToken; id++ {
		if k := (kinship{before(id), s.Token(id).Node}); kin[k] {
			f.Message.Made = append(f.Message.Made, state.KeptToken{Token: id, Parent: k.parent, Node: k.node})
		}
	}
}

// growsFrom reports whether a token is another, or has grown from it.
func growsFrom(s *state.State, id, from workflow.TokenID) bool {
	for id > from {
		id = s.Token(id).Parent
	}
	return id == from
}

// CheckKept refuses a fork that would do again what has completed, unless that is asked for.
func (f *Fork) CheckKept(unkept []workflow.NodeID) error {
	nodes := slices.Clone(f.unkept)
	for _, n := range unkept {
		if !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 || f.Message.Again {
		return nil
	}
	return &AgainError{Run: f.Source.Head.Run, Nodes: nodes}
}

// beginAs returns records of a run for a fork of it: the first one says whose they are.
func beginAs(records []decision.Record, id workflow.RunID) []decision.Record {
	out := append(make([]decision.Record, 0, len(records)+1), records...)
	start, _ := out[0].Message.(state.Start)
	start.As = cmp.Or(start.As, id)
	out[0].Message = start
	out[0].Decisions = slices.Clone(out[0].Decisions)
	for i, d := range out[0].Decisions {
		if d, ok := d.(decision.StartRun); ok {
			d.As = start.As
			out[0].Decisions[i] = d
		}
	}
	return out
}

// findMade returns a token of a run, the last one at a node or the one that is named, and the
// record that made it.
func findMade(source *store.ForkSource, node workflow.NodeID, id workflow.TokenID) (*state.Token, int64, error) {
	made := []int64{0} // by token
	s, err := source.Replay(source.Records, func(s *state.State, r *decision.Record) {
		for workflow.TokenID(len(made)) < s.NextToken {
			made = append(made, r.Seq)
		}
	})
	if err != nil {
		return nil, 0, err
	}
	if id == 0 {
		for id = s.NextToken - 1; id > 0 && s.Token(id).Node != node; id-- {
		}
	}
	t := s.Token(id)
	switch {
	case t == nil && node != "":
		return nil, 0, fmt.Errorf("rerun run %q: %w: no thread came to node %q", string(source.Head.Run), state.ErrNotLive, string(node))
	case t == nil:
		return nil, 0, fmt.Errorf("rerun run %q: %w: there is no thread %d", string(source.Head.Run), state.ErrNotLive, id)
	case node != "" && t.Node != node:
		return nil, 0, fmt.Errorf("rerun run %q: %w: thread %d is at node %q, not %q", string(source.Head.Run), state.ErrNotLive, id, string(t.Node), string(node))
	}
	return t, made[id], nil
}

// addRecord adds the record that makes the fork.
func (f *Fork) addRecord(epoch state.Epoch, now time.Time) (err error) {
	if f.State, err = f.Source.Replay(f.Records, nil); err != nil {
		return err
	}
	f.State.Epoch = epoch
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the planner panicked: %v", state.ErrSuspended, p)
		}
	}()
	plan, err := planning.Step(f.State, f.Message, now)
	if err != nil {
		return fmt.Errorf("fork run %q: %w", string(f.Source.Head.Run), err)
	}
	if err := f.CheckKept(plan.Unkept); err != nil {
		return err
	}
	record := decision.Record{
		Seq: int64(len(f.Records)) + 1, At: now, Epoch: f.State.Epoch, Planner: planning.Version, Message: f.Message, Decisions: plan.Decisions,
	}
	for _, d := range plan.Decisions {
		f.Told = decision.ApplyTo(f.Told, f.State, d, &record)
	}
	f.Records, f.Blobs = append(f.Records, record), plan.Blobs
	return nil
}

// GivenValues returns the values with which the message that makes the fork ends tasks: they may refer to blobs.
func (f *Fork) GivenValues() (given []any) {
	for _, r := range f.Message.Results {
		given = append(given, r.Output)
	}
	for _, k := range f.Message.Kept {
		given = append(given, k.Output)
	}
	return given
}

// ListSentAgain returns the nodes whose tasks and child runs a fork has sent again as it was made, given its records.
func ListSentAgain(source *store.ForkSource, id workflow.RunID) (again []workflow.NodeID, err error) {
	var first workflow.TokenID
	var unkept []workflow.NodeID
	_, err = source.Replay(source.Records, func(s *state.State, r *decision.Record) {
		if m, ok := r.Message.(state.RunForked); ok && m.Run == id {
			again = SentAgain(s, m, first, unkept)
		}
		if r.Seq < int64(len(source.Records)) {
			if next := &source.Records[r.Seq]; isForkOf(next, id) {
				s.Epoch, s.Rules, first = next.Epoch, next.Planner, s.NextToken
				plan, _ := planning.Step(s, next.Message, next.At)
				unkept = plan.Unkept
			}
		}
	})
	return again, err
}

func isForkOf(r *decision.Record, id workflow.RunID) bool {
	m, ok := r.Message.(state.RunForked)
	return ok && m.Run == id
}

// SentAgain returns the nodes of what a fork has sent, given its state and the first token that it has made itself.
func SentAgain(s *state.State, m state.RunForked, first workflow.TokenID, unkept []workflow.NodeID) (again []workflow.NodeID) {
	add := func(n workflow.NodeID) {
		if !slices.Contains(again, n) {
			again = append(again, n)
		}
	}
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		out := t.Status == workflow.Dispatched || t.Status == workflow.WaitingForChild || t.Held && t.Attempt > 0
		if !out || m.Token == 0 && id >= first || m.Token != 0 && growsFrom(s, id, m.Token) {
			continue
		}
		add(t.Node)
	}
	for _, n := range unkept {
		add(n)
	}
	return again
}

// isSame reports whether a fork was asked for as it is now.
func isSame(was, m *state.RunForked) bool {
	if was.InFlight != m.InFlight || was.Node != m.Node && m.Node != "" || was.Token != m.Token && m.Token != 0 ||
		(was.Token != 0) != (m.Node != "" || m.Token != 0) || len(was.Results) != len(m.Results) {
		return false
	}
	for i, r := range m.Results {
		w := was.Results[i]
		if w.Token != r.Token || w.Node != r.Node || value.Hash(w.Output) != value.Hash(r.Output) {
			return false
		}
	}
	return true
}

// CheckFree fails with state.ErrRunExists if there is a run of an id, which the caller blocks.
func CheckFree(ctx context.Context, dir *store.Dir, id workflow.RunID) error {
	switch _, err := dir.HeadUntil(ctx, id); {
	case errors.Is(err, store.ErrRunNotFound):
		return nil
	case err != nil:
		return refusal.Closed(err)
	}
	return fmt.Errorf("%w: run %q", state.ErrRunExists, string(id))
}

// CheckForked reports whether the run exists that is to be made: an error says that it is
// another one.
func CheckForked(ctx context.Context, dir *store.Dir, m *state.RunForked) (exists bool, err error) {
	h, err := dir.HeadUntil(ctx, m.Run)
	switch {
	case errors.Is(err, store.ErrRunNotFound):
		return false, nil
	case err != nil:
		return false, refusal.Closed(err)
	case h.ForkedFrom.Run == "":
		return true, fmt.Errorf("%w: run %q was started", state.ErrRunExists, string(m.Run))
	case h.ForkedFrom.Run != m.From.Run, m.From.Record != 0 && h.ForkedFrom.Record != m.From.Record:
		return true, fmt.Errorf("%w: run %q was forked from record %d of run %q", state.ErrRunExists, string(m.Run), h.ForkedFrom.Record, string(h.ForkedFrom.Run))
	}
	for r, err := range dir.HistoryUntil(ctx, m.Run, 0) {
		switch {
		case errors.Is(err, store.ErrRunNotFound): // it was purged in between
			return false, nil
		case err != nil:
			return true, refusal.Closed(err)
		}
		if was, ok := r.Message.(state.RunForked); ok && was.Run == m.Run && was.From == h.ForkedFrom {
			if !isSame(&was, m) {
				err = fmt.Errorf("%w: run %q was forked with other options", state.ErrRunExists, string(m.Run))
			}
			return true, err
		}
	}
	return true, fmt.Errorf("%w: run %q lacks the record that forked it", store.ErrCorrupt, string(m.Run))
}
