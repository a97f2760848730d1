package timeout

import (
	"math"
	"time"
)

// Far is the last instant: the end of the year 9999, where RFC 3339 and the
// timestamps of CEL end.
var Far = time.Date(9999, time.December, 31, 23, 59, 59, 999_000_000, time.UTC)

// MaxWait is the longest duration that a definition may have, and how far ahead the instant of a wait may be: 200 years.
// Durations of Go end at 292 years.
const MaxWait = 200 * 365 * 24 * time.Hour

// Literal is the last instant that a definition may name: the last millisecond that an int64 of nanoseconds since 1970
// can hold, which is when the clock of package time/synctest, and so virtual time, ends: 2262-04-11T23:47:16.854Z.
var Literal = time.UnixMilli(math.MaxInt64 / int64(time.Millisecond)).UTC()

// Instant returns t in UTC, cut down to whole milliseconds and without a
// monotonic reading, so that equal instants are equal values. An instant after
// [Far] becomes Far, one before the year 1 the zero time.
func Instant(t time.Time) time.Time {
	switch {
	case t.After(Far):
		return Far
	case t.Before(time.Time{}):
		return time.Time{}
	default:
		return t.UTC().Truncate(time.Millisecond)
	}
}

// Deadline returns the instant at which a wait that began at from, in whole
// milliseconds, has lasted for after. A fraction of a millisecond in after
// counts as a whole one: no deadline is early. There is no deadline (the zero
// time) if after <= 0 or if from is zero, that is, if the wait has no limit or
// has not begun.
func Deadline(from time.Time, after time.Duration) time.Time {
	if after <= 0 || from.IsZero() {
		return time.Time{}
	}
	from = Instant(from)
	whole := after.Truncate(time.Millisecond)
	at := from.Add(whole)
	if whole < after {
		at = at.Add(time.Millisecond)
	}
	return Instant(at)
}

// Earliest returns the earliest of ts, ignoring zero times; zero if there is
// no other.
func Earliest(ts ...time.Time) time.Time {
	var earliest time.Time
	for _, t := range ts {
		if t.IsZero() {
			continue
		}
		if earliest.IsZero() || t.Before(earliest) {
			earliest = t
		}
	}
	return earliest
}
