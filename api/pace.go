package api

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/rate"
)

// A Rate is how fast one caller may send requests. The two are independent: {PerSecond: 1, Burst:
// 60} lets a script send a minute's worth at once, and then one each second.
type Rate struct {
	PerSecond float64 // requests in the long run; 500 if it is 0, without a bound if it is negative
	Burst     int     // requests at once after a pause; 2,000 if it is below 1
}

// The rate of callers whose host says nothing.
const (
	defaultPerSecond = 500
	defaultBurst     = 2000
)

// maxPaced bounds the callers whose requests are counted one by one. Those beyond it count
// together, until some of the others pause. The names come from the host, and a host may take them
// from something that callers choose: without a bound each new name would cost memory for good.
const maxPaced = 4096

// A pacer spaces the requests of each caller. Buckets that are rested equal new ones, and are
// dropped when the map is full: nobody gains or loses a request by it. mu guards buckets, what they
// point to, and rest.
type pacer struct {
	rate    Rate
	mu      sync.Mutex
	buckets map[string]*rate.Bucket // of those who have sent more than a fresh one would hold
	rest    rate.Bucket             // of all beyond maxPaced
}

// newPacer returns a pacer of a rate, in which what is not set has its default. A burst without a
// rate, or the other way round, keeps the default of what is missing. The bucket for the rest has
// the rate of one caller.
func newPacer(r Rate) *pacer {
	if r.PerSecond == 0 {
		r.PerSecond = defaultPerSecond
	}
	if r.Burst < 1 {
		r.Burst = defaultBurst
	}
	return &pacer{rate: r, buckets: map[string]*rate.Bucket{}, rest: rate.NewBucket(r.PerSecond, r.Burst)}
}

// countRequest counts a request of a caller, or returns after which time that caller may send it
// again. Callers without a name are one. A request that is refused is not counted, so that who asks
// again too soon does not push the instant away at which it may.
func (p *pacer) countRequest(who string, now time.Time) (again time.Duration) {
	// Written so that NaN counts as no bound too.
	if !(p.rate.PerSecond > 0) {
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
func (p *pacer) bucketOf(who string, now time.Time) *rate.Bucket {
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
	b := rate.NewBucket(p.rate.PerSecond, p.rate.Burst)
	p.buckets[who] = &b
	return &b
}

// spaceRequest refuses a request that comes too soon. Programs on the socket are of the same user
// as the engine, and are not refused. It runs before admit of the crowd, as it costs less, and only
// for paths that need a right.
func (c *call) spaceRequest() error {
	if c.local {
		return nil
	}
	again := c.pace.countRequest(c.who, time.Now())
	if again <= 0 {
		return nil
	}
	// Rounded up, since Retry-After has whole seconds and who comes back a moment early is refused
	// once more.
	seconds := int64(min(math.Ceil(again.Seconds()), math.MaxInt32))
	c.w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	return refusef(http.StatusTooManyRequests, codeTooFast, "one caller may send %s: try again in %d s", c.pace.rate, seconds)
}

// String returns the rate in words.
func (r Rate) String() string {
	return fmt.Sprintf("%g requests a second, %d at once", r.PerSecond, r.Burst)
}
