package damagetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// frameSize is the size of a frame of a log, behind a header of walHeader bytes.
const (
	walHeader   = 32
	frameHeader = 24
	frameSize   = frameHeader + index.PageSize
)

func readFile(t testing.TB, path ...string) []byte {
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Error(err)
	}
	return data
}

func writeFile(t testing.TB, data []byte, path ...string) {
	name := filepath.Join(path...)
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = os.WriteFile(name, data, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// A cut is what a loss of power may leave of a log: its first bytes, and
// something in the place of the rest.
type cut struct {
	at   int
	tail string // what stands there: nothing, zeros, noise, sectors
}

var tails = []string{"nothing", "zeros", "noise", "sectors", "pages"}

// cuts returns the cuts within the last three frames, and n drawn ones. In a
// release those are all; in the gate they are those near the ends of a frame and
// of its header, and every 17th of the others, which differ in nothing; in a quick
// run every 345th, six in each frame.
func cuts(size, n int, rng *rand.Rand) []cut {
	var out []cut
	every, ends := harness.Figure(345, 17, 1), harness.CurrentLevel() > harness.Quick
	for at := size - 3*frameSize; at <= size; at++ {
		in := (at - walHeader) % frameSize
		if at%every == 0 || ends && (in < 32 || in > frameSize-8) {
			out = append(out, cut{at, tails[0]})
		}
	}
	for range n {
		out = append(out, cut{rng.IntN(size + 1), tails[rng.IntN(len(tails))]})
	}
	return out
}

// of returns the log after the cut.
func (c cut) of(log []byte, rng *rand.Rand) []byte {
	out := slices.Clone(log)
	rest := out[c.at:]
	switch c.tail {
	case "nothing":
		return out[:c.at]
	case "zeros":
		clear(rest)
	case "noise":
		for i := range rest {
			rest[i] = byte(rng.Uint32())
		}
	case "sectors":
		drop(rest, 512-c.at%512, 512, rng)
	case "pages":
		drop(rest, 4096-c.at%4096, 4096, rng)
	}
	return out
}

// drop clears about half of the sectors of data. The first sector is shorter.
func drop(data []byte, first, sector int, rng *rand.Rand) {
	for n := first; len(data) > 0; n = sector {
		n = min(n, len(data))
		if rng.IntN(2) == 0 {
			clear(data[:n])
		}
		data = data[n:]
	}
}

// TestTornLog cuts a log at every byte of its last three frames and at drawn
// places. Everything acknowledged before the cut must be there, and be one state
// between two acknowledgements; only a log that lacks something synced may be
// refused.
func TestTornLog(t *testing.T) {
	harness.InTurn(t, 4)
	s := newScene(t, harness.Workspace(t))
	log := readFile(t, s.plus, indexWAL)
	acked := s.acks[len(s.acks)-2].length // the last transaction is not
	list := cuts(len(log), harness.Figure(40, 1000, 11000), rand.New(rand.NewPCG(*seed, 5)))
	plus := tell(t, s.plus)
	var y tally
	trials(t, len(list), func(i int, rng *rand.Rand, dir string) {
		c := list[i]
		copyDir(t, s.plus, dir)
		torn := c.of(log, rng)
		writeFile(t, torn, dir, indexWAL)
		sound := len(commonPrefix(log, torn))
		low, high := s.at(int64(sound))
		deep := heads
		if i%8 == 0 {
			deep = everything
		}
		h, err := look(dir, deep)
		name := fmt.Sprintf("cut at %d of %d, then %s", c.at, len(log), c.tail)
		switch {
		case err != nil && !typed(err):
			y.violate("%s: %v", name, err)
		case err != nil && int64(sound) >= acked:
			y.violate("%s: nothing synced is lost, but it is refused: %v", name, err)
		case err != nil:
			y.count("refused")
		case !h.seqs().between(low, high):
			y.violate("%s: %v is not between %v and %v", name, h.seqs(), low, high)
		default:
			if err := h.prefixes(plus); err != nil {
				y.violate("%s: %v", name, err)
			}
			y.count("tail: " + c.tail)
			if h.global != "" {
				y.count("read in full")
			}
			if int64(sound) >= acked {
				y.count("tail that was not synced")
			} else {
				y.count("a committed prefix")
			}
		}
	})
	must := []string{"read in full"}
	for _, tail := range tails {
		must = append(must, "tail: "+tail)
	}
	y.report(t, len(list), append(must, "refused", "tail that was not synced", "a committed prefix")...)
}

// commonPrefix returns what two lists begin with.
func commonPrefix[E comparable](a, b []E) []E {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// A harm damages a directory. It returns what it has done, in words, and where
// the log differs from what was synced, -1 if it does not.
type harm struct {
	name string
	do   func(t testing.TB, s *scene, dir string, rng *rand.Rand) int64
}

// flip changes some bits of a file, and returns where the first is.
func flip(data []byte, from int, rng *rand.Rand) int64 {
	first := len(data)
	for range 1 + rng.IntN(3) {
		at := from + rng.IntN(len(data)-from)
		data[at] ^= 1 << rng.IntN(8)
		first = min(first, at)
	}
	return int64(first)
}

func logHarms(other *scene) []harm {
	foreign := func(dir func(s *scene) string) func(testing.TB, *scene, string, *rand.Rand) int64 {
		return func(t testing.TB, s *scene, to string, _ *rand.Rand) int64 {
			data := readFile(t, dir(s), indexWAL)
			writeFile(t, data, to, indexWAL)
			return int64(len(commonPrefix(data, readFile(t, s.hot, indexWAL))))
		}
	}
	return []harm{
		{"flipped bits", func(t testing.TB, s *scene, dir string, rng *rand.Rand) int64 {
			data := readFile(t, dir, indexWAL)
			first := flip(data, 0, rng)
			writeFile(t, data, dir, indexWAL)
			return first
		}},
		{"noise", func(t testing.TB, s *scene, dir string, rng *rand.Rand) int64 {
			data := readFile(t, dir, indexWAL)
			at := rng.IntN(len(data) - 1)
			for i := at; i < min(len(data), at+1+rng.IntN(8192)); i++ {
				data[i] = byte(rng.Uint32())
			}
			writeFile(t, data, dir, indexWAL)
			return int64(at)
		}},
		{"frames swapped", func(t testing.TB, s *scene, dir string, rng *rand.Rand) int64 {
			data := readFile(t, dir, indexWAL)
			n := (len(data) - walHeader) / frameSize
			i, j := rng.IntN(n), rng.IntN(n)
			was := slices.Clone(data)
			copy(data[walHeader+i*frameSize:][:frameSize], was[walHeader+j*frameSize:])
			copy(data[walHeader+j*frameSize:][:frameSize], was[walHeader+i*frameSize:])
			writeFile(t, data, dir, indexWAL)
			return int64(len(commonPrefix(data, was)))
		}},
		{"deleted", func(t testing.TB, _ *scene, dir string, _ *rand.Rand) int64 {
			if err := os.Remove(filepath.Join(dir, indexWAL)); err != nil {
				t.Error(err)
			}
			return 0
		}},
		{"emptied", func(t testing.TB, _ *scene, dir string, _ *rand.Rand) int64 {
			writeFile(t, nil, dir, indexWAL)
			return 0
		}},
		{"of another directory", foreign(func(*scene) string { return other.hot })},
		{"older, of this life", foreign(func(s *scene) string { return s.early })},
		{"of another directory, with our salt", func(t testing.TB, s *scene, dir string, _ *rand.Rand) int64 {
			data := readFile(t, other.hot, indexWAL)
			ours := readFile(t, dir, indexWAL)
			copy(data[:walHeader], ours[:walHeader])
			for at := walHeader; at < len(data); at += frameSize {
				copy(data[at+8:at+16], ours[16:24])
			}
			writeFile(t, data, dir, indexWAL)
			return int64(len(commonPrefix(data, ours)))
		}},
	}
}

// TestDamagedLog changes, deletes and replaces the log. Nothing acknowledged may
// be gone without a word, but for the last transaction: damage of that is what a
// loss of power in the middle of it leaves. So is damage of where the one before
// ends: the two look like one then. An older log of the same life, which nothing
// tells from the last one, gives what was committed by then.
func TestDamagedLog(t *testing.T) {
	harness.InTurn(t, 4)
	s, other := newScene(t, harness.Workspace(t)), newScene(t, harness.Workspace(t))
	harms := logHarms(other)
	n := harness.Figure(len(harms), 300, 5000)
	var y tally
	trials(t, n, func(i int, rng *rand.Rand, dir string) {
		m := harms[0]
		switch {
		case harness.CurrentLevel() == harness.Quick:
			m = harms[i]
		case i%2 == 1:
			m = harms[i/2%len(harms)]
		}
		copyDir(t, s.hot, dir)
		first := m.do(t, s, dir, rng)
		last := first
		if m.name == "noise" {
			last = int64(lastDifference(readFile(t, s.hot, indexWAL), readFile(t, dir, indexWAL)))
		}
		before := harness.Contents(t, dir)
		h, err := read(dir)
		switch {
		case err != nil && !typed(err):
			y.violate("%s: %v", m.name, err)
		case err != nil:
			y.count("refused")
			y.count(m.name)
			y.unchanged(t, m.name, before, dir)
			y.sampled(t, i/2/len(harms), dir, s.truth, other.truth)
		default:
			y.count(m.name)
			s.judgeLog(&y, m.name, first, last, h)
		}
	})
	must := []string{"refused", "verified", "repaired"}
	for _, m := range harms {
		must = append(must, m.name)
	}
	y.report(t, n, must...)
}

// lastDifference returns where two logs of one length differ for the last time.
func lastDifference(a, b []byte) int {
	i := len(a) - 1
	for i > 0 && a[i] == b[i] {
		i--
	}
	return i
}

// judgeLog judges what is read after damage of the log from one place to another.
func (s *scene) judgeLog(y *tally, name string, first, last int64, h truth) {
	if err := h.prefixes(s.truth); err != nil {
		y.violate("%s at %d: %v", name, first, err)
	}
	low, _ := s.at(first)
	switch {
	case h.seqs().equal(s.truth.seqs()):
		y.count("unharmed")
	case name == "older, of this life":
		y.count("an older log of the same life: a committed prefix")
	case s.looksTorn(first, last) && h.seqs().between(low, s.truth.seqs()):
		y.count("damage of the last transaction, taken for torn")
	default:
		y.violate("%s at %d of %d: acknowledged records are gone without a word: %v", name, first, s.acks[len(s.acks)-2].length, h.seqs())
	}
}

// looksTorn reports whether damage of the log from one place to another looks like a
// last transaction that was not written to its end: it is in that, or in the header
// of the frame that ends the one before.
func (s *scene) looksTorn(first, last int64) bool {
	end := s.tail - frameSize
	return last >= s.tail || last >= end && first < end+frameHeader
}

// unchanged checks that a directory that was refused is as it was, but for the
// lock file and folders of ours, which may be made, and what SQLite leaves beside
// a database that it cannot read.
func (y *tally) unchanged(t testing.TB, name string, before map[string]string, dir string) {
	after := harness.Contents(t, dir)
	for path, data := range before {
		if path != "tmp" && after[path] != data {
			y.violate("%s: %s was refused and has been changed", name, path)
		}
	}
}

// sampled has Verify and Repair look at every third round's directories in which
// something was refused. A round goes through all kinds of harm, so that each kind
// is looked at.
func (y *tally) sampled(t testing.TB, round int, dir string, full ...truth) {
	if round%3 == 0 {
		y.inspect(t, dir, full)
	}
}

// inspect checks that Verify names damage in a directory, and that Repair makes a
// sound one of first records, and that neither changes anything. Every restored
// run was in one of some directories: a log that was put in the place of ours
// brings its own runs, which is reported.
func (y *tally) inspect(t testing.TB, dir string, full []truth) {
	before := harness.Contents(t, dir)
	r, err := rescue.Verify(t.Context(), dir, rescue.Options{})
	switch {
	case err != nil && !typed(err):
		y.violate("verify: %v", err)
	case err == nil && r.Damage == 0:
		y.violate("verify finds nothing")
	}
	y.count("verified")
	if err == nil {
		y.repair(dir, full)
	}
	y.unchanged(t, "verify and repair", before, dir)
	y.nothingNew(t, "verify and repair", before, dir)
}

// nothingNew checks that there is no file or folder in a directory that was not
// there before.
func (y *tally) nothingNew(t testing.TB, name string, before map[string]string, dir string) {
	after := harness.Contents(t, dir)
	for path := range after {
		if _, ok := before[path]; !ok {
			y.violate("%s: %s was made", name, path)
		}
	}
}

func (y *tally) repair(dir string, full []truth) {
	into := dir + "-repaired"
	defer os.RemoveAll(into)
	report, err := rescue.Repair(context.Background(), dir, into, rescue.Options{})
	if err != nil {
		y.violate("repair: %v", err)
		return
	}
	y.count("repaired")
	if r, err := rescue.Verify(context.Background(), into, rescue.Options{}); err != nil || r.Damage > 0 {
		y.violate("repair: %v, %v", err, r)
	}
	h, err := read(into)
	if err != nil {
		y.violate("repair: %v", err)
		return
	}
	for id, w := range h.runs {
		n := slices.IndexFunc(full, func(h truth) bool { return h.runs[id] != nil && prefixOrSuspended(w.records, h.runs[id].records) })
		switch {
		case w.err != nil:
			y.violate("repair: run %q: %v", string(id), w.err)
		case n < 0:
			y.violate("repair: run %q: its records are not the first of those it had", string(id))
		case !names(report, id) && (n > 0 || !slices.Equal(w.records, full[0].runs[id].records)):
			y.violate("repair: run %q is not what it was, and nothing says so", string(id))
		}
	}
}

// names reports whether a report says that a run is damaged.
func names(r *rescue.Report, id workflow.RunID) bool {
	return slices.ContainsFunc(r.Findings, func(f rescue.Finding) bool { return f.Damage && f.Run == id })
}

// prefixOrSuspended reports whether records are the first of others, perhaps with
// a suspension behind them.
func prefixOrSuspended(records, of []string) bool {
	n := len(commonPrefix(records, of))
	return n == len(records) || n == len(records)-1 && bytes.Contains([]byte(records[n]), []byte("repaired: "))
}

// The frames of the scene are as the tests take them.
func TestFrames(t *testing.T) {
	s := newScene(t, harness.Workspace(t))
	log := readFile(t, s.hot, indexWAL)
	require.EqualValues(t, index.PageSize, binary.BigEndian.Uint32(log[8:]))
	require.Zero(t, (len(log)-walHeader)%frameSize)
	require.EqualValues(t, len(log), s.acks[len(s.acks)-2].length)
}
