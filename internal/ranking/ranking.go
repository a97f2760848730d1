// Package ranking lists runs by the numbers that their results have reported.
package ranking

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Runs are the runs of a directory, as package store has them.
type Runs interface {
	HeadsUntil(ctx context.Context, f store.RunFilter) iter.Seq2[store.Head, error]
	HeadAndState(ctx context.Context, id workflow.RunID) (store.Head, *state.State, error)
}

// A Run is one of a list, with the sums of what it and all below it have reported.
type Run struct {
	store.Head
	Reported amount.Sums
	damage   error // why nobody knows those; nil if they are known
}

// A Ranker remembers what runs have reported, so that a list that is sorted again reads those that have changed. A run
// that has ended does not change. The zero value remembers none.
type Ranker struct {
	mu sync.Mutex
	of map[workflow.RunID]known
}

// known is of a run as it was after a record.
type known struct {
	seq      int64
	began    time.Time // a run that was purged may have given its id to another one
	reported amount.Sums
}

// maxRanked is how many runs a list looks at. Sums are in the files of runs and not in the index, because they change with
// results, which write no row there.
const maxRanked = 10_000

// maxRemembered bounds the runs that are remembered; then all are forgotten.
const maxRemembered = 4 * maxRanked

// LimitRuns names the bound of a list in a *workflow.LimitError.
const LimitRuns = "runs of a list that is sorted"

// ListRuns yields the runs that fit the filter, as the directory lists them if f.Sort is empty. Otherwise those with the
// largest sum of the name in f.Sort come first, with all their sums, and equal ones in the order that the filter says.
// Runs that have reported no such number are last, and damaged ones first, with their error. It fails with a
// *workflow.LimitError if more than maxRanked fit, or more than the effort of the filter allows to look for.
func (r *Ranker) ListRuns(ctx context.Context, runs Runs, f store.RunFilter) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		if f.Sort == "" {
			for h, err := range runs.HeadsUntil(ctx, f) {
				if !yield(Run{Head: h}, err) {
					return
				}
			}
			return
		}
		list, err := r.rankRuns(ctx, runs, f)
		if err != nil {
			yield(Run{}, err)
			return
		}
		for i := range list {
			if f.Limit > 0 && i == f.Limit || !yield(list[i], list[i].damage) {
				return
			}
		}
	}
}

// rankRuns returns all runs of a sorted list behind f.After, in its order.
func (r *Ranker) rankRuns(ctx context.Context, runs Runs, f store.RunFilter) (list []Run, err error) {
	by, after := f.Sort, f.After
	f.Sort, f.After, f.Limit = "", "", 0
	for h, err := range runs.HeadsUntil(ctx, f) {
		x := Run{Head: h}
		if err == nil {
			x.Reported, err = r.reportedBy(ctx, runs, &h)
		}
		damage, stopped := (*store.CorruptError)(nil), (*store.EffortError)(nil)
		if errors.As(err, &damage) && damage.Run != "" {
			x.damage, err = err, nil
		}
		switch {
		case errors.As(err, &stopped): // nobody knows yet which would come first
			return nil, &workflow.LimitError{Limit: LimitRuns, Max: int64(len(list))}
		case err != nil:
			return nil, err
		case len(list) == maxRanked:
			return nil, &workflow.LimitError{Limit: LimitRuns, Max: maxRanked}
		}
		list = append(list, x)
	}
	slices.SortStableFunc(list, func(a, b Run) int { return compareRuns(&a, &b, by) })
	if after == "" {
		return list, nil
	}
	i := slices.IndexFunc(list, func(x Run) bool { return x.Run == after })
	if i < 0 {
		return nil, fmt.Errorf("%w: %q", store.ErrRunNotFound, string(after))
	}
	return list[i+1:], nil
}

// compareRuns orders runs: damaged ones first, then by the number of a name, as compareSums does.
func compareRuns(a, b *Run, by string) int {
	switch {
	case a.damage != nil && b.damage != nil:
		return 0
	case a.damage != nil:
		return -1
	case b.damage != nil:
		return 1
	}
	return compareSums(a.Reported, b.Reported, by)
}

// compareSums orders sums by the number of a name, the largest first; no number at all comes last.
func compareSums(a, b amount.Sums, by string) int {
	x, is := a.Named(by)
	y, other := b.Named(by)
	switch {
	case is && !other:
		return -1
	case other && !is:
		return 1
	}
	return y.Compare(x)
}

// reportedBy returns what a run and all below it have reported. A run that was purged meanwhile has reported nothing.
func (r *Ranker) reportedBy(ctx context.Context, runs Runs, h *store.Head) (amount.Sums, error) {
	r.mu.Lock()
	x, ok := r.of[h.Run]
	r.mu.Unlock()
	if ok && x.seq == h.Seq && x.began.Equal(h.StartedAt) {
		return x.reported, nil
	}
	now, s, err := runs.HeadAndState(ctx, h.Run)
	if errors.Is(err, store.ErrRunNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	x = known{now.Seq, now.StartedAt, s.Reported.Total()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) >= maxRemembered {
		r.of = map[workflow.RunID]known{}
	}
	r.of[h.Run] = x
	return x.reported, nil
}
