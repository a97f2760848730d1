package timeout

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

const longestDelay = math.MaxInt64 / time.Millisecond * time.Millisecond

func TestDelay(t *testing.T) {
	tests := []struct {
		name    string
		retry   Retry
		attempt int
		want    time.Duration
	}{
		{"defaults, first", Retry{}, 1, time.Second},
		{"defaults, second", Retry{}, 2, 2 * time.Second},
		{"defaults, tenth", Retry{}, 10, 512 * time.Second},
		{"attempt 0 counts as the first", Retry{}, 0, time.Second},
		{"no negative exponent", Retry{}, math.MinInt, time.Second},
		{"constant", Retry{BackoffCoefficient: 1}, math.MaxInt, time.Second},
		{"below 1 counts as 1", Retry{BackoffCoefficient: 0.5}, 9, time.Second},
		{"negative counts as 1", Retry{BackoffCoefficient: -3}, 9, time.Second},
		{"not a number counts as 1", Retry{BackoffCoefficient: math.NaN()}, 9, time.Second},
		{"fractional", Retry{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 1.5}, 3, 225 * time.Millisecond},
		{"cut down", Retry{InitialInterval: time.Millisecond, BackoffCoefficient: 1.5}, 2, time.Millisecond},
		{"cap", Retry{MaxInterval: 5 * time.Second}, 4, 5 * time.Second},
		{"cap below the first", Retry{MaxInterval: 10 * time.Millisecond}, 1, 10 * time.Millisecond},
		{"cap, cut down", Retry{MaxInterval: 5*time.Millisecond + 999}, 4, 5 * time.Millisecond},
		{"cap at the last attempt", Retry{MaxInterval: time.Hour}, math.MaxInt, time.Hour},
		{"saturates", Retry{}, 64, longestDelay},
		{"saturates at the last attempt", Retry{}, math.MaxInt, longestDelay},
		{"saturates from infinity", Retry{BackoffCoefficient: math.Inf(1)}, 2, longestDelay},
		{"infinity to the 0", Retry{BackoffCoefficient: math.Inf(1)}, 1, time.Second},
		{"longest initial interval", Retry{InitialInterval: math.MaxInt64}, 1, longestDelay},
		{"negative initial interval", Retry{InitialInterval: -1}, 1, time.Second},
		{"jitter is not negative", Retry{Jitter: -1}, 1, time.Second},
		{"jitter is a number", Retry{Jitter: math.NaN()}, 1, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, tt.retry.Delay("run", 7, tt.attempt))
		})
	}
}

// Delays are in journals: another value here breaks the replay of old runs.
func TestJitterStaysAsItIs(t *testing.T) {
	r := Retry{InitialInterval: time.Hour, BackoffCoefficient: 1, Jitter: 1}
	got := []time.Duration{
		r.Delay("", 0, 0), r.Delay("order-42", 1, 1), r.Delay("order-42", 1, 2),
		r.Delay("order-42", 2, 1), r.Delay("order-43", 1, 1), r.Delay("order-42", -1, math.MaxInt),
	}
	want := []time.Duration{
		2131065 * time.Millisecond, 2276962 * time.Millisecond, 798964 * time.Millisecond,
		1302541 * time.Millisecond, 1161236 * time.Millisecond, 1925208 * time.Millisecond,
	}
	assert.Equal(t, want, got)
	r.InitialInterval, r.MaxInterval = 4*time.Hour, time.Hour
	assert.Equal(t, want[1], r.Delay("order-42", 1, 1), "a pause that is cut is as random as any")
}

func drawRetry(t *rapid.T) Retry {
	return Retry{
		InitialInterval:    time.Duration(rapid.Int64().Draw(t, "initial")),
		BackoffCoefficient: rapid.Float64().Draw(t, "coefficient"),
		MaxInterval:        time.Duration(rapid.Int64().Draw(t, "max")),
		Jitter:             rapid.Float64Range(-0.5, 1.5).Draw(t, "jitter"),
	}
}

func TestDelayIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRetry(t)
		run, token := rapid.String().Draw(t, "run"), rapid.Int64().Draw(t, "token")
		attempt := rapid.Int().Draw(t, "attempt")
		got := r.Delay(run, token, attempt)
		assert.GreaterOrEqual(t, got, time.Duration(0))
		assert.Zero(t, got%time.Millisecond)
		assert.Equal(t, got, r.Delay(run, token, attempt), "pure")
		if r.MaxInterval > 0 {
			assert.LessOrEqual(t, got, r.MaxInterval)
		}
	})
}

func TestJitterStaysWithinItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{
			InitialInterval:    time.Duration(rapid.Int64Range(1e6, 1e15).Draw(t, "initial")),
			BackoffCoefficient: rapid.Float64Range(1, 10).Draw(t, "coefficient"),
		}
		attempt := rapid.IntRange(1, 100).Draw(t, "attempt")
		nominal := r.Delay("r", 1, attempt)
		r.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
		got := r.Delay("r", 1, attempt)
		assert.LessOrEqual(t, got, nominal)
		least := float64(nominal)*(1-r.Jitter)*(1-1e-12) - float64(2*time.Millisecond)
		assert.GreaterOrEqual(t, float64(got), least)
	})
}

func TestDelaysGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRetry(t)
		r.Jitter = 0
		r.BackoffCoefficient = rapid.Float64Range(1.001, 100).Draw(t, "coefficient")
		attempt := rapid.IntRange(1, 10_000).Draw(t, "attempt")
		assert.LessOrEqual(t, r.Delay("r", 1, attempt), r.Delay("r", 1, attempt+1))
	})
}

// Neighbours must differ: retries of the branches of one group should spread.
func TestJitterSpreads(t *testing.T) {
	var buckets [10]int
	const n = 10_000
	for token := range int64(n) {
		buckets[int(10*hashFraction("order-42", token, 1))]++
	}
	for i, count := range buckets {
		assert.InDelta(t, n/10, count, n/100, "bucket %d", i)
	}
}

func BenchmarkDelay(b *testing.B) {
	r := Retry{Jitter: 0.5}
	for b.Loop() {
		r.Delay("order-42", 17, 5)
	}
}
