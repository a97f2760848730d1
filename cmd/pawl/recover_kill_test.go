package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store/folderlog"
	"github.com/pawl-run/pawl/workflow"
)

// runWithLog opens the directory data of a folder with the log and the bases beside it, starts what is named, and returns the runs with how
// many records each has.
func runWithLog(t *testing.T, folder string, ids ...workflow.RunID) map[workflow.RunID]int64 {
	t.Helper()
	log, err := folderlog.Open(filepath.Join(folder, "log"))
	require.NoError(t, err)
	bases, err := blob.OpenFiles(filepath.Join(folder, "bases"), blob.Options{})
	require.NoError(t, err)
	blobs, err := blob.OpenFiles(filepath.Join(folder, "blobs"), blob.Options{})
	require.NoError(t, err)
	engine, err := pawl.Open(t.Context(), filepath.Join(folder, "data"), pawl.Options{
		Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return "done", nil }}, Durability: pawl.ProcessCrash, Blobs: blobs,
		Remote: pawl.RemoteOptions{Log: log, Bases: bases},
	})
	require.NoError(t, err)
	def, err := workflow.ParseYAML([]byte(oneStep))
	require.NoError(t, err)
	for _, id := range ids {
		out, err := engine.Run(t.Context(), workflow.Run{ID: id, Definition: def}, map[string]any{"file": nil})
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	out := map[workflow.RunID]int64{}
	for run, err := range engine.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		out[run.Run] = run.Seq
	}
	require.NoError(t, errors.Join(engine.Close(t.Context()), bases.Close(), blobs.Close()))
	return out
}

// Wherever the process that begins a log anew is killed, the same command once more, or the next opening, has everything.
func TestKilledWhileRecovering(t *testing.T) {
	harness.InTurn(t, 4)
	program, err := exec.LookPath("pawl") // that of this binary, which the variable reaches
	require.NoError(t, err)
	whole := harness.Workspace(t)
	runWithLog(t, whole, "one", "two")
	want := runWithLog(t, whole, "three")
	require.Len(t, want, 3)
	entries, err := filepath.Glob(filepath.Join(whole, "log", "0*"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(entries[len(entries)/2]))
	begin := func(folder, kill string) error {
		cmd := exec.Command(program, "recover", "data", "--log", "log", "--bases", "bases", "--give-up", "0")
		cmd.Dir, cmd.Env = folder, harness.Environment(harness.KillVariable+"="+kill)
		return cmd.Run()
	}
	kills, repeated := 0, 0
	points := []string{"remote.taken", "remote.base", "remote.based", "commit.begin", "commit.inside", "commit.done", "close.checkpoint", "close.mark", "close.release"}
	if harness.Raced { // a process that is killed has no status to say what was found
		points = points[:1]
	}
	// One in 3 at the gate, and not one in 2, as the gate has this test on every second day.
	points = harness.SampleOfDay(t, harness.Figure(1, 3, 1), points)
	for _, point := range points {
		hits := 0
		for n := 1; ; n++ {
			folder := harness.Workspace(t)
			require.NoError(t, os.CopyFS(folder, os.DirFS(whole)))
			at := point + ":" + strconv.Itoa(n)
			err := begin(folder, at)
			if err == nil {
				require.Positive(t, hits, "nobody comes to %s", point)
				break
			}
			require.True(t, harness.Killed(err), "%s: %v", at, err)
			hits++
			if n%2 == 1 {
				repeated++
				if status := exitStatus(t, begin(folder, "nowhere:1")); status != exitDone {
					require.Equal(t, exitUnusable, status, at) // nothing was left to do
				}
			}
			require.Equal(t, want, runWithLog(t, folder), at)
			if harness.CurrentLevel() == harness.Quick && n == 2 {
				break
			}
		}
		kills += hits
	}
	t.Logf("%d kills, %d of them with the command once more, violations: 0", kills, repeated)
}
