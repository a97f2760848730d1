package telemetry

import (
	"sync/atomic"
	"time"
)

// The three histograms of what the engine does itself (mailbox.wait, plan.duration, commit.duration) get a value for each message or
// commit. An engine that does tens of thousands of them a second would spend more of the processor on them than on all other metrics,
// and its quantiles are as good from a part of them.
const (
	// MaxSamples is about how many values a second these histograms get at most.
	MaxSamples = 1000
	// sampleWindow is how long a sampler counts before it chooses again.
	sampleWindow = 100 * time.Millisecond
)

// A sampler chooses the values that a histogram gets: all while there are few, and every nth while there were more than the bound in the
// window before. Every one counts the same, so that the quantiles are those of all. The zero value is ready.
type sampler struct {
	window atomic.Int64 // that is counted, as the number of its kind since 1970
	seen   atomic.Int64 // values in it
	stride atomic.Int64 // one of so many is chosen; 0 is 1
}

// takeOne reports whether a value is chosen that comes at an instant, in nanoseconds since 1970.
func (s *sampler) takeOne(at int64) bool {
	window := at / int64(sampleWindow)
	if before := s.window.Load(); before != window && s.window.CompareAndSwap(before, window) {
		const most = MaxSamples * int64(sampleWindow) / int64(time.Second)
		stride := s.seen.Swap(0) / most
		if window != before+1 { // nothing came meanwhile, or the clock was set
			stride = 1
		}
		s.stride.Store(stride)
	}
	stride := s.stride.Load()
	return s.seen.Add(1)%max(stride, 1) == 0
}

// latestInstant returns an instant for takeOne: in the window that is counted.
func (s *sampler) latestInstant() int64 { return s.window.Load() * int64(sampleWindow) }

// A lateCount is added to a counter when it is collected, or when there is much of it. The zero value is ready.
type lateCount struct{ n atomic.Int64 }

// maxLate is how much is added late.
const maxLate = 1000

// addLater counts n more, and returns what has to be added to the counter now.
func (c *lateCount) addLater(n int64) int64 {
	if c.n.Add(n) < maxLate {
		return 0
	}
	return c.takeLate()
}

// takeLate returns what has to be added to the counter.
func (c *lateCount) takeLate() int64 { return c.n.Swap(0) }
