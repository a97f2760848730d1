package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/diskuse"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/simulating"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/timing"
	"github.com/pawl-run/pawl/internal/watching"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// An Overview is a run in numbers.
type Overview struct {
	workflow.Outcome
	Workflow string         `json:"workflow"` // name of the definition
	Revision int            `json:"revision"` // revision of its definition: 1, plus one for every patch
	Seq      int64          `json:"seq"`      // number of the last record
	Alarm    time.Time      `json:"alarm,omitzero"`
	Live     int            `json:"live"`            // tokens that are not terminal
	Nodes    []NodeOverview `json:"nodes,omitzero"`  // nodes that tokens have reached, in the order of the definition
	Groups   []Group        `json:"groups,omitzero"` // groups that gather, by id: the first 100
	Gather   int            `json:"gather"`          // groups that gather

	// The sums are exact in billionths, whatever the order of results; each is shown as the float64 next to it.
	Meta      map[string]float64 `json:"meta,omitzero"`      // numbers in the metadata of results of its own attempts, also failed ones, summed by name
	MetaBelow map[string]float64 `json:"metaBelow,omitzero"` // the same for child runs whose end it knows, with their descendants

	MetaLimits   map[string]float64 `json:"metaLimits,omitzero"`   // the most that both may add up to, by name
	MetaReserved map[string]float64 `json:"metaReserved,omitzero"` // the budgets of its attempts and child runs that have begun and not ended
}

// A NodeOverview counts the tokens that are at a node, or ended there.
type NodeOverview struct {
	Node   workflow.NodeID              `json:"node"`
	Tokens map[workflow.TokenStatus]int `json:"tokens"`
	Meta   map[string]float64           `json:"meta,omitzero"` // as in Overview, for its attempts, or for the child runs that it has started
}

// maxOverviewGroups bounds the groups of an Overview.
const maxOverviewGroups = 100

// Overview returns a run in numbers: how many tokens are at each node, in which status, and how far its fan-outs are. A run that
// is awake answers from memory, between two commits, in some 0.1 µs a token; for a run that is asleep the state is read, as by
// Inspect. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed, the cause of ctx.
func (e *Engine) Overview(ctx context.Context, id workflow.RunID) (Overview, error) {
	var out Overview
	err := e.lookAt(ctx, id, nil, func(s *state.State, seq int64) { out = overviewOf(s, seq) })
	return out, err
}

// overviewOf counts the tokens of a state by node and status.
func overviewOf(s *state.State, seq int64) Overview {
	out := Overview{
		Outcome: decision.Outcome(s), Workflow: s.Graph.Definition.Name, Revision: s.Revision(), Seq: seq, Alarm: s.Alarm(), Live: s.LiveCount(),
		Meta: s.Reported.Own.Floats(), MetaBelow: s.Reported.Below.Floats(), MetaLimits: s.MetaLimits().Floats(), MetaReserved: s.Reserved().Floats(),
	}
	for _, n := range s.CountTokens() {
		out.Nodes = append(out.Nodes, NodeOverview{Node: n.Node, Tokens: n.Tokens, Meta: s.Reported.OfNode(n.Node).Floats()})
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g.Phase != workflow.Gathering {
			continue
		}
		if out.Gather++; out.Gather <= maxOverviewGroups {
			out.Groups = append(out.Groups, viewGroup(g))
		}
	}
	return out
}

// lookAt calls at with the committed state of a run: in its actor, if it has one, else with what
// is read, which kept remembers for further looks unless it is nil.
//
// An actor answers between two messages, so that what at sees is committed and does not change meanwhile; at must not keep it. An
// actor that ends before it answers leaves a state that can be read.
func (e *Engine) lookAt(ctx context.Context, id workflow.RunID, kept *asleep, at func(s *state.State, seq int64)) error {
	if err := e.checkCall(ctx); err != nil {
		return err
	}
	if kept != nil && kept.state != nil {
		at(kept.state, kept.seq)
		return nil
	}
	if a := e.registry.Hold(id); a != nil {
		err := a.Look(ctx, at)
		e.registry.Release(a)
		if !errors.Is(err, actor.ErrStopped) {
			return err
		}
	}
	h, s, err := e.dir.HeadAndState(ctx, id)
	if err != nil {
		return closedError(err)
	}
	if kept != nil {
		kept.state, kept.seq = s, h.Seq
	}
	at(s, h.Seq)
	return nil
}

// asleep is the state of a run without an actor, as it was read.
type asleep struct {
	state *state.State
	seq   int64
}

// lookerOf returns what looks at a run, for one list.
func (e *Engine) lookerOf(ctx context.Context, id workflow.RunID) watching.Look {
	var kept asleep
	return func(at func(*state.State)) error {
		return e.lookAt(ctx, id, &kept, func(s *state.State, _ int64) { at(s) })
	}
}

// lookAtCopy looks at the copy.
func (s *Simulation) lookAtCopy(at func(*state.State)) error {
	if !s.isMade() {
		return simulating.ErrNone
	}
	at(s.copy.State)
	return nil
}

// A TokenFilter selects tokens of a run. The zero value selects all.
type TokenFilter struct {
	Node   workflow.NodeID        // at this node; "" for all
	Status []workflow.TokenStatus // in one of these; nil for all
	Group  workflow.GroupID       // in a branch of this group itself, not of one within; 0 for all
	After  workflow.TokenID       // with a higher id
}

func (f *TokenFilter) takesToken(t *state.Token) bool {
	return (f.Node == "" || t.Node == f.Node) && (f.Status == nil || slices.Contains(f.Status, t.Status)) && (f.Group == 0 || t.Scope.Group == f.Group)
}

// tokenPage is how many tokens are looked at between two turns of the run.
const tokenPage = 2000

// Tokens lists tokens of a run by id, page by page: for a run that is awake, each page is what its memory holds at that moment,
// so that a token may have moved on since. An error ends the list. Errors: as of Overview.
func (e *Engine) Tokens(ctx context.Context, id workflow.RunID, f TokenFilter) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		if f.After == math.MaxInt64 {
			return
		}
		type placed struct {
			token *state.Token
			at    tokenPlace
		}
		next := max(f.After, 0) + 1
		read := func(s *state.State) (page []placed, more bool) {
			for end := min(next+tokenPage, s.NextToken); next < end; next++ {
				if t := s.Token(next); f.takesToken(t) {
					page = append(page, placed{t, placeOf(s, t)})
				}
			}
			return page, next < s.NextToken
		}
		for page, err := range watching.ListPages(e.lookerOf(ctx, id), read) {
			if err != nil {
				yield(Token{}, err)
				return
			}
			views := make([]Token, len(page))
			for i, p := range page {
				views[i] = e.viewToken(id, p.token, p.at)
			}
			e.markTasks(views)
			for i := range views {
				if !yield(views[i], nil) {
					return
				}
			}
		}
	}
}

// A Token is one thread of execution of a run, as Inspect shows it.
type Token struct {
	ID      workflow.TokenID     `json:"id"`
	Node    workflow.NodeID      `json:"node"`             // where it is, or where it ended
	Status  workflow.TokenStatus `json:"status"`           // what it does there, or how it ended
	Parent  workflow.TokenID     `json:"parent,omitzero"`  // the token that it grew from; 0 for the first
	Scope   workflow.Scope       `json:"scope,omitzero"`   // the group and the branch that it is in
	Path    string               `json:"path"`             // the same as a text: root, and /NODE:INDEX for every fan-out around it, by the node that fanned out
	JoinAt  workflow.NodeID      `json:"joinAt,omitzero"`  // while it waits for its siblings: the node that their join leads to, where it stands and CancelNodes ends it
	Attempt int                  `json:"attempt,omitzero"` // number of the attempt of its task, from 1; 0 before the first
	Key     Key                  `json:"key,omitzero"`     // key of that attempt; empty if none has been dispatched
	Snoozes int                  `json:"snoozes,omitzero"` // how often its task has asked to be called again, see Snooze
	Chosen  string               `json:"chosen,omitzero"`  // the task type or subworkflow that an expression of its node has chosen; "" if none has, and once it has ended
	Input   any                  `json:"input,omitzero"`   // input of its approval, a value of the JSON model: do not modify it
	Due     time.Time            `json:"due,omitzero"`     // when time alone changes it; zero if never
	Limited bool                 `json:"limited,omitzero"` // its task waits for the limit of its type or its tenant, see Options.Types and Tenants
	// Executing says that its task is performed now, by a handler of this process or by a worker that has
	// said so, since when and, if that is known, by whom. It is false for a task that is queued, and for one whose
	// result comes later, through Complete. The engine sees it when it is asked, and stores it nowhere. Queued says what
	// a task waits for that nobody performs yet.
	Executing bool              `json:"executing,omitzero"`
	Since     time.Time         `json:"since,omitzero"`
	Worker    string            `json:"worker,omitzero"`
	Queued    *workflow.Queued  `json:"queued,omitzero"`
	Details   any               `json:"details,omitzero"` // details of its task's last heartbeat; nil if there were none
	Failure   *workflow.Failure `json:"failure,omitzero"` // failure of its last attempt; nil if that has not failed
}

// Live reports whether the token can still change.
func (t Token) Live() bool { return !t.Status.Terminal() }

// A Group is one occurrence of a fan-out, as Inspect shows it.
type Group struct {
	ID      workflow.GroupID `json:"id"`
	Name    string           `json:"name,omitzero"`  // the sibling group; empty if no join waits for it
	Origin  workflow.TokenID `json:"origin"`         // the token that fanned out
	Node    workflow.NodeID  `json:"node"`           // the node at which it fanned out
	Scope   workflow.Scope   `json:"scope,omitzero"` // the group and the branch that the origin is in
	Phase   workflow.Phase   `json:"phase"`          // whether its join has fired
	Total   int              `json:"total"`          // branches made so far
	Arrived int              `json:"arrived"`        // branches that have arrived at the join
	Ended   int              `json:"ended"`          // branches that ended elsewhere, by choice
	Failed  int              `json:"failed"`         // branches that failed
	Running int              `json:"running"`        // branches that have begun and have not arrived, ended or failed
	Live    int              `json:"live"`           // live tokens in it and in the groups within it
	Due     time.Time        `json:"due,omitzero"`   // when its join times out; zero if never
}

// A tokenPlace is where a token is, as the state around it tells.
type tokenPlace struct {
	path   string
	joinAt workflow.NodeID
}

func placeOf(s *state.State, t *state.Token) tokenPlace {
	at := tokenPlace{path: s.PathOf(t.Scope)}
	if t.Status == workflow.WaitingForSiblings {
		at.joinAt = s.NodeOf(t)
	}
	return at
}

// viewToken shows a token. It shows no input but that of an approval which waits, as others may be large.
func (e *Engine) viewToken(run workflow.RunID, t *state.Token, at tokenPlace) Token {
	view := Token{
		ID: t.ID, Node: t.Node, Status: t.Status, Parent: t.Parent, Scope: t.Scope, Path: at.path, JoinAt: at.joinAt,
		Attempt: t.Attempt, Snoozes: t.Remembered().Snoozes, Chosen: t.Remembered().Chosen, Details: t.Remembered().Details, Failure: t.Failure,
	}
	if t.Epoch != 0 {
		view.Key = e.keyOf(taskkey.Attempt{Run: run, Token: t.ID, Number: t.Attempt, Epoch: t.Epoch})
	}
	if t.Status == workflow.WaitingForApproval {
		view.Input = t.Input
	}
	if t.Live() {
		view.Due = t.Alarm()
	}
	return view
}

// viewGroup shows a group, without its branches.
func viewGroup(g *state.Group) Group {
	return Group{
		ID: g.ID, Name: g.Name, Origin: g.Origin, Node: g.Node, Scope: g.Scope, Phase: g.Phase,
		Total: g.Total, Arrived: g.Arrived, Ended: g.Ended, Failed: g.Failed, Running: g.RunningBranches(), Live: g.Live, Due: g.Due,
	}
}

// Stats are numbers of an engine that is open, as Engine.Stats returns them.
//
// They are read under the locks of their owners, one after the other, and so need not agree to
// the last task.
type Stats struct {
	Active   int        `json:"active"`            // runs in memory
	Queued   int        `json:"queued"`            // tasks that wait for a slot, or for the limit of their type or tenant
	Running  int        `json:"running"`           // tasks that the executor has
	Pending  int        `json:"pending"`           // tasks whose results come later, through Complete
	Waiting  int        `json:"waiting"`           // results that wait to be committed
	Commits  int64      `json:"commits"`           // transactions since Open, each of one message or of many
	DiskFull bool       `json:"diskFull,omitzero"` // the last commit found no room, and the next one would not: nothing begins, and results wait
	Feed     *FeedStats `json:"feed,omitzero"`     // nil without Options.Feed

	Damaged         int              `json:"damaged,omitzero"`         // runs that could not be loaded when that was tried last: rescue.Verify says why
	DamagedRuns     []workflow.RunID `json:"damagedRuns,omitzero"`     // the first ten of them, by id
	SchedulesFailed int              `json:"schedulesFailed,omitzero"` // schedules that are paused because their runs failed
}

// Executor returns the one of Options, or what its method Unwrap returns, if it has one; nil if Options has none. Callers may ask it how
// it stands; only the engine gives it tasks. Error: ErrClosed.
func (e *Engine) Executor() (Executor, error) {
	if err := e.checkUsable(context.Background()); err != nil {
		return nil, err
	}
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if _, ok := e.options.Executor.(*absentExecutor); ok {
		return nil, nil
	}
	if around, ok := e.options.Executor.(interface{ Unwrap() Executor }); ok {
		return around.Unwrap(), nil
	}
	return e.options.Executor, nil
}

// Stats returns what the engine does now. It looks at no run, so that it costs the same for any
// number of runs. Errors: ErrClosed, the cause of ctx.
func (e *Engine) Stats(ctx context.Context) (Stats, error) {
	if err := e.checkUsable(ctx); err != nil {
		return Stats{}, err
	}
	switch {
	case ctx.Err() != nil:
		return Stats{}, late.Cause(ctx)
	case e.ctx.Err() != nil:
		return Stats{}, ErrClosed
	}
	c := e.dispatcher.Counts()
	out := Stats{Active: e.registry.Count(), Queued: c.Queued, Running: c.Running, Pending: c.Pending, Waiting: c.Waiting, Commits: e.dir.Commits()}
	out.DiskFull, out.Feed, out.SchedulesFailed = e.dir.IsFull(), e.feedStats(), e.scheduler.CountFailed()
	out.Damaged, out.DamagedRuns = e.runs.CountDamaged(), e.runs.Damaged(10)
	return out, nil
}

// A Record is one message that a run has taken, with the decisions on it.
// Engine.Journal lists them. The types of the message and of the decisions are internal: print them.
type Record struct {
	Seq       int64          // from 1, without gaps
	At        time.Time      // the instant that the decision sees as now
	Epoch     uint64         // epoch of the engine that decided it
	Planner   int            // version of the planner
	Message   any            // a start, a result, an alarm, a cancel and so on
	Decisions []fmt.Stringer // each is one line
}

// shownRecord returns a record as callers see it.
func shownRecord(r *decision.Record) Record {
	out := Record{Seq: r.Seq, At: r.At, Epoch: uint64(r.Epoch), Planner: r.Planner, Message: r.Message, Decisions: make([]fmt.Stringer, len(r.Decisions))}
	for i, d := range r.Decisions {
		out.Decisions[i] = d
	}
	return out
}

// Why says what every token of a run waits for, until when, whether that can still come, and
// how the token came there: by which transition, which conditions were asked and what they
// read. For a run that failed it says what failed first, down through the child runs. Things to be done come first. It
// plays the journal of the run, and of child runs that failed, in time in proportion to their records, and does not disturb
// the run. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) Why(ctx context.Context, id workflow.RunID) (history.Explanation, error) {
	rec, err := e.recordingOf(ctx, id)
	if err != nil {
		return history.Explanation{}, err
	}
	x, err := replay.Why(rec)
	if err == nil {
		err = replay.ExplainBelow(&x, func(child workflow.RunID) (*replay.Recording, error) { return e.recordingOf(ctx, child) })
	}
	e.dispatcher.MarkWaits(id, x.Waits)
	return x, closedError(err)
}

// A Recording is a run as its journal tells it: what Import takes. It is a *replay.Recording, of a package that is open to read.
type Recording interface {
	// Close frees the memory that the recording takes.
	Close()
}

// Recording returns a run as package replay looks at it: after any of its records, compared
// with another run, on another definition. Each look reads the journal as it is then, and
// ends when ctx is done. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) Recording(ctx context.Context, id workflow.RunID) (Recording, error) {
	rec, err := e.recordingOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return rec, nil
}

// recordingOf is Recording with the type of package replay.
func (e *Engine) recordingOf(ctx context.Context, id workflow.RunID) (*replay.Recording, error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	h, err := e.dir.HeadUntil(ctx, id)
	if err != nil {
		return nil, closedError(err)
	}
	g, err := e.dir.GraphUntil(ctx, h.Definition)
	if err != nil {
		return nil, closedError(err)
	}
	return replay.New(id, g, listUntilDone(ctx, e.dir.HistoryUntil(ctx, id, 0), asIs)), nil
}

// OpenRecording returns what replay.Find opens of a name: the file of a run, an export, an archive, or a run of another
// directory. It opens with Options.Codec what was sealed with the keys of this engine. Close it. Errors: those of replay.Find,
// *SealedError, ErrClosed.
func (e *Engine) OpenRecording(name string) (Recording, error) {
	if err := e.checkUsable(context.Background()); err != nil {
		return nil, err
	}
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	rec, err := replay.Find(name, replay.Options{Codec: e.options.Codec})
	if err != nil {
		return nil, err
	}
	return rec, nil
}

// ObserveFigure adds a figure to the metrics of the engine that a part of the program beside it knows: the number of tasks that workers
// hold, "seats.held", and would take besides, "seats.free", of leases that ran out, "leases.expired", and of live pages that somebody
// watches, "viewers". worker.Pool.Attach and inspector.Handler call it. Each collection calls read, which answers at once, until Close;
// what several have of one figure is added up. Errors: ErrInvalid for any other figure, ErrBusy beyond 1,000 calls, ErrClosed.
func (e *Engine) ObserveFigure(figure string, read func() int64) error {
	if err := e.checkUsable(context.Background()); err != nil {
		return err
	}
	if e.ctx.Err() != nil {
		return ErrClosed
	}
	switch err := e.metrics.AddFigure(figure, read); {
	case errors.Is(err, telemetry.ErrReaders):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case err != nil:
		return fmt.Errorf("%w: observe the figure %.100q: %w", ErrInvalid, figure, err)
	}
	return nil
}

// Timings says how long attempts of tasks have waited and worked, by node, workflow or task type: in the last hour, day or month, today
// beside yesterday and last week, and what there is to do now. It answers from memory, in some 20 µs for each row and none for runs.
// Errors: ErrInvalid for a filter that asks for something else, ErrClosed, the cause of ctx.
func (e *Engine) Timings(ctx context.Context, f history.TimingFilter) (history.Timings, error) {
	if err := e.checkUsable(ctx); err != nil {
		return history.Timings{}, err
	}
	switch {
	case ctx.Err() != nil:
		return history.Timings{}, late.Cause(ctx)
	case e.ctx.Err() != nil:
		return history.Timings{}, ErrClosed
	}
	f, err := timing.CheckFilter(f)
	if err != nil {
		return history.Timings{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	out := e.timings.Read(ctx, f, e.hook.Now())
	out.Load = e.dispatcher.Loads()
	slices.SortFunc(out.Load, func(a, b history.TypeLoad) int { return strings.Compare(a.Task, b.Task) })
	return out, nil
}

// DiskUse says how many bytes of the directory its runs take, by workflow, status, tenant and age, and what Purge would free, behind
// them its other parts. It reads the row of each run, without large outputs, in pages between which commits go on, and no file of one.
// Callers share what was measured within 5 s. The groups are sorted, and names of more than 10,000 are "_OTHER". Errors: ErrClosed, that of ctx.
func (e *Engine) DiskUse(ctx context.Context) ([]history.DiskUse, error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	out, err := e.disk.MeasureDisk(ctx, diskuse.Directory{Store: e.dir, Path: e.path, Blobs: e.blobs.Own(), Now: e.hook.Now})
	return out, closedError(err)
}
