package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/workflow"
)

// A WhereError says why a condition on runs cannot be compiled, or evaluated for a run.
type WhereError = filter.Error

// FilterRun returns a row of the index as conditions on runs see it.
//
// It is the only way in which a condition sees a run, so that it means the same in all lists.
func FilterRun(h *Head) filter.Run {
	if h == nil {
		return filter.Run{}
	}
	r := filter.Run{
		ID: h.Run, Workflow: h.Workflow, Version: h.Version, Status: h.Status, Labels: h.Labels, StartedAt: h.StartedAt, EndedAt: h.EndedAt,
		Parent: h.Parent, ForkedFrom: h.ForkedFrom.Run, Tenant: h.Tenant, Seq: h.Seq,
	}
	if h.Failure != nil {
		r.Code = h.Failure.Code
	}
	return r
}

// compileWhere compiles the condition of a filter, and narrows the filter to the runs for which
// an index tells that it can be true.
//
// For example, status == "failed" && workflow == "order" && code != "timeout" narrows the list to
// the failed runs of that workflow, and is evaluated for each of them. A condition that can be
// true of no run ends the list at once.
func (l *runList) compileWhere(context.Context) (err error) {
	if l.filter.Where == "" {
		return nil
	}
	if l.where, err = filter.Parse(l.filter.Where); err != nil {
		return err
	}
	f, b, none := &l.filter, &l.where.Bounds, l.where.None
	filter.Narrow(&f.Workflow, b.Workflow, &none)
	filter.Narrow(&f.Tenant, b.Tenant, &none)
	filter.Narrow(&f.Parent, b.Parent, &none)
	f.Status, none = filter.IntersectStatus(f.Status, b.Status, none)
	f.Roots = f.Roots || b.Roots
	if id := string(b.ID); id != "" {
		none = none || !strings.HasPrefix(id, f.Prefix)
		f.Prefix = id
	}
	f.Labels = maps.Clone(f.Labels)
	for key, v := range b.Labels {
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		have, ok := f.Labels[key]
		none = none || ok && have != v
		f.Labels[key] = v
	}
	l.done = none
	return nil
}

// takeRow decodes a row of a page, and reports whether the condition of the filter holds for
// it. The large parts of a row are decoded only if it does.
//
// A row that is damaged is not passed over: its error is yielded with its run.
func (l *runList) takeRow(r *index.Row) (bool, error) {
	if l.where == nil || r.IsDamaged() {
		return true, l.d.decodeRow(r)
	}
	err := r.DecodeLabels()
	all := err != nil || l.where.ReadsCode()
	if all {
		err = l.d.decodeRow(r)
	}
	if err != nil {
		return false, err
	}
	if fits, err := l.d.evaluate(l.where, &r.Head, &l.effort); !fits || err != nil || all {
		return fits && err == nil, err // what is decoded already would be lost
	}
	return true, l.d.decodeRow(r)
}

// beginList finds out which rows are to be looked at.
func (l *runList) beginList(ctx context.Context) error {
	for _, step := range []func(context.Context) error{l.compileWhere, l.chooseLabel, l.gatherRuns, l.passOver} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// passOver passes over the runs up to the one after which the list begins.
func (l *runList) passOver(ctx context.Context) error {
	if l.filter.After == "" {
		return nil
	}
	return l.beginAfter(ctx, l.filter.After)
}

// listWhere yields the items of a list whose runs meet a condition; "" is any. The items of one run stand together, so that each run
// is looked at once. The error of a condition that cannot be compiled comes first.
//
// The condition is of the run, and what is listed is of its tokens: all of those, or none, are
// yielded.
//
// A list that has come to the effort that it may take ends with an *EffortError.
func listWhere[T any](ctx context.Context, d *Dir, list iter.Seq2[T, error], c listCondition, placeOf func(*T) (workflow.RunID, workflow.TokenID)) iter.Seq2[T, error] {
	if c.where == "" {
		return list
	}
	return func(yield func(T, error) bool) {
		var none T
		w, err := filter.Parse(c.where)
		if err != nil {
			yield(none, err)
			return
		}
		var run workflow.RunID
		fits, spent := false, effort{most: c.effort}
		for x, err := range list {
			id, token := placeOf(&x)
			if err == nil && id != run {
				run = id
				fits, err = d.fitsWhere(ctx, id, w, &spent)
			}
			if (err != nil || fits) && (!yield(x, err) || err != nil) {
				return
			}
			spent.spend(lookUnits)
			if err := spent.stopAt(id, token); err != nil {
				yield(none, err)
				return
			}
		}
	}
}

// fitsWhere reports whether a condition holds for a run that is there.
func (d *Dir) fitsWhere(ctx context.Context, id workflow.RunID, w *filter.Where, spent *effort) (bool, error) {
	h, err := d.HeadUntil(ctx, id)
	if errors.Is(err, ErrRunNotFound) { // it was purged meanwhile
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return d.evaluate(w, &h, spent)
}

// A listCondition is the condition on runs of a list of what waits in them, and the effort that the list may take.
type listCondition struct {
	where  string
	effort time.Duration
}

// evaluate reports whether a condition holds for a run, and adds to spent what that came to.
//
// However many lists there are, one condition is evaluated at a time, for at most some 1 ms, and then others have their turn: so the
// conditions of any number of callers leave the other processors to the runs.
func (d *Dir) evaluate(w *filter.Where, h *Head, spent *effort) (bool, error) {
	seen := FilterRun(h)
	d.evaluating.Lock()
	fits, err := w.Fits(&seen)
	d.evaluating.Unlock()
	runtime.Gosched()
	spent.spend(seen.Cost)
	return fits, err
}

// Units of cost, in which the effort of a list is counted: what evaluating a condition comes to for the same run is the same
// each time, so lists end at the same run whatever else the machine does.
const (
	unitTime  = 100 * time.Nanosecond // of a processor, at most
	lookUnits = 20                    // for a run or a token that a list looks at
)

// An effort is what a list has come to so far. With most 0 it has no bound.
type effort struct {
	most  time.Duration
	units int
}

func (e *effort) spend(units int) { e.units += units }

// stopAt returns the error with which the list ends if it has come to its bound with this run.
func (e *effort) stopAt(run workflow.RunID, token workflow.TokenID) error {
	if e.most <= 0 || time.Duration(e.units)*unitTime < e.most {
		return nil
	}
	return &EffortError{Most: e.most, Run: run, Token: token}
}

// An EffortError ends a list that has come to the Effort of its filter: there may be more. A list with the same filter goes on behind
// the run and the token, as its After, also if none of them is in the list.
type EffortError struct {
	Most  time.Duration
	Run   workflow.RunID   // the last one that was looked at
	Token workflow.TokenID // likewise, of a list of tokens
}

// Error says how far the list came.
func (e *EffortError) Error() string {
	return fmt.Sprintf("the list has taken %v of a processor, as much as it may: it goes on after run %q", e.Most, string(e.Run))
}
