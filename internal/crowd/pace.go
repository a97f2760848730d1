package crowd

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/rate"
)

// The rate of callers whose host says nothing.
const (
	defaultPerSecond = 500
	defaultBurst     = 2000
)

// maxPaced bounds the callers whose requests are counted one by one. Callers beyond it count
// together, until some of the others pause. The names come from the host, and a host may take them
// from something that callers choose: without a bound each new name would cost memory for good.
const maxPaced = 4096

// A Pacer spaces the requests of each caller. Buckets that are rested equal new ones, and are
// dropped when the map is full: nobody gains or loses a request by it. mu guards buckets, what they
// point to, and rest.
type Pacer struct {
	perSecond float64
	burst     int
	mu        sync.Mutex
	buckets   map[string]*rate.Bucket // of those who have sent more than a fresh one would hold
	rest      rate.Bucket             // of all beyond maxPaced
}

// NewPacer returns a pacer of so many requests a second in the long run, and so many at once after a pause. A rate of 0 is 500 a
// second, a negative one no bound; a burst below 1 is 2,000. The bucket for the rest has the rate of one caller.
func NewPacer(perSecond float64, burst int) *Pacer {
	if perSecond == 0 {
		perSecond = defaultPerSecond
	}
	if burst < 1 {
		burst = defaultBurst
	}
	return &Pacer{perSecond: perSecond, burst: burst, buckets: map[string]*rate.Bucket{}, rest: rate.NewBucket(perSecond, burst)}
}

// CountRequest counts a request of a caller, or returns after which time that caller may send it
// again. Callers without a name are one. A request that is refused is not counted, so that who asks
// again too soon does not push the instant away at which it may.
func (p *Pacer) CountRequest(who string, now time.Time) (again time.Duration) {
	// Written so that NaN counts as no bound too.
	if !(p.perSecond > 0) {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.bucketOf(who, now)
	if again = b.NextEvent().Sub(now); again > 0 {
		return again
	}
	b.CountEvent(now)
	return 0
}

// bucketOf returns the bucket of a caller, or that of the rest when the map is full of callers who
// are not rested. p.mu is held. The sweep looks at all buckets, and only when a name comes that has
// none while the map is full.
func (p *Pacer) bucketOf(who string, now time.Time) *rate.Bucket {
	if b := p.buckets[who]; b != nil {
		return b
	}
	if len(p.buckets) >= maxPaced {
		for name, b := range p.buckets {
			if b.IsRested(now) {
				delete(p.buckets, name)
			}
		}
	}
	if len(p.buckets) >= maxPaced {
		return &p.rest
	}
	b := rate.NewBucket(p.perSecond, p.burst)
	p.buckets[who] = &b
	return &b
}

// A TooFastError says that a request comes too soon.
type TooFastError struct {
	Rate    string // that one caller may have
	Seconds int64  // after which it may come
}

// Error says how fast requests may come.
func (e *TooFastError) Error() string {
	return fmt.Sprintf("one caller may send %s: try again in %d s", e.Rate, e.Seconds)
}

// Space counts a request of a caller, or refuses it with a *TooFastError if it comes too soon.
func (p *Pacer) Space(who string, now time.Time) error {
	again := p.CountRequest(who, now)
	if again <= 0 {
		return nil
	}
	// Rounded up, since Retry-After has whole seconds and a caller who comes back a moment early is refused
	// once more.
	seconds := int64(min(math.Ceil(again.Seconds()), math.MaxInt32))
	return &TooFastError{RateText(p.perSecond, p.burst), seconds}
}

// RateText returns a rate in words.
func RateText(perSecond float64, burst int) string {
	return fmt.Sprintf("%g requests a second, %d at once", perSecond, burst)
}
