package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// ForkOptions say as of when a run is forked, and what becomes of the tasks that were out
// then. The zero value forks it as it stands, or stood before it ended, and sends them again.
type ForkOptions struct {
	// At is the record after which the run is forked, from 1: of those that Journal lists.
	// 0 is the last one after which the run had not ended.
	At int64
	// InFlight says what becomes of tasks and child runs that were out. By default tasks are
	// sent again, as the same attempts, under keys of the fork, with the whole timeout of an
	// attempt, and child runs start anew.
	InFlight workflow.InFlight
	// Results are what some of these tasks come to at once, in place of being sent again: at
	// most one for each. A result that does not fit its node is refused.
	Results []workflow.ForkResult
	// Again lets Rerun do again what cannot be kept: without it, Rerun refuses to send what has
	// completed in the other run and does not follow from the node.
	Again bool
}

// An AgainError says that a rerun would do again what has completed in the other run and does not follow from
// the node: it is ErrAgain.
type AgainError struct {
	Run   workflow.RunID
	Nodes []workflow.NodeID // whose tasks or children it would send again
}

// Error names the nodes.
func (e *AgainError) Error() string {
	return fmt.Sprintf("run %q: %v: %s", string(e.Run), ErrAgain, nodesText(e.Nodes))
}

// Unwrap returns ErrAgain.
func (e *AgainError) Unwrap() error { return ErrAgain }

func nodesText(nodes []workflow.NodeID) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = string(n)
	}
	return strings.Join(names, ", ")
}

// A ForkError says why a run cannot be forked as of a record.
type ForkError struct {
	Run    workflow.RunID
	Record int64 // the fork was to be as of this one
	Last   int64 // its last record
	Err    error // ErrEnded: the run had ended by then; ErrInvalid: it has no such record
}

// Error names the run and the record, and up to which record the run can be forked.
func (e *ForkError) Error() string {
	if errors.Is(e.Err, ErrEnded) && e.Last == 1 {
		return fmt.Sprintf("run %q cannot be forked: it ended with its first record; start it again", string(e.Run))
	}
	if errors.Is(e.Err, ErrEnded) {
		return fmt.Sprintf("run %q cannot be forked as of record %d: it had ended; up to record %d it can", string(e.Run), e.Record, e.Last-1)
	}
	return fmt.Sprintf("run %q cannot be forked as of record %d: it has %d records", string(e.Run), e.Record, e.Last)
}

// Unwrap returns Err.
func (e *ForkError) Unwrap() error { return e.Err }

// Fork makes a new run of another one, live or ended, as that was after one of its records.
// When it returns nil the fork is durable, whole, and proceeds by itself; the run that was
// forked does not notice. The fork has its journal up to that record, and so its data, tokens, branches,
// votes, locks, kept signals, dead letters, staged artifacts, patches, pinned subworkflows, tenant and labels. Its
// record behind these tells that it is a fork, and of what, as Inspect and Runs do; so does the event workflow.forked.
//
// A wait for time goes on for as long as was left at the instant of that record, or, if the run is
// live and the record is its last, for as long as is left now. Tasks and child runs that were out
// belong to the other run: see ForkOptions. A fork has no parent, and one of a paused or suspended
// run is so as well. Blobs are shared, and stay until both runs are purged. run.id is the new id in
// what is evaluated from now on; a business key of Once that is made of it is a new one.
//
// [Simulation.SentAgain] of an [OfFork] says before what the fork would send again, and [Engine.SentAgain] says
// afterwards what it has sent.
//
// Fork again of the same run with the same id, record (if it is given) and options is nil as
// well, so that it may be repeated; anything else under that id is ErrRunExists.
//
// Errors: ErrRunNotFound (there is no such run, or it was purged), ErrRunExists, *ForkError (At is not one
// of its records, or it had ended by then), ErrNotLive or ErrAmbiguous (a result names no
// task that was out, or several), *workflow.Failure and *workflow.SchemaError (a result does
// not fit its node), *workflow.LimitError (the run takes more than 128 MiB), *blob.Error (an artifact that
// the run had staged was collected since it failed), ErrInvalid, ErrBusy, ErrCorrupt,
// ErrUnknown, ErrClosed.
func (e *Engine) Fork(ctx context.Context, id, newID workflow.RunID, o ForkOptions) error {
	return e.forkAs(ctx, newID, Target{Run: id}, o)
}

// Rerun makes a new run that performs a node of another one again, and what follows it: a
// fork as of the record that made the node's token, the last one there or the one that t
// names. So a run that failed is continued. The fork does not do again the work that the other run did before, nor the work that has
// completed there since and does not follow from that token, such as the other branches of a fan-out around it: that work completes in the
// fork as it has there. Rerun is refused, with an *AgainError, if some of it cannot be kept, such as a branch that maxConcurrency holds
// back until the node is done; with Again of o that is sent again. Tasks and child runs that were out in the other run and never completed
// there are sent again, as Fork does. [Simulation.SentAgain] of an [OfFork] names all that before, and [Engine.SentAgain] afterwards. If
// the run ended with that record, the fork is as of the one before. At of o is not used. Errors: ErrNotLive (there was no token of that
// id, or none at the node), ErrAgain, and those of Fork.
func (e *Engine) Rerun(ctx context.Context, t Target, newID workflow.RunID, o ForkOptions) error {
	if err := checkRerun(t, o); err != nil {
		return err
	}
	return e.forkAs(ctx, newID, t, o)
}

// checkRerun returns an error if Rerun is not told what to do, or too much.
func checkRerun(t Target, o ForkOptions) error {
	switch {
	case o.At != 0:
		return fmt.Errorf("%w: a rerun finds its record, and takes none", ErrInvalid)
	case t.Node == "" && t.Token == 0:
		return fmt.Errorf("%w: name the node to rerun, or one of its tokens", ErrInvalid)
	}
	return nil
}

// forkAs forks a run, from a node on if t names one.
func (e *Engine) forkAs(ctx context.Context, newID workflow.RunID, t Target, o ForkOptions) error {
	m, err := e.prepareFork(ctx, newID, t, o)
	if err != nil {
		return err
	}
	if exists, err := e.forkedBefore(ctx, &m); exists || err != nil {
		return err
	}
	err = e.callUntil(ctx, func() error {
		err := e.makeFork(ctx, m)
		if err == nil {
			e.wakeFork(newID)
		}
		return err
	})
	if errors.Is(err, ErrRunExists) {
		if exists, again := e.forkedBefore(ctx, &m); exists || again != nil {
			return again
		}
	}
	return err
}

// prepareFork checks what Fork is given, and returns the message that makes the run.
func (e *Engine) prepareFork(ctx context.Context, newID workflow.RunID, t Target, o ForkOptions) (m state.RunForked, err error) {
	m = state.RunForked{Run: newID, From: workflow.ForkPoint{Run: t.Run, Record: o.At}, InFlight: o.InFlight, Node: t.Node, Token: t.Token, Again: o.Again}
	if m.Act, err = e.actOf(ctx); err != nil {
		return m, err
	}
	if err := texts.CheckRunID(newID); err != nil {
		return m, err
	}
	if t.Run == newID {
		return m, fmt.Errorf("%w: run %q is no fork of itself: name another id", ErrRunExists, string(newID))
	}
	if err := ctx.Err(); err != nil {
		return m, err
	}
	m.Results, err = o.normalResults()
	return m, err
}

// makeFork reads the run, and commits the fork. Nobody else reaches the fork before those who
// watch have been told of it, and a run that had its id is purged before it gets its keys.
func (e *Engine) makeFork(ctx context.Context, m state.RunForked) error {
	release, err := e.registry.Block(ctx, m.Run)
	if err != nil {
		return err
	}
	defer release()
	source, err := e.dir.ReadForkSource(ctx, m.From.Run)
	if err != nil {
		return closedError(err)
	}
	f, err := e.planFork(source, m)
	if err != nil {
		return err
	}
	return e.commitFork(ctx, f)
}

// normalResults checks the options and returns the results as values of the JSON model.
func (o *ForkOptions) normalResults() ([]workflow.ForkResult, error) {
	switch {
	case o.At < 0:
		return nil, fmt.Errorf("%w: record %d: records count from 1", ErrInvalid, o.At)
	case o.InFlight != workflow.InFlightAgain && o.InFlight != workflow.InFlightPark:
		return nil, fmt.Errorf("%w: InFlight %q: use workflow.InFlightAgain or InFlightPark", ErrInvalid, string(o.InFlight))
	}
	var out []workflow.ForkResult
	for _, r := range o.Results {
		v, err := value.Normalize(r.Output, resultLimits)
		if err != nil {
			return nil, refusal.InvalidValue("a result that is given", err)
		}
		r.Output = v
		out = append(out, r)
	}
	return out, nil
}

// forkedBefore reports whether the run exists that is to be made: an error says that it is
// another one.
func (e *Engine) forkedBefore(ctx context.Context, m *state.RunForked) (exists bool, err error) {
	h, err := e.dir.HeadUntil(ctx, m.Run)
	switch {
	case errors.Is(err, ErrRunNotFound):
		return false, nil
	case err != nil:
		return false, closedError(err)
	case h.ForkedFrom.Run == "":
		return true, fmt.Errorf("%w: run %q was started", ErrRunExists, string(m.Run))
	case h.ForkedFrom.Run != m.From.Run, m.From.Record != 0 && h.ForkedFrom.Record != m.From.Record:
		return true, fmt.Errorf("%w: run %q was forked from record %d of run %q", ErrRunExists, string(m.Run), h.ForkedFrom.Record, string(h.ForkedFrom.Run))
	}
	for r, err := range e.dir.HistoryUntil(ctx, m.Run, 0) {
		if err != nil {
			return true, closedError(err)
		}
		if was, ok := r.Message.(state.RunForked); ok && was.Run == m.Run && was.From == h.ForkedFrom {
			if !isSameFork(&was, m) {
				err = fmt.Errorf("%w: run %q was forked with other options", ErrRunExists, string(m.Run))
			}
			return true, err
		}
	}
	return true, fmt.Errorf("%w: run %q lacks the record that forked it", ErrCorrupt, string(m.Run))
}

// SentAgain returns the nodes whose tasks and child runs a fork has sent again as it was made, or will when it is
// resumed: those that were out in the other run as of its record, or that Again has allowed. The node of a rerun
// is not among them. It is empty of a run that is no fork. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) SentAgain(ctx context.Context, id workflow.RunID) (again []workflow.NodeID, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	source, err := e.dir.ReadForkSource(ctx, id)
	if err != nil {
		return nil, closedError(err)
	}
	var first workflow.TokenID
	var unkept []workflow.NodeID
	_, err = source.Replay(source.Records, func(s *state.State, r *decision.Record) {
		if m, ok := r.Message.(state.RunForked); ok && m.Run == id {
			again = sentAgain(s, m, first, unkept)
		}
		if r.Seq < int64(len(source.Records)) {
			if next := &source.Records[r.Seq]; isForkOf(next, id) {
				s.Epoch, s.Rules, first = next.Epoch, next.Planner, s.NextToken
				plan, _ := planning.Step(s, next.Message, next.At)
				unkept = plan.Unkept
			}
		}
	})
	return again, closedError(err)
}

func isForkOf(r *decision.Record, id workflow.RunID) bool {
	m, ok := r.Message.(state.RunForked)
	return ok && m.Run == id
}

// sentAgain returns the nodes of what a fork has sent, given its state and the first token that it has made itself.
func sentAgain(s *state.State, m state.RunForked, first workflow.TokenID, unkept []workflow.NodeID) (again []workflow.NodeID) {
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

// isSameFork reports whether a fork was asked for as it is now.
func isSameFork(was, m *state.RunForked) bool {
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

// A fork is a run that is about to be made of another one.
type fork struct {
	source  *store.ForkSource
	message state.RunForked
	records []decision.Record // all of them; the last one makes the fork
	state   *state.State      // after them
	blobs   []decision.Blob   // to which the last one refers
	told    []decision.Told   // by the last one

	unkept []workflow.NodeID // that have completed in the source, and are performed again to come to the node of a rerun
}

// planFork finds the record after which a run is forked, and decides what comes of it.
func (e *Engine) planFork(source *store.ForkSource, m state.RunForked) (*fork, error) {
	now := timeout.Instant(e.hook.Now())
	f, err := placeFork(source, m, now)
	if err != nil {
		return nil, err
	}
	return f, e.decideFork(f, now)
}

// placeFork finds the record after which a run is forked. The fork has the records up to it.
func placeFork(source *store.ForkSource, m state.RunForked, now time.Time) (*fork, error) {
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
		return nil, &ForkError{Run: head.Run, Record: at, Last: last, Err: ErrInvalid}
	case ended && (at == last || last == 1):
		return nil, &ForkError{Run: head.Run, Record: last, Last: last, Err: ErrEnded}
	case at == 0 && ended:
		at = last - 1
	case at == 0:
		at = last
	}
	m.From.Record, m.AsOf = at, source.Records[at-1].At.UnixMilli()
	if at == last && !ended {
		m.AsOf = now.UnixMilli()
	}
	f := &fork{source: source, message: m, records: beginAs(source.Records[:at], head.Run)}
	if m.Token == 0 {
		return f, nil
	}
	err := f.keepEnds()
	return f, err
}

// keepEnds notes what has completed since the record of a rerun, and neither follows from its
// token nor leads to it.
func (f *fork) keepEnds() error {
	at, first := f.message.From.Record, workflow.TokenID(0)
	var ends []state.KeptEnd
	s, err := f.source.Replay(f.source.Records, func(s *state.State, r *decision.Record) {
		if r.Seq == at {
			first = s.NextToken
		}
		if r.Seq >= at && r.Seq < int64(len(f.source.Records)) {
			next := &f.source.Records[r.Seq]
			s.Epoch, s.Rules = next.Epoch, next.Planner
			ends = append(ends, planning.Ends(s, next.Message, next.At)...)
		}
	})
	if err != nil {
		return err
	}
	again := map[workflow.TokenID]bool{} // that lead to the token, or follow from it
	for id := f.message.Token; id >= first; {
		if id = s.Token(id).Parent; id != 0 {
			again[id] = true
		}
	}
	named := map[workflow.TokenID]bool{}
	for _, end := range ends {
		t := s.Token(end.Token)
		switch n := s.Graph.Node(t.Node); {
		case again[t.ID]:
			if sends := n.Kind == workflow.KindTask || n.Kind == workflow.KindSubworkflow; sends && !slices.Contains(f.unkept, t.Node) {
				f.unkept = append(f.unkept, t.Node)
			}
			continue
		case growsFrom(s, t.ID, f.message.Token):
			continue
		}
		f.message.Kept = append(f.message.Kept, end)
		for ; t.ID >= first && !named[t.ID]; t = s.Token(t.Parent) {
			named[t.ID] = true
		}
	}
	for id := first; id < s.NextToken; id++ {
		if t := s.Token(id); named[id] {
			f.message.Made = append(f.message.Made, state.KeptToken{Token: id, Parent: t.Parent, Node: t.Node})
		}
	}
	return nil
}

// growsFrom reports whether a token is another, or has grown from it.
func growsFrom(s *state.State, id, from workflow.TokenID) bool {
	for id > from {
		id = s.Token(id).Parent
	}
	return id == from
}

// checkKept refuses a fork that would do again what has completed, unless that is asked for.
func (f *fork) checkKept(unkept []workflow.NodeID) error {
	nodes := slices.Clone(f.unkept)
	for _, n := range unkept {
		if !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 || f.message.Again {
		return nil
	}
	return &AgainError{Run: f.source.Head.Run, Nodes: nodes}
}

// beginAs returns records of a run for a fork of it: the first one says whose they are.
func beginAs(records []decision.Record, id workflow.RunID) []decision.Record {
	out := append(make([]decision.Record, 0, len(records)+1), records...)
	start, _ := out[0].Message.(state.Start)
	start.As = cmp.Or(start.As, id)
	out[0].Message = start
	out[0].Decisions = append([]decision.Decision(nil), out[0].Decisions...)
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
		return nil, 0, fmt.Errorf("rerun run %q: %w: no token came to node %q", string(source.Head.Run), ErrNotLive, string(node))
	case t == nil:
		return nil, 0, fmt.Errorf("rerun run %q: %w: there is no token %d", string(source.Head.Run), ErrNotLive, id)
	case node != "" && t.Node != node:
		return nil, 0, fmt.Errorf("rerun run %q: %w: token %d is at node %q, not %q", string(source.Head.Run), ErrNotLive, id, string(t.Node), string(node))
	}
	return t, made[id], nil
}

// decideFork adds the record that makes the fork.
func (e *Engine) decideFork(f *fork, now time.Time) (err error) {
	if f.state, err = f.source.Replay(f.records, nil); err != nil {
		return err
	}
	f.state.Epoch = e.dispatchEpoch()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the planner panicked: %v", ErrSuspended, p)
		}
	}()
	plan, err := planning.Step(f.state, f.message, now)
	if err != nil {
		return fmt.Errorf("fork run %q: %w", string(f.source.Head.Run), err)
	}
	if err := f.checkKept(plan.Unkept); err != nil {
		return err
	}
	record := decision.Record{
		Seq: int64(len(f.records)) + 1, At: now, Epoch: f.state.Epoch, Planner: planning.Version, Message: f.message, Decisions: plan.Decisions,
	}
	for _, d := range plan.Decisions {
		f.told = decision.ApplyTo(f.told, f.state, d, &record)
	}
	f.records, f.blobs = append(f.records, record), plan.Blobs
	return nil
}

// commitFork makes the fork durable, in one transaction, and tells of it.
func (e *Engine) commitFork(ctx context.Context, f *fork) error {
	var given []any
	for _, r := range f.message.Results {
		given = append(given, r.Output)
	}
	for _, k := range f.message.Kept {
		given = append(given, k.Output)
	}
	release, err := e.blobs.PinReferences(ctx, given, f.state.Artifacts...)
	if err != nil {
		return err
	}
	defer release()
	if err := e.registry.CheckRoom(f.state.Tenant); err != nil {
		return err
	}
	unpin, err := e.blobs.PutMerged(e.ctx, f.blobs)
	if err != nil {
		return err
	}
	defer unpin()
	run, err := e.dir.NewFork(f.message.Run, f.source)
	if err != nil {
		return err
	}
	e.hook.Hit("fork.ask")
	began := e.metrics.Now()
	err = run.CommitAndTell(f.state, f.records, e.feeder.WantedEvents(f.told))
	e.watches.TellCommit(run, f.records, err)
	if err == nil {
		e.metrics.Committed(f.state, f.records, f.told, began)
	}
	if err = errors.Join(err, run.Close()); err != nil {
		return closedError(err)
	}
	e.hook.Hit("fork.answer")
	e.runs.Committed(decision.Outcome(f.state))
	return nil
}

// wakeFork sets a fork going. An actor that had looked for the run before it was there may still be about to say that there is no such
// run.
func (e *Engine) wakeFork(id workflow.RunID) {
	for range 3 {
		err := e.runs.Activate(id)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrRunNotFound) {
			break
		}
	}
	e.runs.Wake(id)
}
