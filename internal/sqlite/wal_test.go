package sqlite_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// hotWAL returns a write-ahead log of ten transactions and its page size.
func hotWAL(t testing.TB) ([]byte, int) {
	path := filepath.Join(t.TempDir(), "x.db")
	data, err := memory(t).Serialize()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	c, err := sqlite.Open(path, `PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;`)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for i := range int64(10) {
		_, err := c.Exec(insert, i, "x", make([]byte, 1500))
		require.NoError(t, err)
	}
	log, err := os.ReadFile(path + "-wal")
	require.NoError(t, err)
	return log, 1024
}

func TestCheckWAL(t *testing.T) {
	log, page := hotWAL(t)
	require.NoError(t, sqlite.CheckWAL(log))
	require.NoError(t, sqlite.CheckWAL(nil))
	require.NoError(t, sqlite.CheckWAL(make([]byte, 100)))
	frame := 24 + page
	frames := (len(log) - 32) / frame
	last := 0 // first frame of the last transaction
	for i := range frames - 1 {
		if string(log[32+i*frame+4:][:4]) != "\x00\x00\x00\x00" {
			last = i + 1
		}
	}
	require.Greater(t, last, 5)
	for at := 32; at < len(log); at += 101 {
		damaged := append([]byte(nil), log...)
		damaged[at] ^= 0x10
		err := sqlite.CheckWAL(damaged)
		if i := (at - 32) / frame; i >= last {
			require.NoError(t, err, "it looks like a crash")
		} else if in := (at - 32) % frame; in < 8 || in >= 16 {
			require.Error(t, err, "frame %d byte %d", i, in)
		}
	}
	for n := 0; n < len(log); n += 13 { // a crash while the log grew
		require.NoError(t, sqlite.CheckWAL(log[:n]))
	}
}

// A transaction that was rolled back leaves its frames behind the smaller one over it: they are no transactions that would be lost if
// that is torn by a loss of power.
func TestCheckWALBehindARollback(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	data, err := memory(t).Serialize()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	c, err := sqlite.Open(path, `PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA cache_size=5;`)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	read := func() []byte {
		log, err := os.ReadFile(path + "-wal")
		require.NoError(t, err)
		return log
	}
	write := func(first, n int64) {
		for i := range n {
			_, err := c.Exec(insert, first+i, "x", make([]byte, 1500))
			require.NoError(t, err)
		}
	}
	write(0, 1)
	first := len(read()) // of the frames that come
	require.NoError(t, c.Script(`BEGIN`))
	write(1, 60)
	require.NoError(t, c.Script(`ROLLBACK`))
	write(1, 1)
	torn := read()
	torn[first+100] ^= 1
	require.NoError(t, sqlite.CheckWAL(torn))
	w, ok := sqlite.ReadWAL(torn)
	require.True(t, ok)
	require.Less(t, len(w.Pages)*(24+1024), first, "what was committed before is all")
	write(2, 1) // over frames of the large one
	torn = read()
	torn[first+100] ^= 1
	require.Error(t, sqlite.CheckWAL(torn))
}

// TestFrameReader reads a log while it grows, and when it has begun anew: what it has read is
// what a log read as a whole has.
func TestFrameReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	data, err := memory(t).Serialize()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	c, err := sqlite.Open(path, `PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=5;`)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	var r sqlite.FrameReader
	pages, read, count := map[uint32]string{}, 0, uint32(0)
	readOn := func() (anew bool) {
		log, err := os.Open(path + "-wal")
		require.NoError(t, err)
		defer log.Close()
		last := map[uint32]string{}
		anew, err = r.ReadOn(log, 1024, func(number, n uint32, page []byte) {
			read++
			if last[number] = string(page); n != 0 {
				maps.Copy(pages, last)
				clear(last)
				count = n
			}
		})
		require.NoError(t, err)
		return anew
	}
	whole := func() sqlite.WAL {
		log, err := os.ReadFile(path + "-wal")
		require.NoError(t, err)
		w, ok := sqlite.ReadWAL(log)
		require.True(t, ok)
		return w
	}
	next := int64(0)
	write := func(n int) {
		for range n {
			_, err := c.Exec(insert, next, "x", make([]byte, 1500))
			require.NoError(t, err)
			next++
		}
	}
	write(3)
	require.True(t, readOn())
	for _, n := range []int{4, 0, 5} {
		write(n)
		read = 0
		require.False(t, readOn())
		require.Equal(t, n > 0, read > 0)
		w := whole()
		require.Equal(t, w.Salt, r.Salt())
		require.Equal(t, w.Count, count)
		require.Len(t, pages, len(w.Pages))
		for number, page := range w.Pages {
			require.Equal(t, string(page), pages[number], "page %d", number)
		}
	}
	require.NoError(t, c.Script(`BEGIN`)) // it takes more pages than there is memory for
	write(30)
	before, had := count, len(pages)
	read = 0
	require.False(t, readOn())
	require.Positive(t, read, "some of its pages are in the log")
	require.Equal(t, before, count)
	require.Len(t, pages, had, "it has not ended")
	require.NoError(t, c.Script(`COMMIT`))
	require.False(t, readOn())
	require.Equal(t, whole().Count, count)
	require.Len(t, pages, len(whole().Pages))

	salt := r.Salt()
	require.NoError(t, c.Script(`PRAGMA wal_checkpoint(PASSIVE)`))
	write(1)
	clear(pages)
	require.True(t, readOn(), "the log has begun anew")
	require.Equal(t, salt[0]+1, r.Salt()[0])
	require.Len(t, pages, len(whole().Pages))
}

func FuzzCheckWAL(f *testing.F) {
	log, _ := hotWAL(f)
	f.Add(log[:5000])
	f.Fuzz(func(_ *testing.T, data []byte) { _ = sqlite.CheckWAL(data) })
}

// A log that is to be kept stays, wherever opening its database fails: what has
// read it before would remove it.
func TestOpenKeeping(t *testing.T) {
	log, _ := hotWAL(t)
	hot := func() string {
		path := filepath.Join(t.TempDir(), "x.db")
		data, err := memory(t).Serialize()
		require.NoError(t, err)
		sqlite.StampWAL(data)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		require.NoError(t, os.WriteFile(path+"-wal", log, 0o600))
		return path
	}
	const failing = `PRAGMA locking_mode=EXCLUSIVE; SELECT count(*) FROM t; SELECT * FROM none;`
	path := hot()
	_, err := sqlite.OpenKeeping(path, failing)
	require.Error(t, err)
	require.FileExists(t, path+"-wal")
	c, err := sqlite.OpenKeeping(path, `PRAGMA locking_mode=EXCLUSIVE; SELECT count(*) FROM t;`)
	require.NoError(t, err)
	require.NoError(t, c.KeepWAL(false))
	require.NoError(t, c.Close())
	require.NoFileExists(t, path+"-wal")

	path = hot()
	_, err = sqlite.Open(path, failing)
	require.Error(t, err)
	require.NoFileExists(t, path+"-wal")
}
