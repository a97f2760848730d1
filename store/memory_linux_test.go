package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"

	"github.com/pawl-run/pawl/store"
)

// peakMemory returns by how many bytes the memory of the process grows at most while f
// runs: that of SQLite, which Go does not count, with it. Memory of Go that is free goes back to the system before Go takes more
// than spare bytes: otherwise the figure would be that of the collector's pace, on a busy machine.
func peakMemory(t testing.TB, spare int64, f func()) int64 {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(stats.Sys-stats.HeapReleased) + spare))
	require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // VmHWM begins anew
	before := statusBytes(t, "VmRSS:")
	f()
	return statusBytes(t, "VmHWM:") - before
}

// statusBytes returns a figure of /proc/self/status.
func statusBytes(t testing.TB, name string) (n int64) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, found := bytes.Cut(data, []byte(name))
	require.True(t, found)
	_, err = fmt.Sscan(string(rest), &n)
	require.NoError(t, err)
	return n << 10
}

// To read a run with a long journal takes no memory in proportion to its file, however it
// is read.
func TestAFileIsReadInLittleMemory(t *testing.T) {
	harness.MeasuresMemory(t)
	const records, size, most = 64, 1 << 20, 32 << 20
	path := t.TempDir()
	d := store.OpenDir(t, path)
	o := store.StartOwner(t, d, "r1")
	o.Do(state.Start{}, store.StartRun(nil), store.CreateToken(1, "start"))
	for i := range records {
		text := strings.Repeat(string(rune('0'+i)), size)
		o.Do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "x"}, Value: text})
		if i%16 == 15 {
			require.NoError(t, o.File())
		}
	}
	file := filepath.Join(path, store.LoadOwner(t, d, "r1").Run().Head().File)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(records*size))
	small := func(how string, f func()) {
		t.Helper()
		require.Less(t, peakMemory(t, most/2, f), int64(most), how)
	}
	small("Load", func() { store.LoadOwner(t, d, "r1") })
	small("State", func() {
		_, err := d.State("r1")
		require.NoError(t, err)
	})
	small("History", func() {
		n := 0
		for _, err := range d.History("r1") {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, records+1, n)
	})
	small("Events", func() {
		for _, err := range d.Events("r1", 0) {
			require.NoError(t, err)
		}
	})
	small("Flush", func() {
		o := store.LoadOwner(t, d, "r1")
		o.Do(state.Heartbeat{Token: 1})
		require.NoError(t, o.File())
	})
	small("Backup", func() {
		_, err := d.Backup(t.Context(), filepath.Join(t.TempDir(), "copy"), nil)
		require.NoError(t, err)
	})
	require.NoError(t, d.Close())
	small("Verify", func() {
		report, err := store.Verify(path)
		require.NoError(t, err)
		require.Empty(t, report.Findings)
	})
}
