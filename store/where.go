package store

import (
	"maps"
	"strings"

	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/internal/index"
)

// A WhereError says why a condition on runs cannot be compiled, or evaluated for a run.
type WhereError = filter.Error

// FilterRun returns a row of the index as conditions on runs see it.
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
func (l *runList) compileWhere() (err error) {
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
func (l *runList) takeRow(r *index.Row) (bool, error) {
	if l.where == nil || r.IsDamaged() {
		return true, l.d.decodeRow(r)
	}
	err := r.DecodeLabels()
	if err != nil || l.where.ReadsCode() {
		err = l.d.decodeRow(r)
	}
	if err != nil {
		return false, err
	}
	seen := FilterRun(&r.Head)
	if fits, err := l.where.Fits(&seen); !fits || err != nil {
		return false, err
	}
	return true, l.d.decodeRow(r)
}

// beginList finds out which rows are to be looked at.
func (l *runList) beginList() error {
	for _, step := range []func() error{l.compileWhere, l.chooseLabel, l.gatherRuns, l.passOver} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// passOver passes over the runs up to the one after which the list begins.
func (l *runList) passOver() error {
	if l.filter.After == "" {
		return nil
	}
	return l.beginAfter(l.filter.After)
}
