package damagetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A mutation changes the bytes of a database file.
type mutation struct {
	name string
	do   func(data []byte, rng *rand.Rand) []byte
}

var mutations = []mutation{
	{"flipped bits", func(b []byte, rng *rand.Rand) []byte { flip(b, 0, rng); return b }},
	{"flipped bits of the header", func(b []byte, rng *rand.Rand) []byte { flip(b[:100], 0, rng); return b }},
	{"noise", func(b []byte, rng *rand.Rand) []byte {
		at := rng.IntN(len(b))
		for i := at; i < min(len(b), at+1+rng.IntN(4096)); i++ {
			b[i] = byte(rng.Uint32())
		}
		return b
	}},
	{"a page of zeros", func(b []byte, rng *rand.Rand) []byte {
		at := rng.IntN(len(b)) &^ 1023
		clear(b[at:min(len(b), at+1024)])
		return b
	}},
	{"pages swapped", func(b []byte, rng *rand.Rand) []byte {
		was := slices.Clone(b)
		i, j := 0, 0
		for range 20 { // many pieces are the same
			if string(b[i:i+1024]) == string(b[j:j+1024]) {
				i, j = rng.IntN(len(b)/1024)*1024, rng.IntN(len(b)/1024)*1024
			}
		}
		copy(b[i:i+1024], was[j:])
		copy(b[j:j+1024], was[i:])
		return b
	}},
	{"cut", func(b []byte, rng *rand.Rand) []byte { return b[:rng.IntN(len(b))] }},
	{"longer", func(b []byte, rng *rand.Rand) []byte { return append(b, make([]byte, 1+rng.IntN(8192))...) }},
	{"empty", func([]byte, *rand.Rand) []byte { return nil }},
	{"text", func([]byte, *rand.Rand) []byte { return []byte("This is no database.\n") }},
	{"text after the magic", func(b []byte, _ *rand.Rand) []byte {
		for i := 16; i < len(b); i++ {
			b[i] = "abc\n"[i%4]
		}
		return b
	}},
	{"newer version", func(b []byte, rng *rand.Rand) []byte {
		binary.BigEndian.PutUint32(b[60:], 5+rng.Uint32N(1000))
		return b
	}},
	{"no version", func(b []byte, _ *rand.Rand) []byte { clear(b[60:64]); return b }},
	{"another program's", func(b []byte, rng *rand.Rand) []byte {
		binary.BigEndian.PutUint32(b[68:], rng.Uint32())
		return b
	}},
}

// slowest is the name under which the longest time is kept.
const slowest = "slowest in ms"

// slowest keeps the longest time.
func (y *tally) slowest(d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]int{}
	}
	y.counts[slowest] = max(y.counts[slowest], int(d.Milliseconds()))
}

// TestDamagedRunFile changes the file of one run, or puts another in its place.
// That run must be refused, and stay as it is, and all others be what they were.
func TestDamagedRunFile(t *testing.T) {
	harness.InTurn(t, 4)
	s := newScene(t, harness.Workspace(t))
	older := fileOf(t, s.cold, "wait-1")
	ids := []workflow.RunID{"done-1", "done-2", "wait-1", "wait-2", "wait-3", "ask-1", "dead-1"}
	files := map[workflow.RunID]string{}
	for _, id := range ids {
		files[id] = fileOf(t, s.hot, id)
	}
	if files["wait-1"] != older {
		t.Fatalf("the file of wait-1 is %s, and was %s", files["wait-1"], older)
	}
	more := []mutation{{"missing", nil}, {"another run's", nil}}
	list := append(slices.Clone(mutations), more...)
	n := harness.Figure(len(list), 300, 6000)
	var y tally
	trials(t, n, func(i int, rng *rand.Rand, dir string) {
		m, id := list[i%len(list)], ids[rng.IntN(len(ids))]
		file := filepath.Join(dir, files[id])
		copyDir(t, s.hot, dir)
		switch data := readFile(t, file); m.name {
		case "missing":
			if err := os.Remove(file); err != nil {
				t.Error(err)
			}
		case "another run's":
			writeFile(t, readFile(t, dir, files[ids[(slices.Index(ids, id)+1)%len(ids)]]), file)
		default:
			now := m.do(slices.Clone(data), rng)
			if slices.Equal(now, data) {
				y.count("the same")
				return
			}
			writeFile(t, now, file)
		}
		y.count(m.name)
		s.judgeFile(t, &y, i/len(list), m.name, id, dir)
	})
	must := []string{"refused", "verified", "repaired"}
	for _, m := range list {
		must = append(must, m.name)
	}
	y.report(t, n, must...)
}

// judgeFile judges a directory after harm to the file of one run. Verify and Repair
// look at every third round of all kinds of harm.
func (s *scene) judgeFile(t *testing.T, y *tally, round int, name string, id workflow.RunID, dir string) {
	before := harness.Contents(t, filepath.Join(dir, runsDir))
	y.sampled(t, round, dir, s.truth)
	began := time.Now()
	h, err := read(dir)
	y.slowest(time.Since(began))
	if err != nil {
		y.violate("%s of %s: everything is refused: %v", name, id, err)
		return
	}
	if h.global != s.truth.global {
		y.violate("%s of %s: the lists of all runs have changed", name, id)
	}
	for other, was := range s.truth.runs {
		w := h.runs[other]
		switch {
		case w == nil:
			y.violate("%s of %s: run %s is gone", name, id, other)
		case other == id && (w.err == nil || !typed(w.err)):
			y.violate("%s of %s: it is read: %v", name, id, w.err)
		case other != id && (w.err != nil || w.loads != nil || w.text() != was.text()):
			y.violate("%s of %s: run %s has changed: %v", name, id, other, errors.Join(w.err, w.loads))
		}
	}
	y.count("refused")
	y.unchanged(t, name, before, filepath.Join(dir, runsDir))
}

// TestDamagedIndex changes pawl.db, of an engine that has closed and of ones that
// have not; one of these has commits in the redo log. A read afterwards must give an error or what was there.
func TestDamagedIndex(t *testing.T) {
	harness.InTurn(t, 4)
	s := newScene(t, harness.Workspace(t))
	cold, ahead := tell(t, s.cold), newSceneOf(t, harness.Workspace(t), redoFile)
	n := harness.Figure(len(mutations)*3, 450, 15_000)
	var y tally
	trials(t, n, func(i int, rng *rand.Rand, dir string) {
		from, full, kind := s.cold, cold, "closed"
		switch i / len(mutations) % 3 {
		case 1:
			from, full, kind = s.hot, s.truth, "not closed"
		case 2:
			from, full, kind = ahead.hot, ahead.truth, "not closed, with a redo log"
		}
		m := mutations[i%len(mutations)]
		copyDir(t, from, dir)
		data := readFile(t, dir, indexFile)
		now := m.do(slices.Clone(data), rng)
		if slices.Equal(now, data) {
			y.count("the same")
			return
		}
		writeFile(t, now, dir, indexFile)
		y.count(m.name)
		y.judgeIndex(t, i/len(mutations), m.name+", "+kind, dir, full)
	})
	must := []string{"refused", "correct", "verified", "repaired"}
	for _, m := range mutations {
		must = append(must, m.name)
	}
	y.report(t, n, must...)
}

func (y *tally) judgeIndex(t *testing.T, round int, name, dir string, full truth) {
	before := harness.Contents(t, dir)
	began := time.Now()
	h, err := read(dir)
	y.slowest(time.Since(began))
	switch {
	case err != nil && !typed(err):
		y.violate("%d: %s: %v", round, name, err)
	case err != nil && h.runs == nil:
		y.count("refused")
		y.unchanged(t, name, before, dir)
		y.sampled(t, round, dir, full)
	case err != nil:
		y.count("lists are refused")
		y.compareRuns(fmt.Sprint(round, ": ", name), h, full, false)
	default:
		y.count(y.compareIndex(fmt.Sprint(round, ": ", name), h, full))
	}
}

// compareIndex finds what is told and is neither an error nor what was there.
func (y *tally) compareIndex(name string, h, full truth) string {
	verdict := y.compareRuns(name, h, full, true)
	if h.global != full.global {
		y.violate("%s: lists: %s", name, difference(h.global, full.global))
	}
	return verdict
}

// compareRuns compares the runs that could be read with those that were there. If
// the list of runs was whole, all of these must have been found.
func (y *tally) compareRuns(name string, h, full truth, whole bool) string {
	verdict := "correct"
	for id, was := range full.runs {
		w := h.runs[id]
		switch {
		case w == nil && !whole:
		case w == nil:
			y.violate("%s: run %s is gone", name, id)
		case w.err != nil || w.loads != nil:
			verdict = "runs are refused"
			if err := errors.Join(w.err, w.loads); !typed(err) {
				y.violate("%s: run %s: %v", name, id, err)
			}
		case w.text() != was.text():
			y.violate("%s: run %s: %s", name, id, difference(w.text(), was.text()))
		}
	}
	for id := range h.runs {
		if full.runs[id] == nil {
			y.violate("%s: run %q was never there", name, string(id))
		}
	}
	return verdict
}

// difference shows where two texts differ.
func difference(a, b string) string {
	n := len(commonPrefix([]byte(a), []byte(b)))
	cut := func(s string) string { return s[max(0, n-30):min(len(s), n+20)] }
	return fmt.Sprintf("%q, was %q", cut(a), cut(b))
}
