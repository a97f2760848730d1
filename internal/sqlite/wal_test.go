package sqlite_test

import (
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
