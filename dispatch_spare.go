package pawl

// maxSpares is how many are kept.
const maxSpares = 64

// spares are values that are in use no more. What is taken is as it was kept.
type spares[T any] struct{ of []*T }

// takeSpare returns a value for the caller, a new one if none was kept.
func (s *spares[T]) takeSpare() *T {
	n := len(s.of) - 1
	if n < 0 {
		return new(T)
	}
	v := s.of[n]
	s.of = s.of[:n]
	return v
}

// addSpare keeps a value that nobody uses any more, as what it is to be when it is taken.
func (s *spares[T]) addSpare(v *T, as T) {
	if *v = as; len(s.of) < maxSpares {
		s.of = append(s.of, v)
	}
}
