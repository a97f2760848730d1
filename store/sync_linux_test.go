package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// countOpen returns how many descriptors of the process are of folders with a path that begins with a text.
func countOpen(t *testing.T, begin string) (n int) {
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		at, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if info, e := os.Stat(at); err == nil && e == nil && info.IsDir() && strings.HasPrefix(at, begin) {
			n++
		}
	}
	return n
}

// A worker that syncs a file system for several files has opened a descriptor before the first of them is written: an error in between
// is told to that one, also if somebody else syncs first.
func TestTheDiskIsOpenedBeforeFilesAreWritten(t *testing.T) {
	hook := &testhook.Hook{}
	hook.SetFlushWorkers(1)
	hook.SetGatherRuns(1)
	path := harness.Workspace(t)
	d := openWith(t, path, Options{Hook: hook})
	var opened []int
	var once sync.Once
	held, gate := make(chan struct{}), make(chan struct{})
	hook.OnHit(func(point string) {
		if point == "disk.write" {
			opened = append(opened, countOpen(t, path))
			once.Do(func() { close(held); <-gate })
		}
	})
	var filed sync.WaitGroup
	for i := range 1 + minSyncAll {
		o := start(t, d, workflow.RunID(fmt.Sprint("r", i)))
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		filed.Add(1)
		o.run.Flush(o.state.TakeChanges(), o.events, func(err error) { require.NoError(t, err); filed.Done() })
		if i == 0 {
			<-held
		}
	}
	close(gate)
	filed.Wait()
	require.Len(t, opened, 1+minSyncAll)
	for _, n := range opened[1:] {
		require.Equal(t, opened[0]+1, n)
	}

	into := filepath.Join(harness.Workspace(t), "backup")
	seen := 0
	hook.OnHit(func(point string) {
		if point == "backup.file" {
			seen += min(1, countOpen(t, into))
		}
	})
	info, err := d.Backup(t.Context(), into, nil)
	require.NoError(t, err)
	require.Equal(t, info.Files, seen)
}
