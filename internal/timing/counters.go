package timing

import (
	"sync"
	"time"
)

const (
	// MaxSeries is how many series there are at most, but for that of Other.
	MaxSeries = 500
	// Other stands for all names of further combinations.
	Other = "_OTHER"
)

// A Name names a series.
type Name struct{ Workflow, Node, Type string }

// An Attempt is one that has ended.
type Attempt struct {
	Of     Name
	At     time.Time     // when it ended
	Queued time.Duration // how long it waited
	Worked time.Duration // how long somebody worked on it
	Begun  bool          // somebody has
	Failed bool
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
	name  Name
	now   sum // the minute that is not over
	rings [spans][]sum
}

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

// A sum is of a minute, an hour or a day.
type sum struct {
	at          int64 // the number of its minute, hour or day since 1970
	n, failed   int64
	queue, work histogram
}

// Count counts an attempt. Where the clock was set back, the attempt counts in the latest minute.
func (c *Counters) Count(a Attempt) {
	minute := a.At.Unix() / spanOf[minutes].seconds
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.seriesOf(a.Of, minute)
	if minute > s.now.at {
		s.closeMinute(minute)
	}
	if c.changed = true; c.since.IsZero() {
		c.since = a.At
	}
	if s.now.n++; a.Failed {
		s.now.failed++
	}
	s.now.queue.addTimes(bucketOf(a.Queued), 1)
	if a.Begun {
		s.now.work.addTimes(bucketOf(a.Worked), 1)
	}
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
	other := Name{Other, Other, Other}
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
	s := &series{name: n, now: sum{at: minute}}
	c.of[n] = s
	return s
}

// countSeries returns how many series there are, but for that of Other.
func (c *Counters) countSeries() int {
	n := len(c.of)
	if c.of[Name{Other, Other, Other}] != nil {
		n--
	}
	return n
}

// dropIdle drops the series that have counted nothing for as long as days are kept.
func (c *Counters) dropIdle(minute int64) {
	for name, s := range c.of {
		if (minute-s.now.at)*spanOf[minutes].seconds > spanOf[days].kept*spanOf[days].seconds {
			delete(c.of, name)
		}
	}
	c.last = nil
}

// closeMinute adds the minute that is over to the rings, and begins another one.
func (s *series) closeMinute(minute int64) {
	if s.now.n > 0 {
		for i := range s.rings {
			s.rings[i] = addToRing(s.rings[i], &s.now, span(i))
		}
	}
	s.now = sum{at: minute}
}

// addToRing adds the sum of a minute to a ring, without sums that are too old.
func addToRing(ring []sum, m *sum, of span) []sum {
	at := m.at * spanOf[minutes].seconds / spanOf[of].seconds
	if last := len(ring) - 1; last >= 0 && ring[last].at == at {
		ring[last].addSum(m)
		return ring
	}
	old := 0
	for old < len(ring) && ring[old].at <= at-spanOf[of].kept {
		old++
	}
	if old > 0 {
		ring = append([]sum(nil), ring[old:]...)
	}
	ring = append(ring, sum{at: at})
	ring[len(ring)-1].addSum(m)
	return ring
}

// addSum adds what another sum has.
func (s *sum) addSum(more *sum) {
	s.n += more.n
	s.failed += more.failed
	s.queue.addHistogram(more.queue)
	s.work.addHistogram(more.work)
}

// addRange adds to a sum what a series has from one number of a span until another, which does not count.
func (s *series) addRange(to *sum, of span, from, until int64) {
	ring := s.rings[of]
	for i := range ring {
		if at := ring[i].at; from <= at && at < until {
			to.addSum(&ring[i])
		}
	}
	if at := s.now.at * spanOf[minutes].seconds / spanOf[of].seconds; from <= at && at < until {
		to.addSum(&s.now)
	}
}
