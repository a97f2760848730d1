package watching

import (
	"cmp"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Look calls at with the state of a run, as it is between two of its turns.
type Look func(at func(*state.State)) error

// ListPages lists what read finds in a run, a page for each look. read reports whether there may be more. An error of the look ends the list.
func ListPages[T any](look Look, read func(*state.State) (page []T, more bool)) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		for more := true; more; {
			var page []T
			if err := look(func(s *state.State) { page, more = read(s) }); err != nil {
				yield(nil, err)
				return
			}
			if !yield(page, nil) {
				return
			}
		}
	}
}

// List is ListPages, element by element.
func List[T any](look Look, read func(*state.State) (page []T, more bool)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, err := range ListPages(look, read) {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
		}
	}
}

const (
	branchPage = 500  // branches that are looked at between two turns of the run
	signalPage = 1000 // likewise signals
)

// ListBranches lists the branches of a run by group and index, as view shows them: those of one group, or of all with group 0, and those
// with a status, or all with "". The list ends with ErrInvalid for a status that there is not, which would otherwise select nothing without
// a word.
func ListBranches[T any](look Look, group workflow.GroupID, status string, view func(*state.State, *state.Group, workflow.Scope, state.Branch) T) iter.Seq2[T, error] {
	if _, err := state.ParseBranchStatus(status); status != "" && err != nil {
		return func(yield func(T, error) bool) {
			var none T
			yield(none, fmt.Errorf("%w: %w", refusal.ErrInvalid, err))
		}
	}
	next := workflow.Scope{Group: cmp.Or(group, 1)}
	return List(look, func(s *state.State) (page []T, more bool) {
		// A page is as many branches as are looked at, and not as many as fit: a run must not be held up by a filter that nothing fits.
		for range branchPage {
			g := s.Group(next.Group)
			for g != nil && next.Branch >= g.Total && group == 0 {
				next = workflow.Scope{Group: next.Group + 1}
				g = s.Group(next.Group)
			}
			if g == nil || next.Branch >= g.Total {
				return page, false
			}
			if b := s.Branch(next); status == "" || b.Status.String() == status {
				page = append(page, view(s, g, next, b))
			}
			next.Branch++
		}
		return page, true
	})
}

// ListSignals lists the signals that a run keeps, oldest first, as view shows them.
func ListSignals[T any](look Look, view func(*state.KeptSignal) T) iter.Seq2[T, error] {
	next := state.SignalID(1)
	return List(look, func(s *state.State) (page []T, more bool) {
		// Signals that were taken or lost keep their numbers, so that a page may be empty and more may come.
		for end := min(next+signalPage, s.NextSignal); next < end; next++ {
			if k := s.Signal(next); k != nil && !k.Done {
				page = append(page, view(k))
			}
		}
		return page, next < s.NextSignal
	})
}
