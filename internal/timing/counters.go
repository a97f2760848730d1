package timing

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/amount"
)

const (
	// MaxSeries is how many series there are at most, but for those of Other.
	MaxSeries = 500
	// Other stands for all names of further combinations.
	Other = "_OTHER"
)

// A Name names a series: of a node, or with a workflow alone of its whole runs.
type Name struct{ Workflow, Node, Type string }

// The names of the series of Other.
var (
	otherNodes = Name{Other, Other, Other}
	otherRuns  = Name{Workflow: Other}
)

// ofRuns reports whether a name is that of whole runs.
func (n Name) ofRuns() bool { return n.Node == "" }

// orOther returns the name that stands for a name where there is no room for it.
func (n Name) orOther() Name {
	if n.ofRuns() {
		return otherRuns
	}
	return otherNodes
}

// An Attempt is one that has ended, or a whole run: that was worked on from its start to its end.
type Attempt struct {
	Of     Name
	At     time.Time     // when it ended
	Queued time.Duration // how long it waited
	Worked time.Duration // how long somebody worked on it
	Begun  bool          // somebody has
	Failed bool

	Reported amount.Sums // the numbers in its metadata
}

// Counters are those of an engine. Their methods may be called from any goroutine. The zero value is ready.
type Counters struct {
	mu      sync.Mutex
	of      map[Name]*series
	last    *series // that has counted
	swept   int64   // the hour in which series were looked for that count nothing any more
	since   time.Time
	changed bool // since Restore
}

// A series counts the attempts of one name.
type series struct {
	name   Name
	minute int64 // that is not over, since 1970
	now    sum   // of it
	rings  [spans]ring
}

// A ring has the sums of minutes, hours or days in which something ended, oldest first. Nobody changes one: another takes its place, so
// that whoever has copied a series under the lock may read it without.
type ring []closed

// A span is what one sum of a ring is of.
type span int

const (
	minutes span = iota
	hours
	days
	spans
)

// spanOf has how long each is, in seconds, and how many are kept, the one that is not over included.
var spanOf = [spans]struct{ seconds, kept int64 }{{60, 60}, {3600, 48}, {86400, 31}}

// A closed is what ended in a minute, an hour or a day. Nobody changes it.
type closed struct {
	at          int64 // the number of its minute, hour or day since 1970
	n, failed   int64
	queue, work cells
	reported    amount.Sums
}

// A sum adds up. It is some 2.5 KB.
type sum struct {
	n, failed   int64
	queue, work histogram
	reported    amount.Sums
}

// mostAhead is how many minutes a series may be ahead of the clock, as one that was set back leaves it. Beyond, the clock was wrong before.
const mostAhead = 120

// Count counts an attempt. Where the clock was set back by up to two hours, the attempt counts in the latest minute; by more, what the
// series has counted ahead of the clock is gone.
func (c *Counters) Count(a Attempt) {
	minute := max(a.At.Unix()/spanOf[minutes].seconds, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.seriesOf(a.Of, minute)
	switch {
	case minute > s.minute:
		s.closeMinute(minute)
	case s.minute-minute > mostAhead:
		s.dropAhead(minute)
	}
	if c.changed = true; c.since.IsZero() || a.At.Before(c.since) {
		c.since = a.At.UTC()
	}
	s.now.addAttempt(&a)
}

// seriesOf returns the series of a name. The caller holds the lock.
func (c *Counters) seriesOf(n Name, minute int64) *series {
	if c.last != nil && c.last.name == n {
		return c.last
	}
	s := c.of[n]
	if s == nil {
		s = c.addSeries(n, minute)
	}
	c.last = s
	return s
}

// addSeries adds a series that is not there, or returns that of Other.
func (c *Counters) addSeries(n Name, minute int64) *series {
	if c.of == nil {
		c.of = map[Name]*series{}
	}
	other := n.orOther()
	if c.countSeries() >= MaxSeries && n != other {
		if hour := minute / 60; hour != c.swept {
			c.swept = hour
			c.dropIdle(minute)
		}
		if c.countSeries() >= MaxSeries {
			if n = other; c.of[n] != nil {
				return c.of[n]
			}
		}
	}
	s := &series{name: n, minute: minute}
	c.of[n] = s
	return s
}

// countSeries returns how many series there are, but for those of Other.
func (c *Counters) countSeries() int {
	n := len(c.of)
	for _, other := range []Name{otherNodes, otherRuns} {
		if c.of[other] != nil {
			n--
		}
	}
	return n
}

// dropIdle drops the series that have counted nothing for as long as days are kept, and those that are ahead of the clock.
func (c *Counters) dropIdle(minute int64) {
	for name, s := range c.of {
		if s.minute-minute > mostAhead || (minute-s.minute)*spanOf[minutes].seconds > spanOf[days].kept*spanOf[days].seconds {
			delete(c.of, name)
		}
	}
	c.last = nil
}

// closeMinute adds the minute that is over to the rings, and begins another one.
func (s *series) closeMinute(minute int64) {
	if s.now.n > 0 {
		for of := range spans {
			s.rings[of] = s.rings[of].withSum(&s.now, s.numberOf(of), of)
		}
	}
	s.minute, s.now = minute, sum{}
}

// numberOf returns the number of the span in which the minute lies that is not over.
func (s *series) numberOf(of span) int64 {
	return s.minute * spanOf[minutes].seconds / spanOf[of].seconds
}

// dropAhead drops what was counted after a minute, and begins that one.
func (s *series) dropAhead(minute int64) {
	s.minute, s.now = minute, sum{}
	for of, r := range s.rings {
		last := s.numberOf(span(of))
		s.rings[of] = slices.DeleteFunc(slices.Clone(r), func(c closed) bool { return c.at > last })
	}
}

// withSum returns a ring with what is added to its last number or a later one, without sums that are too old.
func (r ring) withSum(m *sum, at int64, of span) ring {
	all := *m
	if last := len(r) - 1; last >= 0 && r[last].at == at {
		all.addClosed(&r[last], keptNames)
		r = r[:last]
	}
	for len(r) > 0 && r[0].at <= at-spanOf[of].kept {
		r = r[1:]
	}
	return slices.Concat(r, ring{all.closeAt(at)})
}

// closeAt returns what a sum has.
func (s *sum) closeAt(at int64) closed {
	return closed{at: at, n: s.n, failed: s.failed, queue: cells(s.queue.appendCells(nil)), work: cells(s.work.appendCells(nil)), reported: s.reported}
}

// addAttempt adds an attempt, or a run, which waits in no queue.
func (s *sum) addAttempt(a *Attempt) {
	if s.n++; a.Failed {
		s.failed++
	}
	if !a.Of.ofRuns() {
		s.queue.addTime(a.Queued)
	}
	if a.Begun {
		s.work.addTime(a.Worked)
	}
	s.addReported(a.Reported, keptNames)
}

// keptNames is how many names of reported numbers a sum of a series has at most, those that came first.
const keptNames = 8

// addReported adds numbers that attempts have reported, until there are so many names.
func (s *sum) addReported(more amount.Sums, most int) {
	if len(more) == 0 {
		return
	}
	names := len(s.reported)
	s.reported = s.reported.Plus(slices.DeleteFunc(slices.Clone(more), func(x amount.Sum) bool {
		if _, known := s.reported.Named(x.Name); known {
			return false
		}
		names++
		return names > most
	}))
}

// addSum adds what another sum has.
func (s *sum) addSum(more *sum) {
	s.n += more.n
	s.failed += more.failed
	s.queue.addHistogram(&more.queue)
	s.work.addHistogram(&more.work)
	s.addReported(more.reported, amount.MaxNames)
}

// addClosed adds what a closed one has; of reported numbers, until there are so many names.
func (s *sum) addClosed(more *closed, names int) {
	s.n += more.n
	s.failed += more.failed
	s.queue.addCells(more.queue)
	s.work.addCells(more.work)
	s.addReported(more.reported, names)
}
