package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/internal/watching"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A Snapshot is the committed state of a run, as Inspect returns it.
type Snapshot struct {
	workflow.Outcome
	Workflow   string             `json:"workflow"` // name of the definition
	Version    int                `json:"version"`
	Tenant     string             `json:"tenant,omitzero"`     // on whose behalf
	Labels     map[string]string  `json:"labels,omitzero"`     // nil without
	ForkedFrom workflow.ForkPoint `json:"forkedFrom,omitzero"` // the run that it was forked from, and the record; zero if it was started
	Revision   int                `json:"revision"`            // of its definition: 1, and one more for every patch
	Seq        int64              `json:"seq"`                 // of the last record
	Alarm      time.Time          `json:"alarm,omitzero"`      // when time alone changes it next; zero if never
	Tokens     []Token            `json:"tokens,omitzero"`     // all of them, by id
	Groups     []Group            `json:"groups,omitzero"`     // all of them, by id
	Input      map[string]any     `json:"input,omitzero"`      // of the run
	State      map[string]any     `json:"state,omitzero"`      // the run's own state
	Live       int                `json:"live"`                // tokens that are not terminal
	Signals    int                `json:"signals,omitzero"`    // kept until somebody waits for them: Engine.Signals lists them

	// These fields are of a run that has not ended.
	OutputSoFar map[string]any      `json:"outputSoFar,omitzero"` // written to its output; nil if nothing is
	Staged      []workflow.Artifact `json:"staged,omitzero"`      // artifacts that count when it completes, in the order in which they came
	Remaining   []workflow.NodeID   `json:"remaining,omitzero"`   // of a dag: nodes that have neither ended nor been skipped, in the order of the definition
}

// Inspect returns the committed state of a run, except the data of its branches and its kept signals, which Branches and Signals
// list. It writes nothing and does not disturb the run. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) Inspect(ctx context.Context, id workflow.RunID) (Snapshot, error) {
	if err := e.checkCall(ctx); err != nil {
		return Snapshot{}, err
	}
	h, s, err := e.dir.HeadAndState(ctx, id)
	if err != nil {
		return Snapshot{}, closedError(err)
	}
	out := e.snapshotOf(s, &h)
	out.Artifacts = h.Artifacts
	e.markTasks(out.Tokens)
	return out, nil
}

// snapshotOf returns a state as a Snapshot; h has what a state does not know.
func (e *Engine) snapshotOf(s *state.State, h *store.Head) Snapshot {
	out := Snapshot{
		Outcome: decision.Outcome(s), Workflow: h.Workflow, Version: h.Version, Tenant: h.Tenant, Labels: h.Labels, ForkedFrom: h.ForkedFrom, Revision: s.Revision(), Seq: h.Seq,
		Alarm: h.Alarm, Input: s.Input, State: s.Section(state.SectionState), Live: s.LiveCount(), Signals: s.KeptSignals(),
	}
	if !s.Status.Final() {
		if written := s.Section(state.SectionOutput); len(written) > 0 {
			out.OutputSoFar = written
		}
		out.Staged, out.Remaining = slices.Clone(s.Artifacts), remainingNodes(s)
	}
	rows := s.AllRows()
	for _, t := range rows.Tokens {
		out.Tokens = append(out.Tokens, e.viewToken(s.Run, t, placeOf(s, t)))
	}
	for _, g := range rows.Groups {
		out.Groups = append(out.Groups, viewGroup(g))
	}
	return out
}

// remainingNodes returns the nodes of a dag that have neither ended nor been skipped.
func remainingNodes(s *state.State) (out []workflow.NodeID) {
	if s.Graph.Definition.Mode != workflow.ModeDAG {
		return nil
	}
	for i := range s.Graph.Definition.Nodes {
		id := s.Graph.Definition.Nodes[i].ID
		if s.Step(id).Phase < state.StepDone {
			out = append(out, id)
		}
	}
	return out
}

// A RunSummary is one run of the index.
type RunSummary struct {
	workflow.Outcome
	Workflow   string             `json:"workflow"` // name of the definition
	Version    int                `json:"version"`
	Tenant     string             `json:"tenant,omitzero"`     // on whose behalf
	Labels     map[string]string  `json:"labels,omitzero"`     // nil without
	Seq        int64              `json:"seq"`                 // of the last record
	Alarm      time.Time          `json:"alarm,omitzero"`      // when time alone changes it next; zero if never
	Parent     workflow.RunID     `json:"parent,omitzero"`     // of a child run; "" without
	ForkedFrom workflow.ForkPoint `json:"forkedFrom,omitzero"` // the run that it was forked from, and the record; zero if it was started
	Meta       map[string]float64 `json:"meta,omitzero"`       // with RunFilter.Sort: what it has reported, as Overview.Meta and MetaBelow together; nil without
	Trouble    string             `json:"trouble,omitzero"`    // why nothing more can be said of the run: its row in the index is damaged
}

// summaryOf returns what a list says of a run. If the run has an instant that nothing can show, the Trouble says so, and the
// instants are zero.
func summaryOf(h *store.Head) RunSummary {
	for _, at := range []time.Time{h.StartedAt, h.EndedAt, h.Alarm} {
		if y := at.Year(); y < 1 || y > 9999 {
			known := *h
			known.StartedAt, known.EndedAt, known.Alarm = time.Time{}, time.Time{}, time.Time{}
			out := summaryOf(&known)
			out.Trouble = fmt.Sprintf("it has an instant of the year %d: there are those of the years 1 to 9999 only", y)
			return out
		}
	}
	return RunSummary{
		Outcome: h.Outcome(), Workflow: h.Workflow, Version: h.Version, Tenant: h.Tenant, Seq: h.Seq, Alarm: h.Alarm,
		Labels: h.Labels, Parent: h.Parent, ForkedFrom: h.ForkedFrom,
	}
}

// A RunFilter selects runs, and says in which order they are listed and how many. The
// zero value selects all, oldest first.
//
// Where is a condition: an expression in CEL that is true or false of a run, such as
//
//	status == "failed" && labels.customer == "7" && started > timestamp("2026-11-01T00:00:00Z")
//
// Its variables are run, workflow, status, tenant, parent, forkedFrom and code (of the failure), which are
// texts, "" without; version and seq; labels, a map of texts, in which labels.x is "" if the run
// has no label x; started and ended, which is null until the run has ended. An index finds run, workflow,
// status, tenant, parent and labels that == or in compares with constant texts, and that && joins with the
// rest. For all else the engine looks at each run. A condition has at most 4 KiB, and may cost some 1 ms
// for a run.
type RunFilter struct {
	Workflow   string               // name of the definition; "" is any
	Parent     workflow.RunID       // whose children; "" is any
	Tenant     string               // on whose behalf; "" is any
	ForkedFrom workflow.RunID       // whose forks; "" is any
	Labels     map[string]string    // all of these; nil is any
	Roots      bool                 // only runs without a parent
	Prefix     string               // of the id
	Status     []workflow.RunStatus // any of these; none is any
	Since      time.Time            // started at this instant or later; zero is no bound
	Until      time.Time            // started before this instant; zero is no bound
	EndedSince time.Time            // ended at this instant or later; zero is no bound
	EndedUntil time.Time            // ended before this instant; zero is no bound
	Where      string               // a condition in CEL on what Runs tells of a run, such as status == "failed"; "" is any
	Newest     bool                 // those that were started last come first
	Sort       string               // the name of a number in the metadata of results: runs with the largest sum come first, of equal ones as Newest says. Each run is read, 10,000 at most: more that fit are a *workflow.LimitError
	After      workflow.RunID       // those that come after this run in the order of the list; "" is from the first
	Limit      int                  // at most so many runs; 0 is all
	Effort     time.Duration        // of a processor, about, that looking at runs may take; 0 is no bound. Then the list ends with an *EffortError
}

// Runs lists runs in the order in which they came into the directory, by their start or by Repair, from the index, page by page:
// it looks at some 250 runs at a time, and commits go on in between. A run that is started meanwhile may or may not be in the
// list. A damaged run is in the list, with its Trouble, whether or not it fits. An error ends the list: ErrInvalid if no run can
// have a Status, or, as a *WhereError, if Where is wrong or cannot be evaluated for a run; ErrRunNotFound if the run of After
// does not exist; ErrClosed; the error of ctx, also while no run fits.
func (e *Engine) Runs(ctx context.Context, f RunFilter) iter.Seq2[RunSummary, error] {
	err := e.checkUsable(ctx)
	if i := slices.IndexFunc(f.Status, func(s workflow.RunStatus) bool { return s > workflow.RunCancelled }); err == nil && i >= 0 {
		err = fmt.Errorf("%w: RunFilter.Status: %d is no status of a run", ErrInvalid, f.Status[i])
	}
	if err != nil {
		return func(yield func(RunSummary, error) bool) { yield(RunSummary{}, err) }
	}
	return listUntilDone(ctx, e.listRuns(ctx, f), func(r listedRun) RunSummary { return r.RunSummary })
}

// A listedRun is a run of a list; damage is why nothing more can be said of it, nil without.
type listedRun struct {
	RunSummary
	damage error
}

// listRuns yields what Runs does.
func (e *Engine) listRuns(ctx context.Context, f RunFilter) iter.Seq2[listedRun, error] {
	return func(yield func(listedRun, error) bool) {
		for h, err := range e.ranker.ListRuns(ctx, e.dir, store.RunFilter(f)) {
			r := listedRun{RunSummary: summaryOf(&h.Head)}
			r.Meta = h.Reported.Floats()
			if damage := (*CorruptError)(nil); errors.As(err, &damage) && damage.Run != "" {
				r, err = listedRun{RunSummary{Outcome: workflow.Outcome{Run: damage.Run}, Trouble: damage.Error()}, err}, nil
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// Summary returns a run as Runs would list it, from the index alone, in some 10 µs whatever
// the size of the run. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) Summary(ctx context.Context, id workflow.RunID) (RunSummary, error) {
	if err := e.checkCall(ctx); err != nil {
		return RunSummary{}, err
	}
	h, err := e.dir.HeadUntil(ctx, id)
	if err != nil {
		return RunSummary{}, closedError(err)
	}
	return summaryOf(&h), nil
}

// A RunCount says how many runs of a workflow have a status.
type RunCount struct {
	Workflow string             `json:"workflow"` // name of the definition
	Status   workflow.RunStatus `json:"status"`
	Runs     int64              `json:"runs"` // at least 1
}

// Counts returns how many runs there are, by workflow and status, sorted by both; a status that no run of a workflow has is left
// out. It looks at no run: counters change with the commits.
func (e *Engine) Counts(ctx context.Context) ([]RunCount, error) {
	if err := e.checkCall(ctx); err != nil {
		return nil, err
	}
	counts, err := e.dir.Counts(ctx)
	if err != nil {
		return nil, closedError(err)
	}
	out := make([]RunCount, len(counts))
	for i, c := range counts {
		out[i] = RunCount(c)
	}
	return out, nil
}

// EventsOptions say which events of a run to list, or which records.
type EventsOptions struct {
	After  int64 // sequence of the last one already seen; 0 lists from the first
	Follow bool  // wait for further ones until the run has ended
}

// Events lists the events of a run, in sequence, without gaps; task.dispatched has the key of the attempt. With Follow it waits
// for new ones until the run has ended or ctx is done. An error ends the list.
func (e *Engine) Events(ctx context.Context, id workflow.RunID, o EventsOptions) iter.Seq2[history.Event, error] {
	return followRun(ctx, e, id, o, func(after int64) iter.Seq2[history.Event, error] {
		return e.withKeys(id, e.dir.EventsUntil(ctx, id, after))
	}, func(ev *history.Event) int64 { return ev.Seq })
}

// withKeys adds to the events of dispatched tasks the keys of the attempts, which are not stored.
func (e *Engine) withKeys(id workflow.RunID, events iter.Seq2[history.Event, error]) iter.Seq2[history.Event, error] {
	return func(yield func(history.Event, error) bool) {
		for ev, err := range events {
			if epoch, _ := ev.Data["epoch"].(string); ev.Type == workflow.EventTaskDispatched && epoch != "" {
				number, _ := ev.Data["attempt"].(int64)
				of, _ := strconv.ParseUint(epoch, 16, 64) // as it was written
				ev.Data = maps.Clone(ev.Data)
				ev.Data["key"] = string(e.keyOf(taskkey.Attempt{Run: id, Token: ev.Token, Number: int(number), Epoch: state.Epoch(of)}))
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// Journal lists the records of a run: every accepted message with its decisions.
// Replaying them gives the state of the run. With Follow it waits for new records until the run has ended or ctx is done. An
// error ends the list.
func (e *Engine) Journal(ctx context.Context, id workflow.RunID, o EventsOptions) iter.Seq2[Record, error] {
	list := followRun(ctx, e, id, o, func(after int64) iter.Seq2[decision.Record, error] { return e.dir.HistoryUntil(ctx, id, after) }, func(r *decision.Record) int64 { return r.Seq })
	return func(yield func(Record, error) bool) {
		for r, err := range list {
			if !yield(shownRecord(&r), err) {
				return
			}
		}
	}
}

// followRun lists a sequence of a run, as EventsOptions say.
func followRun[T any](ctx context.Context, e *Engine, id workflow.RunID, o EventsOptions, list func(after int64) iter.Seq2[T, error], seqOf func(*T) int64) iter.Seq2[T, error] {
	if err := e.checkUsable(ctx); err != nil {
		var none T
		return func(yield func(T, error) bool) { yield(none, err) }
	}
	return watching.Follow(ctx, e.waiters, id, o.After, o.Follow, watching.Sequence[T]{List: list, SeqOf: seqOf})
}

// A BranchView is one branch of a group, as Branches lists it.
type BranchView struct {
	Group   workflow.GroupID  `json:"group"`
	Index   int               `json:"index"`            // counts from 0
	Path    string            `json:"path"`             // as of the tokens in it
	Token   workflow.TokenID  `json:"token"`            // its first one
	Status  string            `json:"status"`           // running (also before it has begun), arrived, ended (elsewhere, by choice) or failed
	Begun   bool              `json:"begun"`            // false of one that waits for its turn
	Live    int               `json:"live,omitzero"`    // live tokens in it and in the groups within it
	Failure *workflow.Failure `json:"failure,omitzero"` // of a branch that failed
	Item    any               `json:"item,omitzero"`    // the element that it was made for
	// The state and output that it has written itself, until its join has fired: nil if nothing.
	State  map[string]any `json:"state,omitzero"`
	Output map[string]any `json:"output,omitzero"`
}

// A BranchFilter selects branches of a run. The zero value selects all.
type BranchFilter struct {
	Group  workflow.GroupID // of this group; 0 for all groups
	Status string           // with this one; "" for all
}

// Branches lists the branches of a run's fan-outs with their statuses and their own data, by group
// and index, page by page as Tokens does: a branch may have moved on since. The values are of the
// JSON model: do not modify them. An error ends the list. Errors: as of Overview; ErrInvalid for an
// unknown Status.
func (e *Engine) Branches(ctx context.Context, id workflow.RunID, f BranchFilter) iter.Seq2[BranchView, error] {
	return func(yield func(BranchView, error) bool) { f.listBranches(e.lookerOf(ctx, id))(yield) }
}

// Branches lists the branches of the copy, as Engine.Branches lists those of a run. Values are those of the
// copy: do not modify them.
func (s *Simulation) Branches(f BranchFilter) iter.Seq2[BranchView, error] {
	return func(yield func(BranchView, error) bool) { f.listBranches(s.lookAtCopy)(yield) }
}

// listBranches lists the branches once.
func (f *BranchFilter) listBranches(look watching.Look) iter.Seq2[BranchView, error] {
	return watching.ListBranches(look, f.Group, f.Status, viewBranch)
}

// viewBranch shows a branch. Its element may be a view of other data, and is made plain.
func viewBranch(s *state.State, g *state.Group, sc workflow.Scope, b state.Branch) BranchView {
	view := BranchView{
		Group: g.ID, Index: sc.Branch, Path: s.PathOf(sc), Token: g.TokenOf(sc.Branch),
		Status: b.Status.String(), Begun: sc.Branch < g.Started, Live: b.Live, Failure: b.Failure,
	}
	if items := s.BranchItems(g.ID); sc.Branch < len(items) {
		view.Item = value.Materialize(items[sc.Branch])
	}
	view.State, _ = s.OwnData(sc, state.SectionState).(map[string]any)
	view.Output, _ = s.OwnData(sc, state.SectionOutput).(map[string]any)
	return view
}

// A KeptSignal is a signal that no token has waited for yet, as Signals lists it.
type KeptSignal struct {
	Seq     int64     `json:"seq"` // counts the signals of the run, from 1
	Name    string    `json:"name"`
	ID      string    `json:"id,omitzero"`      // of the sender; "" without
	Payload any       `json:"payload,omitzero"` // a value of the JSON model: do not modify it
	Due     time.Time `json:"due,omitzero"`     // when it is lost; zero if never
}

// Signals lists the signals that a run keeps because no token has waited for them yet, oldest first, page by page as Tokens does:
// a signal may have been taken since. An error ends the list. Errors: as of Overview.
func (e *Engine) Signals(ctx context.Context, id workflow.RunID) iter.Seq2[KeptSignal, error] {
	return func(yield func(KeptSignal, error) bool) { listSignals(e.lookerOf(ctx, id))(yield) }
}

// listSignals lists the kept signals once.
func listSignals(look watching.Look) iter.Seq2[KeptSignal, error] {
	return watching.ListSignals(look, func(k *state.KeptSignal) KeptSignal {
		return KeptSignal{Seq: int64(k.Seq), Name: k.Name, ID: k.ID, Payload: k.Payload, Due: k.Due}
	})
}

// Signals lists the signals that the copy keeps, as Engine.Signals lists those of a run. Values are those of the
// copy: do not modify them.
func (s *Simulation) Signals() iter.Seq[KeptSignal] {
	return func(yield func(KeptSignal) bool) {
		for k, err := range listSignals(s.lookAtCopy) {
			if err != nil || !yield(k) {
				return
			}
		}
	}
}
