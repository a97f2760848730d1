// Package tally counts in memory what metrics tell of a directory, so that nobody has to read it. It has no lock and no clock.
package tally

import "time"

// Ages say when the oldest row of a table was made, although rows leave it in any order: they count how many rows there are of each
// second, or of longer where there are many. The rows that were there at the beginning count together. The zero value has none.
type Ages struct {
	of        map[int64]age
	width     int64 // seconds
	found     int64 // rows
	lastFound int64 // the id of the last of them
	foundAt   time.Time
}

// An age has the rows of some seconds.
type age struct {
	rows  int64
	first time.Time
}

// Begin counts the rows that are there at the beginning: how many, the last id of them, and when the oldest was made.
func (a *Ages) Begin(rows, last int64, oldest time.Time) {
	a.found, a.lastFound, a.foundAt = rows, last, oldest
}

// maxAges bounds the map: beyond it the seconds are joined two by two.
const maxAges = 4096

// Add counts a row that was made at an instant.
func (a *Ages) Add(at time.Time) {
	a.joinAge(at, 1)
	for len(a.of) > maxAges {
		old := a.of
		a.of, a.width = nil, 2*a.width
		for _, x := range old {
			a.joinAge(x.first, x.rows)
		}
	}
}

// joinAge adds rows, the first of which was committed at an instant.
func (a *Ages) joinAge(at time.Time, rows int64) {
	if a.of == nil {
		a.of, a.width = map[int64]age{}, max(a.width, 1)
	}
	key := a.keyOf(at)
	x := a.of[key]
	if x.rows == 0 || at.Before(x.first) {
		x.first = at
	}
	x.rows += rows
	a.of[key] = x
}

// keyOf returns the place of an instant, as exact as the table has it.
func (a *Ages) keyOf(at time.Time) int64 { return at.UnixMilli() / 1000 / a.width }

// Drop takes back a row, which has an id that rises.
func (a *Ages) Drop(id int64, at time.Time) {
	if id <= a.lastFound {
		a.found--
		return
	}
	if a.of == nil {
		return
	}
	key := a.keyOf(at)
	x := a.of[key]
	if x.rows--; x.rows <= 0 {
		delete(a.of, key)
		return
	}
	a.of[key] = x
}

// Oldest returns when the oldest row was made; zero without rows. It looks at maxAges ages at most.
func (a *Ages) Oldest() (at time.Time) {
	if a.found > 0 {
		at = a.foundAt
	}
	for _, x := range a.of {
		if at.IsZero() || x.first.Before(at) {
			at = x.first
		}
	}
	return at
}
