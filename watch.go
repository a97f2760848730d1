package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A RunChange says how a run stands after a commit, or that the watcher has missed changes. Watch yields it.
type RunChange struct {
	Run        workflow.RunID     `json:"run"`
	Workflow   string             `json:"workflow"` // name of the definition
	Version    int                `json:"version"`
	Tenant     string             `json:"tenant,omitzero"` // on whose behalf
	Labels     map[string]string  `json:"labels,omitzero"` // nil without; shared, not to be changed
	Parent     workflow.RunID     `json:"parent,omitzero"` // of a child run; "" without
	Status     workflow.RunStatus `json:"status"`          // as in the RunSummary
	Seq        int64              `json:"seq"`             // of the last record
	At         time.Time          `json:"at"`              // of the last record
	StartedAt  time.Time          `json:"startedAt,omitzero"`
	EndedAt    time.Time          `json:"endedAt,omitzero"`    // zero while it runs
	Code       string             `json:"code,omitzero"`       // of the failure with which it ended, or for which it is suspended
	ForkedFrom workflow.ForkPoint `json:"forkedFrom,omitzero"` // the run that it was forked from, and the record; zero if it was started

	// Purged says that the run was purged: it is in no list any more, and its id is free. At is
	// when; the other fields say how it stood.
	Purged bool `json:"purged,omitzero"`
	// Lost says that there were changes which nobody will be told. At is when that was told; all other fields are zero.
	// List the runs now: no change is missing that is committed after the list has begun.
	Lost bool `json:"lost,omitzero"`
}

// A WatchFilter selects runs by how they stand after a commit. The zero value selects all.
// A run that had a status of the filter and has it no longer is not told.
type WatchFilter struct {
	Workflow string               // name of the definition; "" is any
	Parent   workflow.RunID       // whose children; "" is any
	Tenant   string               // on whose behalf; "" is any
	Labels   map[string]string    // all of these; nil is any
	Roots    bool                 // only runs without a parent
	Prefix   string               // of the id
	Status   []workflow.RunStatus // any of these; none is any
	Where    string               // a condition in CEL, as in a RunFilter; "" is no condition
}

// takesHead reports whether a run may fit the filter, as far as that costs next to nothing.
//
// It is called for each commit and each watch, in the goroutine that commits. The reader evaluates
// conditions that cost more, such as Where itself.
func (w *runWatch) takesHead(h *store.Head) bool {
	f := &w.filter
	if w.where != nil {
		seen := store.FilterRun(h)
		if !w.where.MayFit(&seen) {
			return false
		}
	}
	return (f.Workflow == "" || h.Workflow == f.Workflow) && (f.Parent == "" || h.Parent == f.Parent) &&
		(f.Tenant == "" || h.Tenant == f.Tenant) && hasLabels(h.Labels, f.Labels) && (!f.Roots || h.Parent == "") &&
		strings.HasPrefix(string(h.Run), f.Prefix) && (len(f.Status) == 0 || slices.Contains(f.Status, h.Status))
}

// Bounds of Watch.
const (
	MaxWatched  = 4096 // runs whose changes wait for one reader: up to 0.5 MiB of memory
	MaxWatchers = 2048 // readers at once: each commit looks at the filter of each
)

// Watch tells how every run that fits the filter stands, after each of its commits, until ctx
// is done or the engine closes. The first change says Lost: a program that shows runs lists
// them then, and keeps the list up to date with the changes that follow.
//
//	for change, err := range engine.Watch(ctx, pawl.WatchFilter{}) {
//		if err != nil {
//			return err
//		}
//		if change.Lost {
//			// list the runs
//		}
//	}
//
// Only the last change of each run is kept for the reader. If changes of more than MaxWatched runs wait, all
// are dropped, and the reader is told Lost: a reader never slows a commit. A run that is purged is told once
// more, as Purged. An error ends the list: ErrClosed, ErrFailed, a *WhereError with ErrInvalid, ErrBusy
// (MaxWatchers read already: nothing is told), the cause of ctx.
func (e *Engine) Watch(ctx context.Context, f WatchFilter) iter.Seq2[RunChange, error] {
	err := e.checkUsable(ctx)
	var where *filter.Where
	if err == nil && f.Where != "" {
		where, err = filter.Parse(f.Where)
	}
	if err != nil {
		return func(yield func(RunChange, error) bool) { yield(RunChange{}, invalidWhere(err)) }
	}
	f.Status, f.Labels = slices.Clone(f.Status), maps.Clone(f.Labels)
	return func(yield func(RunChange, error) bool) {
		w := &runWatch{filter: f, where: where, lost: true, moved: make(chan struct{}, 1)}
		if err := e.watches.addWatch(w); err != nil {
			yield(RunChange{}, err)
			return
		}
		defer e.watches.removeWatch(w)
		for {
			fits := false
			c, err := e.nextChange(ctx, w)
			if err == nil {
				fits, err = c.fitsWhere(where)
			}
			if err != nil {
				yield(RunChange{}, err)
				return
			}
			if fits && !yield(c, nil) {
				return
			}
		}
	}
}

// nextChange waits for the next change that a watch takes.
//
// Changes that wait are taken before the end of the engine is told.
func (e *Engine) nextChange(ctx context.Context, w *runWatch) (RunChange, error) {
	for {
		if ctx.Err() != nil {
			return RunChange{}, context.Cause(ctx)
		}
		c, ok, closed := w.takeChange()
		switch {
		case ok:
			return c, nil
		case closed:
			return RunChange{}, ErrClosed
		}
		select {
		case <-w.moved:
		case <-e.dir.Failed():
			return RunChange{}, closedError(e.dir.Err())
		case <-ctx.Done():
		}
	}
}

// runWatches are those who watch all runs. A commit costs them nothing while there are none.
//
// The list behind all is replaced and never changed, so that a commit reads it without a lock.
type runWatches struct {
	mu     sync.Mutex // guards closed, and changes of all
	all    atomic.Pointer[[]*runWatch]
	closed bool
}

// errWatchers is what a reader is told at the bound.
var errWatchers = fmt.Errorf("%w: %d readers watch already (MaxWatchers): end some, or let several readers share one", ErrBusy, MaxWatchers)

// addWatch adds a reader, or tells it that the engine is closed, or that there are too many.
func (ws *runWatches) addWatch(w *runWatch) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		w.lost, w.closed = false, true
		return nil
	}
	all := []*runWatch{w}
	if old := ws.all.Load(); old != nil {
		all = append(all, *old...)
	}
	if len(all) > MaxWatchers {
		return errWatchers
	}
	ws.all.Store(&all)
	return nil
}

// removeWatch forgets a reader that has ended.
func (ws *runWatches) removeWatch(w *runWatch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	old := ws.all.Load()
	if old == nil {
		return
	}
	all := slices.DeleteFunc(slices.Clone(*old), func(x *runWatch) bool { return x == w })
	if len(all) == 0 {
		ws.all.Store(nil)
		return
	}
	ws.all.Store(&all)
}

// tellCommit tells what a commit of records has made of a run, or that nobody knows.
//
// If a commit's outcome is unknown the run may stand as before or as after: every reader is
// told to list the runs.
func (ws *runWatches) tellCommit(run *store.Run, records []decision.Record, err error) {
	all := ws.all.Load()
	if all == nil || len(records) == 0 || err != nil && !errors.Is(err, ErrUnknown) {
		return
	}
	if err != nil {
		ws.loseAll()
		return
	}
	h := run.Head()
	ws.tellChange(&h, changeOf(&h, records[len(records)-1].At))
}

// tellPurge tells that a run was purged; h was its head.
func (ws *runWatches) tellPurge(h *store.Head, at time.Time) {
	c := changeOf(h, at)
	c.Purged = true
	ws.tellChange(h, c)
}

// tellChange gives a change to those who watch the run.
func (ws *runWatches) tellChange(h *store.Head, c *RunChange) {
	all := ws.all.Load()
	if all == nil {
		return
	}
	for _, w := range *all {
		if w.takesHead(h) {
			w.putChange(c)
		}
	}
}

// loseAll tells that nobody knows what has changed.
func (ws *runWatches) loseAll() {
	if all := ws.all.Load(); all != nil {
		for _, w := range *all {
			w.loseChanges()
		}
	}
}

// changeOf says how a run stands since an instant.
func changeOf(h *store.Head, at time.Time) *RunChange {
	c := &RunChange{
		Run: h.Run, Workflow: h.Workflow, Version: h.Version, Tenant: h.Tenant, Labels: h.Labels, Parent: h.Parent,
		Status: h.Status, Seq: h.Seq, At: at, StartedAt: h.StartedAt, EndedAt: h.EndedAt, ForkedFrom: h.ForkedFrom,
	}
	if h.Failure != nil {
		c.Code = h.Failure.Code
	}
	return c
}

// closeWatches ends all watches once their readers have what waits for them.
func (ws *runWatches) closeWatches() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.closed = true
	if all := ws.all.Load(); all != nil {
		for _, w := range *all {
			w.closeWatch()
		}
	}
}

// A runWatch is one who watches runs, with the changes that wait for it.
//
// pending has one change for each run in order. While lost is set both are empty, as the list
// that the reader will make has everything.
type runWatch struct {
	filter WatchFilter
	where  *filter.Where // of the filter, for its reader to evaluate; nil without
	moved  chan struct{} // gets a signal when there is something to take

	mu      sync.Mutex
	pending map[workflow.RunID]*RunChange // which other watches share
	order   []workflow.RunID              // of pending, oldest first
	lost    bool                          // the reader is to be told before anything else
	closed  bool
}

// putChange replaces the change of a run that waits, or adds one. The place in order stays: a
// run that changes all the time is not put back behind the others for ever.
func (w *runWatch) putChange(c *RunChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost {
		return // what the reader will list has it
	}
	if w.pending[c.Run] == nil {
		if len(w.order) == MaxWatched {
			w.dropChanges()
			return
		}
		w.order = append(w.order, c.Run)
	}
	if w.pending == nil {
		w.pending = map[workflow.RunID]*RunChange{}
	}
	w.pending[c.Run] = c
	w.wakeReader()
}

// loseChanges drops what waits, and has the reader told.
func (w *runWatch) loseChanges() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropChanges()
}

// dropChanges is loseChanges for who holds the lock.
func (w *runWatch) dropChanges() {
	w.lost, w.pending, w.order = true, nil, nil
	w.wakeReader()
}

// closeWatch lets the reader end when it has taken what waits.
func (w *runWatch) closeWatch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.wakeReader()
}

// wakeReader never blocks a commit: one signal is enough, as the reader takes until nothing is
// left.
func (w *runWatch) wakeReader() {
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// takeChange returns what the reader is told next, if there is anything, and whether nothing
// will follow.
func (w *runWatch) takeChange() (c RunChange, ok, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.lost:
		w.lost = false
		return RunChange{At: time.Now().UTC().Truncate(time.Millisecond), Lost: true}, true, false
	case len(w.order) == 0:
		return RunChange{}, false, w.closed
	}
	id := w.order[0]
	w.order = w.order[1:]
	c = *w.pending[id]
	delete(w.pending, id)
	return c, true, false
}

// Wait returns a run's outcome when it has ended. It needs no handle and works
// after a restart as well. Errors: ErrRunNotFound, ErrClosed, ErrFailed, the cause of ctx.
// That the run failed is no error: see Outcome.Err. A run that is suspended or
// cannot be loaded has not ended, so Wait keeps waiting: Inspect tells why. With Options.Maintenance nothing
// brings a run to its end: ErrMaintenance.
func (e *Engine) Wait(ctx context.Context, id workflow.RunID) (workflow.Outcome, error) {
	if err := e.checkUsable(ctx); err != nil {
		return workflow.Outcome{}, err
	}
	// The waiter is there before the row is looked at: a run that ends in between is told by
	// the channel, one that had ended by the row.
	w, err := e.waiters.addWaiter(id)
	if err != nil {
		return workflow.Outcome{}, err
	}
	defer e.waiters.removeWaiter(id, w)
	if e.options.Maintenance || !e.registry.GoesOn(id) { // else it is known to be there, and its end is told
		h, err := e.dir.HeadUntil(ctx, id)
		if err != nil {
			return workflow.Outcome{}, closedError(err)
		}
		if h.Status.Final() {
			return h.Outcome(), nil
		}
	}
	if e.options.Maintenance {
		return workflow.Outcome{}, fmt.Errorf("run %q: %w", string(id), ErrMaintenance)
	}
	select {
	case out, ok := <-w:
		if !ok {
			return workflow.Outcome{}, ErrClosed
		}
		return out, nil
	case <-e.dir.Failed():
		return workflow.Outcome{}, closedError(e.dir.Err())
	case <-ctx.Done():
		return workflow.Outcome{}, context.Cause(ctx)
	}
}

// waiters are those who wait for something to happen to a run: its end, or
// anything at all.
//
// Each channel holds one value and is sent to once, under the lock; then it is forgotten. A
// sender therefore never blocks, though a reader may have gone.
type waiters struct {
	hook     *testhook.Hook
	mu       sync.Mutex
	ends     map[workflow.RunID]map[chan workflow.Outcome]struct{}
	watchers map[workflow.RunID]map[chan struct{}]struct{}
	closed   bool
}

func newWaiters(hook *testhook.Hook) *waiters {
	return &waiters{
		hook:     hook,
		ends:     map[workflow.RunID]map[chan workflow.Outcome]struct{}{},
		watchers: map[workflow.RunID]map[chan struct{}]struct{}{},
	}
}

// addWaiter returns a channel that gets the outcome of a run when it ends; it is
// closed if the engine closes first.
func (w *waiters) addWaiter(id workflow.RunID) (chan workflow.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	c := make(chan workflow.Outcome, 1)
	addChannel(w.ends, id, c)
	return c, nil
}

// removeWaiter forgets a channel that its caller does not read any more; it may have been told
// and forgotten already.
func (w *waiters) removeWaiter(id workflow.RunID, c chan workflow.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	removeChannel(w.ends, id, c)
}

// addWatcher returns a channel that gets a signal when a run has moved on, or when
// the engine closes.
func (w *waiters) addWatcher(id workflow.RunID) (chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	c := make(chan struct{}, 1)
	addChannel(w.watchers, id, c)
	return c, nil
}

// removeWatcher is removeWaiter for watchers.
func (w *waiters) removeWatcher(id workflow.RunID, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	removeChannel(w.watchers, id, c)
}

// addChannel adds a listener to those of a run.
func addChannel[C comparable](of map[workflow.RunID]map[C]struct{}, id workflow.RunID, c C) {
	if of[id] == nil {
		of[id] = map[C]struct{}{}
	}
	of[id][c] = struct{}{}
}

// removeChannel removes a listener of a run, if it is still one.
func removeChannel[C comparable](of map[workflow.RunID]map[C]struct{}, id workflow.RunID, c C) {
	delete(of[id], c)
	if len(of[id]) == 0 {
		delete(of, id)
	}
}

// runMoved tells those who watch a run that it has moved on and, if it has ended,
// gives its outcome to all who wait for that.
//
// It is called after a commit, so that a waiter who is told finds the outcome committed.
func (w *waiters) runMoved(out workflow.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.watchers[out.Run] {
		c <- struct{}{}
	}
	delete(w.watchers, out.Run)
	if !out.Status.Final() {
		return
	}
	w.hook.Hit("end.tell")
	for c := range w.ends[out.Run] {
		c <- out
	}
	delete(w.ends, out.Run)
}

// closeChannels ends every wait, since the engine closes.
func (w *waiters) closeChannels() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, cs := range w.ends {
		for c := range cs {
			close(c)
		}
	}
	for _, cs := range w.watchers {
		for c := range cs {
			close(c)
		}
	}
	clear(w.ends)
	clear(w.watchers)
}
