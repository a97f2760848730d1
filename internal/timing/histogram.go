package timing

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/pawl-run/pawl/history"
)

const (
	firstBit = 14 // times below 2^14 ns are in bucket 0
	lastBit  = 51
	parts    = 8 // buckets for each power of two
	partBits = 3
	buckets  = 1 + (lastBit-firstBit+1)*parts
)

// A histogram counts the times of each bucket; a number stays at the most that it can be. The zero value has none.
type histogram [buckets]uint32

// Cells are the buckets of a histogram that count something, from the first on, some one byte each, as they are in memory and in the file:
// a byte has how many buckets were passed over and, below it, the number less one, four bits each; what has no room in them follows.
type cells string

const (
	cellBits = 4
	cellFull = 1<<cellBits - 1 // the rest follows
)

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

// addTime counts a time.
func (h *histogram) addTime(d time.Duration) {
	bucket := bucketOf(d)
	h[bucket] = addCapped(h[bucket], 1)
}

// appendCells appends the cells of a histogram.
func (h *histogram) appendCells(to []byte) []byte {
	next := 0
	for bucket, n := range h {
		if n == 0 {
			continue
		}
		passed, less := uint32(bucket-next), n-1 //nolint:gosec // below buckets
		to = append(to, byte(min(passed, cellFull)<<cellBits|min(less, cellFull)))
		for _, rest := range [2]uint32{passed, less} {
			if rest >= cellFull {
				to = binary.AppendUvarint(to, uint64(rest-cellFull))
			}
		}
		next = bucket + 1
	}
	return to
}

// addCells counts what cells have counted. It returns false, and has counted a part, if they are damaged.
func (h *histogram) addCells(from cells) bool {
	bucket := 0
	for at := 0; at < len(from); {
		passed, less := uint64(from[at]>>cellBits), uint64(from[at]&cellFull)
		at++
		if passed == cellFull || less == cellFull {
			if at = addRests(from, at, &passed, &less); at < 0 {
				return false
			}
		}
		if passed >= buckets || bucket+int(passed) >= buckets || less >= math.MaxUint32 { //nolint:gosec // passed is below buckets
			return false
		}
		bucket += int(passed) //nolint:gosec // likewise
		h[bucket] = addCapped(h[bucket], uint32(less+1))
		bucket++
	}
	return true
}

// addRests adds what had no room in the byte before an index, and returns the index behind it; less than 0 if it is damaged.
func addRests(from cells, at int, passed, less *uint64) int {
	for _, of := range [2]*uint64{passed, less} {
		if *of < cellFull {
			continue
		}
		for shift := 0; ; shift += 7 {
			if at == len(from) || shift > 28 {
				return -1
			}
			b := from[at]
			at++
			if *of += uint64(b&0x7f) << shift; b < 0x80 {
				break
			}
		}
	}
	return at
}

// addHistogram counts what another one has counted.
func (h *histogram) addHistogram(more *histogram) {
	for bucket, n := range more {
		h[bucket] = addCapped(h[bucket], n)
	}
}

func addCapped(a, b uint32) uint32 {
	if b > math.MaxUint32-a {
		return math.MaxUint32
	}
	return a + b
}

// readQuantiles returns the times that half, 95 and 99 of a hundred did not exceed; 0 without times.
func (h *histogram) readQuantiles() (q history.Quantiles) {
	total, seen := uint64(0), uint64(0)
	for _, n := range h {
		total += uint64(n)
	}
	if total == 0 {
		return q
	}
	wanted := []struct {
		part float64
		to   *time.Duration
	}{{0.5, &q.P50}, {0.95, &q.P95}, {0.99, &q.P99}}
	for bucket, n := range h {
		seen += uint64(n)
		for len(wanted) > 0 && float64(seen) >= math.Ceil(wanted[0].part*float64(total)) {
			*wanted[0].to = middleOf(uint16(bucket)) //nolint:gosec // below buckets
			wanted = wanted[1:]
		}
		if len(wanted) == 0 {
			break
		}
	}
	return q
}
