package timeout

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

var noon = time.Date(2024, time.May, 1, 12, 0, 0, 0, time.UTC)

func TestInstant(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	tests := []struct {
		name     string
		in, want time.Time
	}{
		{"zero", time.Time{}, time.Time{}},
		{"whole", noon, noon},
		{"cut down", noon.Add(1_999_999), noon.Add(time.Millisecond)},
		{"before 1970 also down", time.Unix(-1, 999_999), time.Unix(-1, 0).UTC()},
		{"another zone", time.Date(2024, time.May, 1, 13, 0, 0, 0, cet), noon},
		{"Far", Far, Far},
		{"after Far", Far.Add(1), Far},
		{"the last that Go can hold", time.Unix(1<<62, 0), Far},
		{"before the year 1", time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, Instant(tt.in))
		})
	}
}

func TestDeadline(t *testing.T) {
	year2250 := time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name  string
		from  time.Time
		after time.Duration
		want  time.Time
	}{
		{"later", noon, time.Minute, noon.Add(time.Minute)},
		{"no limit", noon, 0, time.Time{}},
		{"negative", noon, -1, time.Time{}},
		{"not begun", time.Time{}, time.Second, time.Time{}},
		{"never early", noon, 1, noon.Add(time.Millisecond)},
		{"from is cut down", noon.Add(999_999), time.Second, noon.Add(time.Second)},
		{"past 2262", year2250, 100 * 365 * 24 * time.Hour, year2250.AddDate(0, 0, 36500)},
		{"the longest duration", noon, math.MaxInt64, noon.Add(math.MaxInt64).Truncate(time.Millisecond).Add(time.Millisecond)},
		{"from Far", Far, time.Hour, Far},
		{"beyond Far", Far.Add(-time.Minute), math.MaxInt64, Far},
		{"from after Far", time.Unix(1<<62, 0), math.MaxInt64, Far},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, Deadline(tt.from, tt.after))
		})
	}
}

func TestEarliest(t *testing.T) {
	zero, one, two := time.Time{}, noon.Add(1), noon.Add(2)
	assert.Equal(t, zero, Earliest())
	assert.Equal(t, zero, Earliest(zero, zero))
	assert.Equal(t, one, Earliest(two, zero, one, two))
	assert.Equal(t, two, Earliest(zero, two))
}

// drawTime draws an instant anywhere in the years that Go can name.
func drawTime(t *rapid.T, label string) time.Time {
	sec := rapid.Int64Range(-70_000_000_000, 300_000_000_000).Draw(t, label)
	return time.Unix(sec, rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
}

func TestInstantIsIdempotentAndMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawTime(t, "a"), drawTime(t, "b")
		assert.Equal(t, Instant(a), Instant(Instant(a)))
		if a.Before(b) {
			assert.False(t, Instant(b).Before(Instant(a)))
		}
		assert.True(t, time.UnixMilli(Instant(a).UnixMilli()).Equal(Instant(a)), "survives milliseconds")
	})
}

func TestDeadlineIsNeitherEarlyNorLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := Instant(drawTime(t, "from"))
		after := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "after"))
		at := Deadline(from, after)
		assert.Equal(t, Instant(at), at)
		if from.IsZero() || at.Equal(Far) {
			return
		}
		exact := from.Add(after)
		assert.False(t, at.Before(exact), "early")
		assert.True(t, at.Before(exact.Add(time.Millisecond)), "late")
	})
}

func TestEarliestIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := []time.Time{{}, drawTime(t, "a"), drawTime(t, "b"), drawTime(t, "c")}
		shuffled := rapid.Permutation(ts).Draw(t, "shuffled")
		assert.True(t, Earliest(ts...).Equal(Earliest(shuffled...)))
	})
}
