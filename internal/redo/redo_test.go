package redo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const testLife = 0x1234567890abcdef

type fataler interface {
	require.TestingT
	Helper()
}

// newLog returns a log in a file of its own.
func newLog(t fataler, folder string, region int64, zeros bool) (*Log, *os.File) {
	t.Helper()
	hasRoom := func(*os.File, int64) bool { return true }
	if !zeros {
		hasRoom = nil
	}
	f, err := os.CreateTemp(folder, "redo")
	require.NoError(t, err)
	_, err = f.WriteAt(NewFile(testLife, region, true), 0)
	require.NoError(t, err)
	return NewLog(f, testLife, region, hasRoom, (*os.File).Sync), f
}

// framesOf returns the frames that a file has, taken for one whose frames were all synced, or not.
func framesOf(data []byte, synced bool) (frames []string, err error) {
	if h, err := readHeader(data); err == nil && !synced {
		data = slices.Clone(data)
		copy(data, NewFile(h.life, h.region, false)[:headerSize])
	}
	err = Read(data, func(b []byte) error { frames = append(frames, string(b)); return nil })
	return frames, err
}

func contentsOf(t fataler, f *os.File) []byte {
	t.Helper()
	data, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	return data
}

// TestFrames: whatever is appended, with regions that take turns, is read back in its order, but for what was in
// regions that began anew; and a file that is cut short at any place has the first of them.
func TestFrames(t *testing.T) {
	folder := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		l, f := newLog(t, folder, rapid.Int64Range(100, 2000).Draw(t, "region"), rapid.Bool().Draw(t, "zeros"))
		defer func() { _ = os.Remove(f.Name()) }()
		defer f.Close()
		var older, current []string
		for n := range rapid.IntRange(0, 60).Draw(t, "frames") {
			content := fmt.Sprintf("%d %s", n, rapid.StringN(0, 200, 300).Draw(t, "content"))
			if !l.HasRoom(0, len(content)) {
				if !l.IsFree() {
					require.NoError(t, l.Recycle())
					l.Free()
					older = nil
				}
				if !l.Fits(len(content)) {
					continue
				}
				l.Switch()
				older, current = current, nil
			}
			cut := rapid.IntRange(0, len(content)).Draw(t, "parts")
			require.NoError(t, l.Append([]byte(content[:cut]), []byte(content[cut:])))
			current = append(current, content)
			if rapid.IntRange(0, 30).Draw(t, "restart") == 0 {
				require.NoError(t, l.Restart())
				require.True(t, l.IsEmpty())
				older, current = nil, nil
			}
		}
		require.NoError(t, l.CheckOwner())
		want := slices.Concat(older, current)
		for _, whole := range []bool{true, false} {
			got, err := framesOf(contentsOf(t, f), whole)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		require.NoError(t, TakeOver(f, 1))
		require.ErrorIs(t, l.CheckOwner(), ErrOwned)
		got, err := framesOf(contentsOf(t, f), true)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// TestDamagedFrames: a frame that has changed is never read. Before others it is damage; the last one looks like one
// that was not written to its end. Without syncs, the frames before it are read.
func TestDamagedFrames(t *testing.T) {
	folder := t.TempDir()
	l, f := newLog(t, folder, 1000, false)
	var want []string
	var ends []int64
	for n := 0; len(want) < 14; n++ {
		content := fmt.Sprintf("frame %d %s", n, bytes.Repeat([]byte{byte('a' + n)}, 10*n))
		if !l.HasRoom(0, len(content)) {
			l.Switch() // in the second region there are some, too
		}
		require.NoError(t, l.Append([]byte(content)))
		want, ends = append(want, content), append(ends, l.end)
	}
	data := contentsOf(t, f)
	for at := framesAt; at < len(data); at++ {
		broken := slices.Clone(data)
		broken[at] ^= 4
		n := slices.IndexFunc(ends, func(end int64) bool { return int64(at) < end })
		got, err := framesOf(broken, true)
		lax, laxErr := framesOf(broken, false)
		require.NoError(t, laxErr)
		if slices.Equal(got, want) && err == nil { // between two regions
			continue
		}
		require.Equal(t, want[:n:n], append([]string{}, got...), "byte %d", at)
		require.Equal(t, want[:n:n], append([]string{}, lax...), "byte %d", at)
		var rest []string
		require.NoError(t, Salvage(broken, func(b []byte) error { rest = append(rest, string(b)); return nil }))
		require.Equal(t, slices.Delete(slices.Clone(want), n, n+1), rest, "byte %d", at)
		if n < len(want)-1 {
			require.ErrorIs(t, err, ErrDamaged, "byte %d", at)
		} else {
			require.NoError(t, err)
		}
	}
	for at := range framesAt {
		broken := slices.Clone(data)
		broken[at] ^= 4
		if got, err := framesOf(broken, true); err == nil { // filled up, or the owner
			require.Equal(t, want, got, at)
		} else {
			require.ErrorIs(t, err, ErrDamaged)
		}
	}
	for size := range len(data) {
		got, err := framesOf(data[:size], true)
		if err == nil {
			require.Equal(t, want[:len(got):len(got)], append([]string{}, got...))
		} else {
			require.ErrorIs(t, err, ErrDamaged)
		}
	}
}

// TestAnEmptyOlderRegion: behind a region whose frames are all gone, those of the other one show it, also where nobody knows
// which number is the first. Without syncs a loss of power may leave that.
func TestAnEmptyOlderRegion(t *testing.T) {
	l, f := newLog(t, t.TempDir(), 100, false)
	for n := range 6 { // one of them fills a region
		if n > 0 {
			if !l.IsFree() {
				require.NoError(t, l.Recycle())
				l.Free()
			}
			l.Switch()
		}
		require.NoError(t, l.Append(bytes.Repeat([]byte{byte('a' + n)}, 60)))
		data := contentsOf(t, f)
		got, err := framesOf(data, true)
		require.NoError(t, err)
		require.Len(t, got, min(n+1, 2))
		if n == 0 {
			continue
		}
		data[framesAt+(1-n%2)*int(l.region)+frameHeader] ^= 1
		got, err = framesOf(data, true)
		require.ErrorIs(t, err, ErrDamaged, n)
		require.Empty(t, got)
		_, err = framesOf(data, false)
		require.NoError(t, err)
	}
	require.NoError(t, l.Restart())
	require.NoError(t, l.Append([]byte("anew")))
	got, err := framesOf(contentsOf(t, f), true)
	require.NoError(t, err)
	require.Equal(t, []string{"anew"}, got)
}

// TestAnInterruptedRestart leaves frames of one region, which are elsewhere, or none, whichever of its writes a crash lets
// be: nothing that looks like damage. Then it begins behind all that was there.
func TestAnInterruptedRestart(t *testing.T) {
	for turns := range 5 {
		l, f := newLog(t, t.TempDir(), 500, false)
		last := map[uint64][]string{} // by the generation
		for n := range 8 + 8*turns {
			content := fmt.Sprintf("frame %d of %d turns: %050d", n, turns, n)
			if !l.HasRoom(0, len(content)) {
				if !l.IsFree() {
					require.NoError(t, l.Recycle())
					l.Free()
				}
				l.Switch()
			}
			require.NoError(t, l.Append([]byte(content)))
			last[l.Generation()] = append(last[l.Generation()], content)
		}
		before := contentsOf(t, f)
		require.NoError(t, l.Restart())
		after := contentsOf(t, f)
		for writes := range 8 {
			data := slices.Clone(before)
			if writes&1 > 0 {
				data = data[:framesAt]
			}
			for i := range 2 {
				if writes&(2<<i) > 0 {
					copy(data[regionAt+i*sector:][:12], after[regionAt+i*sector:])
				}
			}
			got, err := framesOf(data, true)
			require.NoError(t, err, "%d turns, writes %b", turns, writes)
			if writes > 0 && len(got) > 0 {
				require.Contains(t, []string{fmt.Sprint(last[l.gens[0]-1]), fmt.Sprint(last[l.gens[0]-2])}, fmt.Sprint(got))
			}
		}
	}
}

// TestAFrameThatWasNotWritten is written over by the next one.
func TestAFrameThatWasNotWritten(t *testing.T) {
	l, f := newLog(t, t.TempDir(), 1000, false)
	require.NoError(t, l.Append([]byte("one")))
	file := l.file
	readOnly, err := os.Open(f.Name())
	require.NoError(t, err)
	l.file = readOnly
	require.Error(t, l.Append(bytes.Repeat([]byte("x"), 100)))
	l.file = file
	_, err = f.WriteAt(bytes.Repeat([]byte("x"), 60), l.end) // of a longer one
	require.NoError(t, err)
	got, err := framesOf(contentsOf(t, f), true)
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, got)
	require.NoError(t, l.Append([]byte("two")))
	got, err = framesOf(contentsOf(t, f), true)
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, got)
}

// TestSyncFails: a file that cannot be synced says so.
func TestSyncFails(t *testing.T) {
	l, _ := newLog(t, t.TempDir(), 1000, true)
	no := errors.New("no")
	l.sync = func(*os.File) error { return no }
	require.ErrorIs(t, l.Sync(), no)
	require.ErrorIs(t, l.Recycle(), no)
	require.ErrorIs(t, l.Restart(), no)
}

// TestZeros: a file that grows does so in steps, never beyond its region, and by zeros, which are no frames.
func TestZeros(t *testing.T) {
	const region = 3 * reserveStep / 2
	l, f := newLog(t, t.TempDir(), region, true)
	sizes := map[int64]bool{}
	n := 0
	for content := bytes.Repeat([]byte("y"), 1000); l.HasRoom(0, len(content)); n++ {
		require.NoError(t, l.Append(content))
		info, err := f.Stat()
		require.NoError(t, err)
		if l.end > framesAt+reserveFrom+2000 {
			sizes[info.Size()] = true
		}
		require.LessOrEqual(t, info.Size(), int64(framesAt+region))
	}
	require.Less(t, len(sizes), 5)
	got, err := framesOf(contentsOf(t, f), true)
	require.NoError(t, err)
	require.Len(t, got, n)
}

// TestOtherFiles: what is no redo log, or one of a later version, is refused with words.
func TestOtherFiles(t *testing.T) {
	later := NewFile(testLife, 1000, true)
	binary.LittleEndian.PutUint32(later[len(magic):], version+1)
	binary.LittleEndian.PutUint32(later[headerSize-4:], crcOf(later[:headerSize-4]))
	for says, data := range map[string][]byte{
		"does not begin as a redo log": []byte("SQLite format 3"), "of version 2": later, "header has changed": append([]byte(magic), make([]byte, 100)...),
		"cut short": NewFile(testLife, 1000, true)[:headerSize],
	} {
		_, err := framesOf(data, true)
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, says)
	}
	life, owner, err := OwnerOf(NewFile(testLife, 1000, true))
	require.NoError(t, err)
	require.EqualValues(t, testLife, life)
	require.Equal(t, life, owner)
	_, _, err = OwnerOf(NewFile(testLife, 1000, true)[:headerSize])
	require.ErrorIs(t, err, ErrDamaged)
}

// FuzzRead: no bytes make the reader fail otherwise than with ErrDamaged, or read beyond them.
func FuzzRead(f *testing.F) {
	l, file := newLog(f, f.TempDir(), 500, false)
	for n := range 5 {
		require.NoError(f, l.Append(bytes.Repeat([]byte{byte(n)}, 20)))
	}
	data, err := os.ReadFile(filepath.Clean(file.Name()))
	require.NoError(f, err)
	f.Add(data, true)
	f.Add(data[:framesAt+30], false)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		_, err := framesOf(data, whole)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		}
		salvaged := Salvage(data, func([]byte) error { return nil })
		require.True(t, salvaged == nil || errors.Is(salvaged, ErrDamaged))
	})
}

// TestLargeParts: a large part takes no room from others, and its frame is read as any other, or not at all if it has changed.
func TestLargeParts(t *testing.T) {
	const region = 2*shareBytes + 4096
	l, f := newLog(t, t.TempDir(), region, true)
	var want []string
	add := func(parts ...int) {
		var content [][]byte
		for _, n := range parts {
			content = append(content, bytes.Repeat([]byte{byte('a' + len(want)%20)}, n))
		}
		require.NoError(t, l.Append(content...))
		want = append(want, string(slices.Concat(content...)))
	}
	large, small := LargePart+1, LargePart
	add(10)
	for n := range 5 {
		add(large+n, 7)
	}
	require.True(t, l.HasRoom(0, shareBytes-100))
	require.Less(t, l.Filled(), 0.3)
	for l.HasRoom(0, small) {
		add(small)
	}
	require.Greater(t, l.Filled(), 0.9)
	require.False(t, l.HasRoom(large, small), "others have their share")
	require.True(t, l.HasRoom(large, 0))
	used, most := l.Used()
	require.Greater(t, used, 9*most/20)
	for l.HasRoom(large, 0) {
		add(large)
	}
	l.Switch()
	require.Zero(t, l.Filled())
	add(small, large)
	data := contentsOf(t, f)
	got, err := framesOf(data, true)
	require.NoError(t, err)
	require.Equal(t, want, got)
	data[int64(framesAt)+frameSize(10)+frameHeader+5] ^= 1
	got, err = framesOf(data, true)
	require.ErrorIs(t, err, ErrDamaged)
	require.Equal(t, want[:1], got)
}
