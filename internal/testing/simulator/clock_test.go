package simulator

import (
	"math/rand/v2"
	"sync"
	"time"
)

// maxNap is how long the engine may take to notice that the wall clock was set
// forward.
const maxNap = time.Minute

// hands are a wall clock that may be set, beside the clock of the bubble, which
// is the monotonic one.
type hands struct {
	mu    sync.Mutex
	ahead time.Duration // of the clock of the bubble
	most  time.Duration // that it was
	set   time.Time     // last, by the clock of the bubble
}

func (h *hands) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

// move sets the wall clock.
func (h *hands) move(ahead time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead, h.most, h.set = ahead, max(h.most, ahead), time.Now()
}

// fresh reports whether the clock was set so lately that not everybody has
// noticed.
func (h *hands) fresh() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.set.IsZero() && time.Since(h.set) <= maxNap
}

// untouched reports whether the clock was never set.
func (h *hands) untouched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.set.IsZero()
}

// setClock sets the wall clock as drawn.
func (w *world) setClock(r *rand.Rand) {
	const year = 365 * 24 * time.Hour
	by := of(r, time.Hour, -time.Hour, 10*year, -10*year, time.Duration(r.Int64N(8000)-4000)*time.Millisecond, -w.hands.ahead)
	w.note("clock by %v", by)
	w.tally.Clocks++
	w.hands.move(w.hands.ahead + by)
}
