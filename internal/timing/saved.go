package timing

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"

	"github.com/pawl-run/pawl/internal/amount"
)

// MaxSaved is how many bytes Restore reads at most.
const MaxSaved = 64 << 20

// savedMark begins what Save writes. When counting began, in ns since 1970, the number of series and the series follow, and in the end the
// CRC-32C of all that in four bytes, the lowest first. A series is its three names, its minute, and for each ring how many sums it has, and
// the sums. A sum is its number, how many attempts ended and failed, its cells twice, and what was reported: how many names, and for each the name,
// the whole part and billionths. Numbers are varints; a length is before each name and before cells.
const savedMark = "pawltim2"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save returns all that was counted, for Restore, and whether anything was since Restore.
func (c *Counters) Save() (saved []byte, changed bool) {
	c.mu.Lock()
	changed = c.changed
	c.mu.Unlock()
	if !changed {
		return nil, false
	}
	of, since := c.copySeries("")
	saved = binary.AppendVarint([]byte(savedMark), since.UnixNano())
	saved = binary.AppendUvarint(saved, uint64(len(of)))
	for i := range of {
		s := &of[i]
		for _, name := range []string{s.name.Workflow, s.name.Node, s.name.Type} {
			saved = appendText(saved, name)
		}
		open := s.now.closeAt(s.minute)
		saved = open.appendSaved(saved)
		for _, r := range s.rings {
			saved = binary.AppendUvarint(saved, uint64(len(r)))
			for j := range r {
				saved = r[j].appendSaved(saved)
			}
		}
	}
	return binary.LittleEndian.AppendUint32(saved, crc32.Checksum(saved, castagnoli)), true
}

func (c *closed) appendSaved(to []byte) []byte {
	for _, n := range []int64{c.at, c.n, c.failed} {
		to = binary.AppendUvarint(to, uint64(n)) //nolint:gosec // none is negative
	}
	to = binary.AppendUvarint(appendText(appendText(to, string(c.queue)), string(c.work)), uint64(len(c.reported)))
	for _, x := range c.reported {
		to = appendText(to, x.Name)
		to = binary.AppendUvarint(to, uint64(x.Whole)) //nolint:gosec // it is not negative
		to = binary.AppendUvarint(to, uint64(x.Nano))  //nolint:gosec // likewise
	}
	return to
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

var errSaved = errors.New("they are not as they were saved")

// Restore takes what Save has returned, in place of what is counted. After an error nothing has changed.
func (c *Counters) Restore(saved []byte) error {
	end := len(saved) - crc32.Size
	if end < len(savedMark) || string(saved[:len(savedMark)]) != savedMark || binary.LittleEndian.Uint32(saved[end:]) != crc32.Checksum(saved[:end], castagnoli) {
		return errSaved
	}
	in := savedReader{rest: saved[len(savedMark):end]}
	nanos, n := binary.Varint(in.rest)
	if n <= 0 {
		return errSaved
	}
	in.rest = in.rest[n:]
	since, of := time.Unix(0, nanos).UTC(), map[Name]*series{}
	for range in.readNumber(MaxSeries + 2) {
		s := in.readSeries()
		if first := s.firstEnd(); first.Before(since) {
			since = first
		}
		of[s.name] = s
	}
	if in.bad || len(in.rest) > 0 {
		return errSaved
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of, c.last, c.since, c.changed = of, nil, since, false
	return nil
}

// firstEnd returns when the oldest sum of a series ended.
func (s *series) firstEnd() time.Time {
	first := (s.minute + 1) * spanOf[minutes].seconds
	for of, r := range s.rings {
		if len(r) > 0 {
			first = min(first, (r[0].at+1)*spanOf[of].seconds)
		}
	}
	return time.Unix(first, 0).UTC()
}

// A savedReader reads what Save has written. Once anything was not as it should be, it returns only what is zero.
type savedReader struct {
	rest  []byte
	bad   bool
	check histogram // takes all cells, to see whether they are damaged
}

// readNumber reads a number that is at most as large as it may be.
func (r *savedReader) readNumber(most int64) int64 {
	n, size := binary.Uvarint(r.rest)
	if r.bad = r.bad || size <= 0 || n > uint64(most); r.bad { //nolint:gosec // most is not negative
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n) //nolint:gosec // it is at most most
}

func (r *savedReader) readText() string {
	n := r.readNumber(int64(len(r.rest)))
	if n > int64(len(r.rest)) {
		r.bad = true
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

func (r *savedReader) readSeries() *series {
	s := &series{name: Name{r.readText(), r.readText(), r.readText()}}
	open := r.readClosed()
	s.minute = open.at
	s.now.addClosed(&open, keptNames)
	for of := range spans {
		ring := make(ring, r.readNumber(spanOf[of].kept))
		for i := range ring {
			ring[i] = r.readClosed()
			r.bad = r.bad || i > 0 && ring[i].at <= ring[i-1].at
		}
		s.rings[of] = ring
	}
	return s
}

func (r *savedReader) readClosed() closed {
	const mostAt, mostCounted = 1 << 40, 1 << 60
	c := closed{at: r.readNumber(mostAt), n: r.readNumber(mostCounted)}
	c.failed = r.readNumber(c.n)
	c.queue, c.work = cells(r.readText()), cells(r.readText())
	c.reported = make(amount.Sums, r.readNumber(keptNames))
	for i := range c.reported {
		c.reported[i] = amount.Sum{Name: r.readText(), Whole: r.readNumber(math.MaxInt64), Nano: r.readNumber(1e9 - 1)}
		r.bad = r.bad || i > 0 && c.reported[i].Name <= c.reported[i-1].Name
	}
	r.bad = r.bad || !r.check.addCells(c.queue) || !r.check.addCells(c.work)
	return c
}
