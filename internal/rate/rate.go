// Package rate spaces events: so many per second, with bursts after a pause.
package rate

import "time"

// A Bucket spaces events by a rate: the generic cell rate algorithm (ITU-T
// I.371), which needs to know one instant only. The zero value has no bound.
type Bucket struct {
	interval time.Duration // between events at the full rate
	slack    time.Duration // how far ahead of that a burst may be
	due      time.Time     // when the next event would come at the full rate
}

// longest bounds the times of a bucket, in nanoseconds: a century.
const longest = float64(100 * 365 * 24 * time.Hour)

// NewBucket returns a bucket for so many events per second, and so many at once after a
// pause, at least 1. A rate that is not above 0 is no bound.
func NewBucket(perSecond float64, burst int) Bucket {
	if !(perSecond > 0) {
		return Bucket{}
	}
	interval := min(float64(time.Second)/perSecond, longest)
	slack := min(float64(max(burst, 1)-1)*interval, longest)
	return Bucket{interval: time.Duration(interval), slack: time.Duration(slack)}
}

// NextEvent returns when the next event may be; it has passed if that is now.
func (b *Bucket) NextEvent() time.Time { return b.due.Add(-b.slack) }

// CountEvent counts an event.
func (b *Bucket) CountEvent(now time.Time) {
	if b.interval == 0 {
		return
	}
	if b.due.Before(now) {
		b.due = now
	}
	b.due = b.due.Add(b.interval)
}

// Left returns how many events may be at once at an instant; 0 without a bound.
func (b *Bucket) Left(now time.Time) int {
	saved := now.Sub(b.NextEvent())
	if b.interval == 0 || saved < 0 {
		return 0
	}
	return int(min(saved, b.slack)/b.interval) + 1
}

// RestedAt returns when the bucket is as good as a new one; it has passed if it is now.
func (b *Bucket) RestedAt() time.Time { return b.due }

// IsRested reports whether the bucket is as good as a new one at an instant.
func (b *Bucket) IsRested(now time.Time) bool { return !b.due.After(now) }
