package worker

import "time"

// A Limit bounds how the tasks of one type are handed out. The zero value of
// each field is no bound.
type Limit struct {
	// Concurrency is how many workers may hold a task of this type at once.
	Concurrency int
	// Rate is how many tasks of this type are handed out per second, on average.
	Rate float64
	// Burst is how many may be handed out at once after a pause; 1 by default.
	// Without a Rate it means nothing.
	Burst int
}

// A bucket spaces events by a rate: the generic cell rate algorithm (ITU-T
// I.371), which needs to know one instant only. The zero value has no bound.
type bucket struct {
	interval time.Duration // between events at the full rate
	slack    time.Duration // how far ahead of that a burst may be
	due      time.Time     // when the next event would come at the full rate
}

// longest bounds the times of a bucket, in nanoseconds: a century.
const longest = float64(100 * 365 * 24 * time.Hour)

func newBucket(l Limit) bucket {
	if !(l.Rate > 0) {
		return bucket{}
	}
	interval := min(float64(time.Second)/l.Rate, longest)
	slack := min(float64(max(l.Burst, 1)-1)*interval, longest)
	return bucket{interval: time.Duration(interval), slack: time.Duration(slack)}
}

// nextEvent returns when the next event may be; it has passed if that is now.
func (b *bucket) nextEvent() time.Time { return b.due.Add(-b.slack) }

// countEvent counts an event.
func (b *bucket) countEvent(now time.Time) {
	if b.interval == 0 {
		return
	}
	if b.due.Before(now) {
		b.due = now
	}
	b.due = b.due.Add(b.interval)
}
