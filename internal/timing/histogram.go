package timing

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

const (
	firstBit = 14 // times below 2^14 ns are in bucket 0
	lastBit  = 51
	parts    = 8 // buckets for each power of two
	partBits = 3
	buckets  = 1 + (lastBit-firstBit+1)*parts
)

// A cell is a bucket that counts something.
type cell struct {
	bucket uint16
	n      uint32 // stays at the most that it can be
}

// A histogram counts times; its cells are sorted by bucket. The zero value has none.
type histogram []cell

// bucketOf returns the bucket of a time; negative ones are 0.
func bucketOf(d time.Duration) uint16 {
	v := uint64(max(d, 0)) //nolint:gosec // it is not negative
	if v < 1<<firstBit {
		return 0
	}
	bit := bits.Len64(v) - 1
	if bit > lastBit {
		return buckets - 1
	}
	part := v >> (bit - partBits) & (parts - 1)
	return uint16(1 + (bit-firstBit)*parts + int(part)) //nolint:gosec // below buckets
}

// middleOf returns the time that stands for those in a bucket.
func middleOf(bucket uint16) time.Duration {
	if bucket == 0 {
		return 1 << (firstBit - 1)
	}
	bit, part := firstBit+int(bucket-1)/parts, int64(bucket-1)%parts
	low := (parts + part) << (bit - partBits)
	high := low + 1<<(bit-partBits)
	return time.Duration(2 / (1/float64(low) + 1/float64(high)))
}

// addTimes counts n times in a bucket.
func (h *histogram) addTimes(bucket uint16, n uint32) {
	cells := *h
	at := len(cells)
	for at > 0 && cells[at-1].bucket >= bucket { // there are few
		at--
	}
	if at < len(cells) && cells[at].bucket == bucket {
		cells[at].n = addCapped(cells[at].n, n)
		return
	}
	*h = slices.Insert(cells, at, cell{bucket, n})
}

// addHistogram counts what another one has counted.
func (h *histogram) addHistogram(more histogram) {
	for _, c := range more {
		h.addTimes(c.bucket, c.n)
	}
}

func addCapped(a, b uint32) uint32 {
	if b > math.MaxUint32-a {
		return math.MaxUint32
	}
	return a + b
}

// quantile returns the time that a part of the times did not exceed; 0 without times.
func (h histogram) quantile(part float64) time.Duration {
	total := 0.0
	for _, c := range h {
		total += float64(c.n)
	}
	rank := math.Ceil(part * total)
	for _, c := range h {
		if rank -= float64(c.n); rank <= 0 {
			return middleOf(c.bucket)
		}
	}
	return 0
}
