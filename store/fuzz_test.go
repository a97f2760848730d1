package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness/tables"
	"github.com/pawl-run/pawl/store"
)

// FuzzDatabase puts any bytes in the place of pawl.db, or of the file of a run,
// as they are (how is 0 or 1) or so that no hash tells (2, 3) and all that is in
// them is read. Then Open, Load, History, Events and Verify must return an error,
// or, where the hashes tell, what was there: and neither panic nor hang.
func FuzzDatabase(f *testing.F) {
	from := f.TempDir()
	d, err := store.Open(from, store.Options{})
	require.NoError(f, err)
	o := store.StartOwner(f, d, "r1")
	o.Do(state.Start{}, store.StartRun(map[string]any{"x": int64(1)}), store.CreateToken(1, "start"), store.Dispatch(1))
	require.NoError(f, o.File())
	h, err := d.Head("r1")
	require.NoError(f, err)
	require.NoError(f, d.Close())
	was := map[uint8][]byte{}
	for how, name := range []string{store.IndexFile, h.File} {
		data, err := os.ReadFile(filepath.Join(from, name))
		require.NoError(f, err)
		was[uint8(how)], was[uint8(how)+2] = data, data
	}
	for _, how := range []uint8{0, 1, 2, 3} {
		for _, change := range []func([]byte) []byte{
			func(b []byte) []byte { return b },
			func(b []byte) []byte { return b[:len(b)/2] },
			func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			func(b []byte) []byte { b[105] ^= 0x81; return b },
			func(b []byte) []byte { clear(b[1024:2048]); return b },
		} {
			f.Add(how, change(bytes.Clone(was[how])))
		}
	}
	f.Fuzz(func(t *testing.T, how uint8, data []byte) {
		how %= 4
		dir := t.TempDir()
		store.CopyDir(t, from, dir)
		name := []string{store.IndexFile, h.File}[how%2]
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		switch how {
		case 2:
			require.NoError(t, os.Remove(filepath.Join(dir, store.LockName)))
		case 3:
			reseal(t, dir, data)
			require.NoError(t, os.Remove(filepath.Join(dir, store.LockName)))
		}
		report, err := store.Verify(dir)
		found := err != nil || report.Damage > 0
		records, err := readAny(dir)
		if how < 2 && !bytes.Equal(data, was[how]) {
			require.True(t, found, "Verify finds nothing")
			require.True(t, err != nil, "it is read: %d records", records)
		}
		if how < 2 && bytes.Equal(data, was[how]) {
			require.False(t, found)
			require.NoError(t, err)
			require.Equal(t, 1, records)
		}
	})
}

// reseal makes the index accept data as the file of its only run.
func reseal(t *testing.T, dir string, data []byte) {
	sum := sha256.Sum256(data)
	db, err := sqlite.Open(filepath.Join(dir, store.IndexFile), `UPDATE runs SET file_hash = x'`+hex.EncodeToString(sum[:])+`'`)
	require.NoError(t, err)
	tables.SumAgain(t, db)
	require.NoError(t, db.Close())
}

// readAny reads what can be read of the run r1.
func readAny(dir string) (records int, err error) {
	d, err := store.Open(dir, store.Options{})
	if err != nil {
		return 0, err
	}
	defer d.Close()
	if _, _, _, err = d.Load("r1"); err != nil {
		return 0, err
	}
	for _, err := range d.History("r1") {
		if err != nil {
			return 0, err
		}
		records++
	}
	for _, err := range d.Events("r1", 0) {
		if err != nil {
			return 0, err
		}
	}
	return records, nil
}
