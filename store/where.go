package store

import (
	"context"
	"errors"
	"iter"
	"maps"
	"strings"

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
// it. What is large of a row is decoded only if it does.
//
// A row that is damaged is not passed over: its error is what the caller gets.
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
	seen := FilterRun(&r.Head)
	if fits, err := l.where.Fits(&seen); !fits || err != nil || all {
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

// listWhere yields what of a list is of runs for which a condition holds, "" being none. What is of one run stands together, so that
// each run is looked at once. The error of a condition that cannot be compiled comes first.
//
// The condition is of the run, and what is listed is of its tokens: all of those, or none, are
// yielded.
func listWhere[T any](ctx context.Context, d *Dir, list iter.Seq2[T, error], where string, runOf func(*T) workflow.RunID) iter.Seq2[T, error] {
	if where == "" {
		return list
	}
	return func(yield func(T, error) bool) {
		var none T
		w, err := filter.Parse(where)
		if err != nil {
			yield(none, err)
			return
		}
		var run workflow.RunID
		fits := false
		for x, err := range list {
			if id := runOf(&x); err == nil && id != run {
				run = id
				fits, err = d.fitsWhere(ctx, id, w)
			}
			if err == nil && !fits {
				continue
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// fitsWhere reports whether a condition holds for a run that is there.
func (d *Dir) fitsWhere(ctx context.Context, id workflow.RunID, w *filter.Where) (bool, error) {
	h, err := d.HeadUntil(ctx, id)
	if errors.Is(err, ErrRunNotFound) { // it was purged meanwhile
		return false, nil
	}
	if err != nil {
		return false, err
	}
	seen := FilterRun(&h)
	return w.Fits(&seen)
}
