//go:build unix

package nodestrial

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/commitlog"
	"github.com/pawl-run/pawl/workflow"
)

// checkRest checks what is left of a trial whose nodes are gone.
func (x *Trial) checkRest() {
	b, err := x.setting.Open()
	for late := time.Now().Add(time.Minute); err != nil; b, err = x.setting.Open() { // the servers have just been harmed
		require.True(x.T, time.Now().Before(late), "the last node: %v", err)
		<-time.After(100 * time.Millisecond)
	}
	changed, report := newReport()
	n, err := openNode(b, nodeOrder{Dir: x.dir, Name: "last", Term: x.setting.Term}, ReturnNumber, report)
	require.NoError(x.T, err)
	e := awaitEngine(n, changed) // the node has none for a moment when it cannot renew its lease in time
	found := map[workflow.RunID]bool{}
	for r, err := range e.Runs(x.T.Context(), pawl.RunFilter{}) {
		require.NoError(x.T, err)
		found[r.Run] = true
	}
	for name, all := range map[string]map[workflow.RunID]bool{"acknowledged": x.acked, "being performed": x.begun, "told to have ended": x.ended} {
		for id := range all {
			require.True(x.T, found[id], "%s was %s, and is missing", id, name)
		}
	}
	for id := range found {
		RequireOnce(x.T, e, id)
	}
	require.NoError(x.T, n.Close(x.T.Context()))
	x.setting.CheckLog()
	x.checkCopies(b)
}

// RequireOnce requires that a run of FanOut with TasksOfRun has completed, and each of its tasks has counted once.
func RequireOnce(t *testing.T, e *pawl.Engine, id workflow.RunID) {
	t.Helper()
	out, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
	want, err := json.Marshal(MakeInput(TasksOfRun)["items"])
	require.NoError(t, err)
	got, err := json.Marshal(out.Output["results"])
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
	completed := 0
	for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		if ev.Type == "task.completed" {
			completed++
		}
	}
	require.Equal(t, TasksOfRun, completed, "every result of %s counts once", id)
}

// checkCopies checks that the directories of all nodes, and what is restored from the servers, become the same.
func (x *Trial) checkCopies(b cluster.Backend) {
	newLog := func() commitlog.Log {
		log, err := b.NewLog(x.T.Context())
		require.NoError(x.T, err)
		return log
	}
	sums := map[string]string{}
	for _, name := range []string{"last", "a", "b"} {
		e, err := pawl.Open(x.T.Context(), filepath.Join(x.dir, name), pawl.Options{
			Durability: pawl.ProcessCrash, Blobs: b.Blobs, Remote: pawl.RemoteOptions{Log: newLog(), Bases: b.Bases},
		})
		require.NoError(x.T, err)
		sums[name] = SumJournals(x.T, e)
		require.NoError(x.T, e.Close(x.T.Context()))
	}
	there := filepath.Join(x.dir, "restored")
	info, err := pawl.Restore(x.T.Context(), there, pawl.RestoreOptions{Log: newLog(), Bases: b.Bases})
	require.NoError(x.T, err)
	require.Empty(x.T, info.Damaged)
	e, err := pawl.Open(x.T.Context(), there, pawl.Options{})
	require.NoError(x.T, err)
	sums["restored"] = SumJournals(x.T, e)
	require.NoError(x.T, e.Close(x.T.Context()))
	for name, sum := range sums {
		require.Equal(x.T, sums["last"], sum, name)
	}
}

// SumJournals returns the sum of the journals of all runs.
func SumJournals(t *testing.T, e *pawl.Engine) string {
	t.Helper()
	h := sha256.New()
	for run, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		for record, err := range e.Journal(t.Context(), run.Run, pawl.EventsOptions{}) {
			require.NoError(t, err)
			data, err := json.Marshal(record)
			require.NoError(t, err)
			fmt.Fprintln(h, run.Run, string(data))
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
