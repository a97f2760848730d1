package watching

import (
	"iter"

	"github.com/pawl-run/pawl/internal/state"
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
