package pawl

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/internal/texts"
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
	// Lost says that changes were dropped. At is when Watch noticed; all other fields are zero. List the runs now: no
	// change that is committed after the list has begun is missing.
	Lost bool `json:"lost,omitzero"`
}

// A WatchFilter selects runs by how they stand after a commit. The zero value selects all.
// A run that had a status of the filter and has it no longer is not yielded.
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

// A headFilter is a WatchFilter as those who commit ask it. The reader evaluates what costs more, such as Where itself.
type headFilter struct {
	WatchFilter
	where *filter.Where // nil without
}

// Takes implements watching.Filter.
func (f *headFilter) Takes(h *store.Head) bool {
	if f.where != nil {
		seen := store.FilterRun(h)
		if !f.where.MayFit(&seen) {
			return false
		}
	}
	return (f.Workflow == "" || h.Workflow == f.Workflow) && (f.Parent == "" || h.Parent == f.Parent) &&
		(f.Tenant == "" || h.Tenant == f.Tenant) && texts.HasLabels(h.Labels, f.Labels) && (!f.Roots || h.Parent == "") &&
		strings.HasPrefix(string(h.Run), f.Prefix) && (len(f.Status) == 0 || slices.Contains(f.Status, h.Status))
}

// Watch yields the state of every run that fits the filter after each of its commits, until ctx is done or the engine closes. The
// first change says Lost: a program that shows runs lists them then, and keeps the list up to date with the changes that follow.
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
// Only the last change of each run is kept for the reader. If changes of more than 4096 runs wait, all
// are dropped, and the reader gets Lost: a reader never slows a commit. A run that is purged is yielded once
// more, as Purged. An error ends the list: ErrClosed, ErrFailed, a *WhereError with ErrInvalid, ErrBusy
// (2048 readers watch already: nothing is told), the cause of ctx.
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
		r, err := e.watches.Add(&headFilter{f, where})
		if err != nil {
			yield(RunChange{}, err)
			return
		}
		defer e.watches.Remove(r)
		for {
			c, lost, err := r.Next(ctx, e.dir)
			if lost {
				c = &RunChange{At: time.Now().UTC().Truncate(time.Millisecond), Lost: true}
			}
			fits := false
			if err == nil {
				fits, err = e.fitsWhere(c, where)
			}
			if err != nil {
				yield(RunChange{}, err)
				return
			}
			if fits && !yield(*c, nil) {
				return
			}
		}
	}
}

// changeOf says how a run stands since an instant.
func changeOf(h *store.Head, at time.Time, purged bool) *RunChange {
	c := &RunChange{
		Run: h.Run, Workflow: h.Workflow, Version: h.Version, Tenant: h.Tenant, Labels: h.Labels, Parent: h.Parent, Purged: purged,
		Status: h.Status, Seq: h.Seq, At: at, StartedAt: h.StartedAt, EndedAt: h.EndedAt, ForkedFrom: h.ForkedFrom,
	}
	if h.Failure != nil {
		c.Code = h.Failure.Code
	}
	return c
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
	return e.waiters.Wait(ctx, id)
}
