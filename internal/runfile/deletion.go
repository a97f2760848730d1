package runfile

import (
	"cmp"
	"slices"
)

// A deletion deletes a range of rows that were written before it.
type deletion struct {
	keyRange
	at int // when, by the number of its statement
}

// deletions are those of one table. For any two ranges, one is part of the other, or they have no key in common:
// scopes, paths in them and the keys below a path are like that.
type deletions []deletion

// A sweep goes through keys in their order and says which are deleted.
type sweep struct {
	ahead deletions // by where they begin, the larger first
	open  deletions // that the last key was in, or may be: each is part of the one before
}

// sweepKeys returns one that has not begun.
func (d deletions) sweepKeys() *sweep {
	ahead := slices.Clone(d)
	slices.SortStableFunc(ahead, func(a, b deletion) int {
		return cmp.Or(a.from.compare(&b.from), b.before.compare(&a.before))
	})
	return &sweep{ahead: ahead}
}

// covers reports whether a row that was written with some statement is deleted by a later one; 0 is before all
// statements. The key is not smaller than that of the call before.
func (s *sweep) covers(key *rowKey, written int) bool {
	for len(s.ahead) > 0 && s.ahead[0].from.compare(key) <= 0 {
		s.closeBefore(&s.ahead[0].from)
		next := s.ahead[0]
		if n := len(s.open); n > 0 { // what is around it deletes as well
			next.at = max(next.at, s.open[n-1].at)
		}
		s.open, s.ahead = append(s.open, next), s.ahead[1:]
	}
	s.closeBefore(key)
	n := len(s.open)
	return n > 0 && s.open[n-1].at > written
}

// closeBefore drops the ranges that end before a key.
func (s *sweep) closeBefore(key *rowKey) {
	for n := len(s.open); n > 0 && s.open[n-1].before.compare(key) <= 0; n-- {
		s.open = s.open[:n-1]
	}
}
