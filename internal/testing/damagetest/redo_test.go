package damagetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/redo"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// A redoScene is a scene whose second engine has committed in the redo log. The last frame of that is not acknowledged.
type redoScene struct {
	*scene
	after   []seqs // how far runs have come with so many frames
	full    truth  // with all of them
	layouts []redoLayout
}

// A redoLayout is a redo log with the frames of a scene, in one of the ways in which they may lie there.
type redoLayout struct {
	name    string
	data    []byte
	at, end []int // of each frame, in their order
}

func newRedoScene(t *testing.T) *redoScene {
	s := &redoScene{scene: newSceneOf(t, harness.Workspace(t), redoFile)}
	data := readFile(t, s.plus, redoFile)
	life, _, err := redo.OwnerOf(data)
	require.NoError(t, err)
	var frames [][]byte
	require.NoError(t, redo.Read(data, func(b []byte) error { frames = append(frames, slices.Clone(b)); return nil }))
	n := len(frames)
	require.Greater(t, n, 8)
	s.full = tell(t, s.plus)
	const small = 16 << 10
	s.layouts = []redoLayout{
		layFrames(t, "one region", life, frames, redo.RegionBytes, n, 0),
		layFrames(t, "two regions", life, frames, small, n/2, 0),
		layFrames(t, "the first region again", life, frames, small, n/2, 1),
		layFrames(t, "both regions again", life, frames, small, n-1, 2),
		layFrames(t, "one frame in the older region", life, frames, small, 1, 3),
	}
	require.Equal(t, data, s.layouts[0].data)
	for k := range n + 1 {
		s.after = append(s.after, s.seqsOf(t, layFrames(t, "", life, frames[:k], redo.RegionBytes, k, 0).data))
	}
	for _, l := range s.layouts {
		require.Equal(t, s.full.seqs(), s.seqsOf(t, l.data), l.name)
	}
	require.Equal(t, s.full.seqs(), s.after[n])
	require.Equal(t, s.truth.seqs(), s.after[n-1])
	for _, a := range s.acks { // what was acknowledged is in the frames that were there
		k := 0
		for k < n && int64(s.layouts[0].end[k]) <= a.length {
			k++
		}
		for id, seq := range a.seqs {
			require.GreaterOrEqual(t, s.after[k][id], seq)
		}
	}
	return s
}

// layFrames writes frames into a redo log. The other region takes them from one on. Before them there were others in so
// many regions, which are in pawl.db.
func layFrames(t *testing.T, name string, life uint64, frames [][]byte, size int64, from, others int) redoLayout {
	out := redoLayout{name: name}
	path := filepath.Join(harness.Workspace(t), "layout")
	writeFile(t, redo.NewFile(life, size, true), path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	l := redo.NewLog(f, life, size, nil, (*os.File).Sync)
	region, at := 0, redoFrames
	turn := func() {
		if !l.IsFree() {
			require.NoError(t, l.Recycle())
			l.Free()
		}
		l.Switch()
		region = 1 - region
		at = redoFrames + region*int(size)
	}
	for range others {
		for range 50 {
			require.NoError(t, l.Append([]byte("what was committed long before")))
		}
		turn()
	}
	for i, b := range frames {
		if i == from {
			turn()
		}
		require.True(t, l.HasRoom(0, len(b)))
		require.NoError(t, l.Append(b))
		out.at = append(out.at, at)
		at += (redoHeader + len(b) + 7) / 8 * 8
		out.end = append(out.end, at)
	}
	require.NoError(t, l.Close())
	out.data = readFile(t, path)
	return out
}

// seqsOf returns how far runs have come with a redo log.
func (s *redoScene) seqsOf(t *testing.T, data []byte) seqs {
	dir := filepath.Join(harness.Workspace(t), "dir")
	copyDir(t, s.plus, dir)
	writeFile(t, data, dir, redoFile)
	h, err := look(dir, heads)
	require.NoError(t, err)
	return h.seqs()
}

// whole returns how many of the first frames are as they were in a file that was harmed, and whether one behind those is.
func (l *redoLayout) whole(data []byte) (n int, later bool) {
	n = len(l.at)
	for i := range l.at {
		is := l.end[i] <= len(data) && bytes.Equal(data[l.at[i]:l.end[i]], l.data[l.at[i]:l.end[i]])
		if !is {
			n = min(n, i)
		}
		later = later || is && n < i
	}
	return n, later
}

// hasSameHeader reports whether what tells where frames begin is as it was.
func (l *redoLayout) hasSameHeader(data []byte) bool {
	is := func(at, size int) bool {
		return len(data) >= at+size && bytes.Equal(data[at:at+size], l.data[at:at+size])
	}
	return is(0, redoStart) && is(redoRegions, 12) && is(redoRegions+redoSector, 12)
}

// judgeRedo opens a directory whose redo log was harmed. Nothing that was synced may be gone without a word,
// unless everything from one frame on is gone: a loss of power in the middle of a frame leaves that, or an older file.
func (s *redoScene) judgeRedo(t *testing.T, y *tally, l *redoLayout, i int, name, dir string) {
	data := readFile(t, dir, redoFile)
	n, later := l.whole(data)
	before := harness.Contents(t, dir)
	deep := heads
	if i%8 == 0 {
		deep = everything
	}
	h, err := look(dir, deep)
	switch {
	case err != nil && !typed(err):
		y.violate("%s: %v", name, err)
	case err != nil && !later && n >= len(l.at)-1 && l.hasSameHeader(data):
		y.violate("%s: nothing synced is lost, but it is refused: %v", name, err)
	case err != nil:
		y.count("refused")
		y.unchanged(t, name, before, dir)
		y.sampled(t, i, dir, s.full)
	case later || !l.hasSameHeader(data):
		y.violate("%s: %d frames are whole, and others behind, but it is opened: %v", name, n, h.seqs())
	case !h.seqs().equal(s.after[n]):
		y.violate("%s: %d frames are whole, but %v is not %v", name, n, h.seqs(), s.after[n])
	case h.prefixes(s.full) != nil:
		y.violate("%s: %v", name, h.prefixes(s.full))
	default:
		y.count(map[bool]string{true: "unharmed", false: "the first frames"}[n == len(l.at)])
	}
}

// TestTornRedoLog cuts a redo log at every byte of its last frames and at drawn places. All frames before the cut are
// there then, and nothing of others. A log that lacks what was synced before others is refused.
func TestTornRedoLog(t *testing.T) {
	harness.InTurn(t, 4)
	s := newRedoScene(t)
	var list []func(*rand.Rand) (redoLayout, cut)
	every := harness.Figure(422, 67, 1)
	for _, l := range s.layouts {
		n := len(l.at)
		for at := l.at[n-2]; at <= l.end[n-1]; at++ {
			if in := at - l.at[n-1]; at%every == 0 || harness.CurrentLevel() > harness.Quick && in > -8 && in < 32 {
				list = append(list, func(*rand.Rand) (redoLayout, cut) { return l, cut{at, tails[0]} })
			}
		}
	}
	list = harness.Today(t, 3, list)
	for range harness.Figure(20, 400, 10_000) {
		list = append(list, func(rng *rand.Rand) (redoLayout, cut) {
			l := s.layouts[rng.IntN(len(s.layouts))]
			k := rng.IntN(len(l.at))
			return l, cut{l.at[k] + rng.IntN(l.end[k]-l.at[k]+1), tails[rng.IntN(len(tails))]}
		})
	}
	var y tally
	trials(t, len(list), func(i int, rng *rand.Rand, dir string) {
		l, c := list[i](rng)
		copyDir(t, s.plus, dir)
		writeFile(t, c.of(l.data, rng), dir, redoFile)
		y.count("tail: " + c.tail)
		y.count(l.name)
		s.judgeRedo(t, &y, &l, i, fmt.Sprintf("%s, cut at %d of %d, then %s", l.name, c.at, len(l.data), c.tail), dir)
	})
	must := []string{"refused", "the first frames", "unharmed", "verified", "repaired"}
	for _, tail := range tails {
		must = append(must, "tail: "+tail)
	}
	y.report(t, len(list), must...)
}

// A redoHarm damages a redo log.
type redoHarm struct {
	name string
	do   func(l *redoLayout, data []byte, rng *rand.Rand) []byte
}

// anyFrame returns where a frame is, but the last one.
func (l *redoLayout) anyFrame(rng *rand.Rand) (at, end int) {
	k := rng.IntN(len(l.at) - 1)
	return l.at[k], l.end[k]
}

// redoHarms returns what is done to redo logs. Some put another directory's in the place of ours.
func redoHarms(other []byte) []redoHarm {
	noise := func(data []byte, rng *rand.Rand) {
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
	}
	return []redoHarm{
		{"flipped bits", func(_ *redoLayout, b []byte, rng *rand.Rand) []byte { flip(b, 0, rng); return b }},
		{"flipped bits of frames", func(l *redoLayout, b []byte, rng *rand.Rand) []byte {
			at, end := l.anyFrame(rng)
			flip(b[:end], at, rng)
			return b
		}},
		{"flipped bits before the frames", func(_ *redoLayout, b []byte, rng *rand.Rand) []byte { flip(b[:redoFrames], 0, rng); return b }},
		{"flipped bits of the header", func(_ *redoLayout, b []byte, rng *rand.Rand) []byte { flip(b[:redoStart], 0, rng); return b }},
		{"flipped bits of a region's sector", func(_ *redoLayout, b []byte, rng *rand.Rand) []byte {
			at := redoRegions + rng.IntN(2)*redoSector
			flip(b[:at+12], at, rng)
			return b
		}},
		{"another owner", func(_ *redoLayout, b []byte, rng *rand.Rand) []byte { noise(b[redoOwner:redoOwner+8], rng); return b }},
		{"noise where nothing is", func(_ *redoLayout, b []byte, rng *rand.Rand) []byte {
			noise(b[redoRegions+redoSector+12:redoFrames], rng)
			noise(b[redoStart:redoSector], rng)
			return b
		}},
		{"noise behind the end", func(_ *redoLayout, b []byte, rng *rand.Rand) []byte {
			at := len(b)
			b = append(b, make([]byte, 1+rng.IntN(5000))...)
			noise(b[at:], rng)
			return b
		}},
		{"noise", func(_ *redoLayout, b []byte, rng *rand.Rand) []byte {
			at := rng.IntN(len(b))
			noise(b[at:min(len(b), at+1+rng.IntN(4096))], rng)
			return b
		}},
		{"zeros", func(l *redoLayout, b []byte, rng *rand.Rand) []byte {
			at, end := l.anyFrame(rng)
			clear(b[at:end])
			return b
		}},
		{"frames swapped", func(l *redoLayout, b []byte, rng *rand.Rand) []byte {
			at, end := l.anyFrame(rng)
			with, until := l.anyFrame(rng)
			n := min(end-at, until-with)
			copy(b[at:at+n], l.data[with:])
			copy(b[with:with+n], l.data[at:])
			return b
		}},
		{"a frame moved up", func(l *redoLayout, b []byte, rng *rand.Rand) []byte {
			at, end := l.anyFrame(rng)
			return append(b[:at], l.data[end:]...)
		}},
		{"emptied", func(*redoLayout, []byte, *rand.Rand) []byte { return []byte{} }},
		{"deleted", func(*redoLayout, []byte, *rand.Rand) []byte { return nil }},
		{"of another directory", func(*redoLayout, []byte, *rand.Rand) []byte { return slices.Clone(other) }},
		{"of another directory, with our header", func(l *redoLayout, _ []byte, _ *rand.Rand) []byte {
			return append(slices.Clone(l.data[:redoSector]), other[redoSector:]...)
		}},
		{"frames of another directory", func(l *redoLayout, b []byte, rng *rand.Rand) []byte {
			at, end := l.anyFrame(rng)
			copy(b[at:end], other[redoFrames:])
			return b
		}},
	}
}

// TestDamagedRedoLog changes, deletes and replaces the redo log. Nothing acknowledged may be gone without a word, but
// where all frames are damaged from one on. Bytes that say nothing may be anything.
func TestDamagedRedoLog(t *testing.T) {
	harness.InTurn(t, 4)
	s := newRedoScene(t)
	other := newSceneOf(t, harness.Workspace(t), redoFile)
	harms := redoHarms(readFile(t, other.plus, redoFile))
	n := harness.Figure(2*len(harms), 500, 20_000)
	var y tally
	trials(t, n, func(i int, rng *rand.Rand, dir string) {
		m, l := harms[i%len(harms)], s.layouts[rng.IntN(len(s.layouts))]
		copyDir(t, s.plus, dir)
		harmed := m.do(&l, slices.Clone(l.data), rng)
		y.count(m.name)
		if harmed == nil {
			y.judgeWithoutRedo(t, dir)
			return
		}
		writeFile(t, harmed, dir, redoFile)
		s.judgeRedo(t, &y, &l, i/len(harms), m.name+" of "+l.name, dir)
	})
	must := []string{"refused", "unharmed", "verified", "repaired"}
	for _, m := range harms {
		must = append(must, m.name)
	}
	y.report(t, n, must...)
}

func (y *tally) judgeWithoutRedo(t *testing.T, dir string) {
	if err := os.Remove(filepath.Join(dir, redoFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := read(dir); err == nil || !typed(err) {
		y.violate("deleted: %v", err)
	}
}

// TestOlderRedoLog: nothing tells an older redo log of the same life from one that a loss of power has cut. It gives what
// was committed by then.
func TestOlderRedoLog(t *testing.T) {
	s := newRedoScene(t)
	older := readFile(t, s.early, redoFile)
	n, later := s.layouts[0].whole(older)
	require.False(t, later)
	require.Equal(t, s.after[n], s.seqsOf(t, older))
}
