package timeout

import (
	"math"
	"time"
)

// Defaults of a [Retry].
const (
	DefaultInitialInterval    = time.Second
	DefaultBackoffCoefficient = 2.0
)

// A Retry says how often a task is tried and how long the pauses are. Its zero
// value doubles pauses from one second, without a cap and without jitter.
type Retry struct {
	MaxAttempts        int           // counted with the first; Delay does not look at it
	InitialInterval    time.Duration // the first pause; <= 0: [DefaultInitialInterval]
	BackoffCoefficient float64       // factor from pause to pause; 0: [DefaultBackoffCoefficient]; below 1 counts as 1
	MaxInterval        time.Duration // no pause is longer; <= 0: no cap
	Jitter             float64       // how much of a pause is random: 0 nothing, 1 all of it
}

// Delay returns the pause between attempt, counted from 1, and the next one,
// in whole milliseconds, cut down. It grows exponentially and saturates at
// MaxInterval, or at the longest [time.Duration], for every attempt number.
//
// Jitter takes the pause times a factor in (1-Jitter, 1], so that the cap
// holds: with 1 that is "full jitter", with 0.5 "equal jitter" (Brooker,
// Exponential Backoff and Jitter, AWS Architecture Blog, 2015). The factor is
// a pure function of run, token and attempt: a replay waits as long as the
// original did, on every machine.
func (r Retry) Delay(run string, token int64, attempt int) time.Duration {
	ms := float64(r.firstInterval()) / float64(time.Millisecond)
	ms *= intPower(r.growthFactor(), max(attempt, 1)-1)
	ms = min(ms, float64(r.longestInterval().Milliseconds()))
	if jitter := r.clampedJitter(); jitter > 0 {
		// The conversion keeps compilers from fusing the two operations,
		// which would round differently on some machines.
		ms *= 1 - float64(jitter*hashFraction(run, token, attempt))
	}
	return time.Duration(ms) * time.Millisecond
}

func (r Retry) firstInterval() time.Duration {
	if r.InitialInterval <= 0 {
		return DefaultInitialInterval
	}
	return r.InitialInterval
}

func (r Retry) growthFactor() float64 {
	switch c := r.BackoffCoefficient; {
	case c == 0:
		return DefaultBackoffCoefficient
	case c >= 1:
		return c
	default: // below 1, or not a number
		return 1
	}
}

func (r Retry) longestInterval() time.Duration {
	if r.MaxInterval <= 0 {
		return math.MaxInt64
	}
	return r.MaxInterval
}

func (r Retry) clampedJitter() float64 {
	if !(r.Jitter > 0) { // also if it is not a number
		return 0
	}
	return min(r.Jitter, 1)
}

// intPower returns base to the n, by squaring: at most 64 rounds for every n.
// It is plain multiplication because math.Pow may differ between machines.
func intPower(base float64, n int) float64 {
	result := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			result *= base
		}
		base *= base
	}
	return result
}

// hashFraction hashes its arguments to a number in [0, 1): FNV-1a over the bytes,
// then the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), because the
// high bits of FNV-1a alone hardly depend on the last bytes.
func hashFraction(run string, token int64, attempt int) float64 {
	h := uint64(14695981039346656037)
	for i := range len(run) {
		h = hashByte(h, run[i])
	}
	for _, x := range [2]uint64{uint64(token), uint64(attempt)} {
		for shift := 0; shift < 64; shift += 8 {
			h = hashByte(h, byte(x>>shift))
		}
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	return float64(h>>11) / (1 << 53)
}

func hashByte(h uint64, b byte) uint64 { return (h ^ uint64(b)) * 1099511628211 }

// MaxNap bounds how long a timer sleeps that waits for an instant of the wall
// clock, so that a wall clock that jumps is noticed.
const MaxNap = time.Minute

// A Backoff is the exponential back-off of something that is tried until it
// succeeds: the first pause is First, each further one twice as long as the one
// before it, and none longer than Max. It has no bound of attempts and no jitter;
// see [Retry] for those.
type Backoff struct {
	First time.Duration // above 0
	Max   time.Duration
}

// Next returns the pause that follows one of last; last is 0 before the first.
func (b Backoff) Next(last time.Duration) time.Duration {
	if last > b.Max/2 {
		return b.Max
	}
	return min(max(2*last, b.First), b.Max)
}
