// Package tally counts in memory what metrics tell of a directory, so that nobody has to read it. It has no clock, and its callers have
// the locks that the types name.
package tally

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Sizes say how many bytes a directory takes, without a look at it. The lock of the index guards all but Files. The files of
// runs are counted once, in the order of the runs, while others come, change and go.
type Sizes struct {
	after   int64 // the files of runs up to this number are counted
	changed int64 // bytes, by the transaction under way
	files   atomic.Int64
	counted atomic.Bool
	Index   atomic.Int64 // bytes of pawl.db
	Log     atomic.Int64 // bytes of its write-ahead log that are in use
}

// CountFile counts the file of a run, which is the next one; Finish says that there was no other.
func (s *Sizes) CountFile(num, bytes int64) {
	s.after = num
	s.files.Add(bytes)
}

// Finish ends the counting: from now on all changes count.
func (s *Sizes) Finish() {
	s.after = math.MaxInt64
	s.counted.Store(true)
}

// ChangeFile notes that the transaction under way makes the file of a run larger, or smaller. The file of a run that is not counted
// yet is counted as it is then.
func (s *Sizes) ChangeFile(num, bytes int64) {
	if num <= s.after {
		s.changed += bytes
	}
}

// Forget forgets what a transaction has changed, and Keep takes it over, which is committed now.
func (s *Sizes) Forget() { s.changed = 0 }

// Keep is the end of a transaction that was committed.
func (s *Sizes) Keep() {
	s.files.Add(s.changed)
	s.changed = 0
}

// Files returns how many bytes the files of runs have; false before all are counted.
func (s *Sizes) Files() (bytes int64, ok bool) { return s.files.Load(), s.counted.Load() }

// Ages say when the oldest row of a table was made, although rows leave it in any order: they count how many rows there are of each
// second, or of longer where there are many. The zero value has none.
type Ages struct {
	of    map[int64]age
	width int64 // seconds
}

// An age has the rows of some seconds.
type age struct {
	rows  int64 // negative if more were dropped than added so far
	first time.Time
}

// maxAges bounds the map: beyond it the seconds are joined two by two.
const maxAges = 4096

// Add counts rows that were made within one second, the first of them at an instant.
func (a *Ages) Add(rows int64, first time.Time) {
	a.joinAge(first, rows)
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
	if x.rows += rows; x.rows == 0 {
		delete(a.of, key)
		return
	}
	a.of[key] = x
}

// keyOf returns the place of an instant, as exact as the table has it.
func (a *Ages) keyOf(at time.Time) int64 { return at.UnixMilli() / 1000 / a.width }

// Drop takes back a row that was made at an instant. It may come before the Add of that row.
func (a *Ages) Drop(at time.Time) { a.Add(-1, at) }

// Oldest returns when the oldest row was made; zero without rows. It looks at maxAges ages at most.
func (a *Ages) Oldest() (at time.Time) {
	for _, x := range a.of {
		if x.rows > 0 && (at.IsZero() || x.first.Before(at)) {
			at = x.first
		}
	}
	return at
}

// Unfiled counts the records that are committed and in no file of a run, by the number of the run. Runs whose records
// are all in their files take no room. It counts nothing unless it is on: the map would cost each commit something. It has a lock.
type Unfiled struct {
	On      bool
	mu      sync.Mutex
	runs    map[int64]unfiledRun
	records int64
}

// An unfiledRun has records behind the one with which its file ends.
type unfiledRun struct {
	filed, last int64     // sequences
	since       time.Time // of the first of them, or a moment before
}

// setRun replaces what is known of a run. The lock is held.
func (u *Unfiled) setRun(num int64, now unfiledRun) {
	before := u.runs[num]
	u.records += now.last - now.filed - (before.last - before.filed)
	if u.runs == nil {
		u.runs = map[int64]unfiledRun{}
	}
	if u.runs[num] = now; now.last == now.filed {
		delete(u.runs, num)
	}
}

// NoteLoaded notes how far the file of a run is that was loaded, which record is the last, and when the first was made that the file lacks.
func (u *Unfiled) NoteLoaded(num, filed, last int64, since time.Time) {
	if !u.On {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.setRun(num, unfiledRun{filed, last, since})
}

// NoteCommitted notes that a run has records from one to another, the first of which was made at an instant.
func (u *Unfiled) NoteCommitted(num, first, last int64, at time.Time) {
	if !u.On {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now, found := u.runs[num]
	if !found {
		now = unfiledRun{filed: first - 1, last: first - 1, since: at}
	}
	now.last = last
	u.setRun(num, now)
}

// NoteFiled notes that the index names a file of a run that ends with a record, which was made at an instant.
func (u *Unfiled) NoteFiled(num, seq int64, at time.Time) {
	if !u.On {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if now, found := u.runs[num]; found && seq > now.filed {
		u.setRun(num, unfiledRun{min(seq, now.last), now.last, at})
	}
}

// NoteGone notes that a run was purged.
func (u *Unfiled) NoteGone(num int64) {
	if !u.On {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.setRun(num, unfiledRun{})
}

// Count returns how many records are unfiled, and when the oldest was made; zero without any. It looks at each run that has some.
func (u *Unfiled) Count() (records int64, oldest time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.runs {
		if oldest.IsZero() || r.since.Before(oldest) {
			oldest = r.since
		}
	}
	return u.records, oldest
}
