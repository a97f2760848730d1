package store

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// requireCounts compares the counts with the runs, and with what pawl.db has of them.
func requireCounts(t *testing.T, d *Dir) {
	want, got, stored := map[countKey]int64{}, map[countKey]int64{}, map[countKey]int64{}
	for _, h := range all(t, d.AllHeads(RunFilter{})) {
		want[countKey{h.Workflow, h.Status}]++
	}
	counts, err := d.Counts(t.Context())
	require.NoError(t, err)
	for _, c := range counts {
		got[countKey{c.Workflow, c.Status}] = c.Runs
	}
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
		return db.Each(getCounts, func(r *sqlite.Row) error {
			stored[countKey{r.Text(0), workflow.RunStatus(r.Int64(1))}] = r.Int64(2)
			return nil
		})
	}))
	require.Equal(t, want, got)
	require.Equal(t, want, stored)
	requireStanding(t, d, counts)
}

// requireStanding compares the counts that wait for no commit with those that do.
func requireStanding(t *testing.T, d *Dir, counts []RunCount) {
	require.Equal(t, slices.DeleteFunc(slices.Clone(counts), func(c RunCount) bool { return c.Status.Final() }), append([]RunCount{}, d.StandingRuns()...))
}

func TestCounts(t *testing.T) {
	d := runsOfAllKinds(t)
	requireCounts(t, d)
	for _, id := range []workflow.RunID{"order-21", "ordre-7"} {
		require.NoError(t, d.Purge(id, ""))
	}
	require.ErrorIs(t, d.Purge("order-0", ""), ErrNotEnded)
	g := defined(t, "other", "")
	startOf(t, d, "x", g).five(nil)
	requireCounts(t, d)
	require.ErrorIs(t, startOf(t, d, "x", g).try(state.Start{}, startRun(nil)), state.ErrRunExists)
	requireCounts(t, d)
	crash := crashed(t, d.path)
	require.NoError(t, d.Close())
	for _, path := range []string{d.path, crash} {
		d := open(t, path)
		requireCounts(t, d)
		require.Contains(t, d.counts.rows, countKey{"other", workflow.RunCompleted})
	}
}

// The counts of a failed transaction are not kept.
func TestCountsOfATransactionThatFails(t *testing.T) {
	d := runsOfAllKinds(t)
	ids := all(t, d.AllHeads(RunFilter{Status: []workflow.RunStatus{workflow.RunCompleted}, Limit: 2}))
	for i, h := range ids {
		err := d.updateIndex(func(db *sqlite.Conn) error {
			d.counts.countRun(h.Workflow, h.Status, -1)
			return db.Script(`SELECT nothing`)
		})
		require.Error(t, err, i)
	}
	requireCounts(t, d)
}

// The index that leads to fewer runs serves a list by status and workflow.
func TestAListTakesTheRarerIndex(t *testing.T) {
	d := runsOfAllKinds(t)
	startOf(t, d, "x", defined(t, "other", "")).five(nil)
	for name, want := range map[string]int{"fan": 1, "other": -1, "none": -1} {
		l := runList{d: d, filter: RunFilter{Workflow: name, Status: []workflow.RunStatus{workflow.RunFailed}}}
		_, err := l.nextPage(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, l.rarer, name)
	}
}

// A run that ends after Purge has read its row is counted as what it was when it was deleted.
func TestCountsOfARunThatEndsBeforeItIsPurged(t *testing.T) {
	d := runsOfAllKinds(t)
	o := startOf(t, d, "late", defined(t, "late", ""))
	o.do(state.Start{}, decision.StartRun{At: at(1)}, createToken(1, "start"))
	stale, err := d.Families(t.Context(), []workflow.RunID{"late"})
	require.NoError(t, err)
	o.do(state.Cancel{}, decision.CancelRun{At: at(2), Failure: workflow.Failure{Code: "cancelled"}})
	noKeys := func(workflow.RunID) string { return "" }
	require.NoError(t, d.PurgeAll(stale[0], noKeys))
	require.NoError(t, stale[0][0].Err)
	requireCounts(t, d)
	require.NoError(t, d.PurgeAll(stale[0], noKeys))
	require.ErrorIs(t, stale[0][0].Err, ErrNotEnded)
	requireCounts(t, d)
}

// Which runs have an incident is that of the last transaction that succeeded: one that fails changes nothing.
func TestIncidentsOfATransactionThatFails(t *testing.T) {
	d := runsOfAllKinds(t)
	running := all(t, d.AllHeads(RunFilter{Status: []workflow.RunStatus{workflow.RunRunning}, Limit: 1}))[0]
	unmet := running
	unmet.Failure = &workflow.Failure{Code: workflow.CodeJoinUnmet, Node: "both"}
	note := func(script string, before, after *Head) error {
		return d.updateIndex(func(db *sqlite.Conn) error {
			d.counts.noteIncident(7, before, after)
			return db.Script(script)
		})
	}
	require.Error(t, note(`SELECT nothing`, &running, &unmet))
	require.NoError(t, d.updateIndex(func(*sqlite.Conn) error { return nil }))
	require.Empty(t, d.counts.incidents)
	require.NoError(t, note(`SELECT 1`, &running, &unmet))
	require.Equal(t, map[int64]bool{7: true}, d.counts.incidents)
	require.Error(t, note(`SELECT nothing`, &unmet, &running))
	require.Equal(t, map[int64]bool{7: true}, d.counts.incidents)
	ended := unmet
	ended.Status = workflow.RunFailed
	require.NoError(t, note(`SELECT 1`, &unmet, &ended))
	require.Empty(t, d.counts.incidents, "what has ended has failed")
}

// A commit that is refused counts nothing, also if others in its transaction succeed.
func TestARefusedCommitKeepsTheIncident(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	stale := load(t, d, "r1")
	o.do(state.Heartbeat{})
	num := stale.run.row.Num
	d.counts.incidents[num] = true
	stale.run.row.Failure = &workflow.Failure{Code: workflow.CodeJoinUnmet, Node: "both"} // as it read the row
	require.ErrorIs(t, stale.try(state.Heartbeat{}), ErrFenced)
	start(t, d, "r2").do(state.Start{}, startRun(nil))
	require.Equal(t, map[int64]bool{num: true}, d.counts.incidents)
}

// An outcome that is replaced gives up the blobs that it referred to.
func TestAnOutcomeThatIsReplaced(t *testing.T) {
	d := open(t, t.TempDir())
	refer := func(text string) (hash string) {
		hash = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
		require.NoError(t, d.KeepOutcome("paid", map[string]any{"receipt": blob.Ref{Hash: hash, Size: 1}.Value()}, at(1)))
		return hash
	}
	first, second := refer("first"), refer("second")
	for hash, want := range map[string]bool{first: false, second: true} {
		refers, err := d.Refers(t.Context(), hash)
		require.NoError(t, err)
		require.Equal(t, want, refers)
	}
}

// TestRunSizesReadNoOutputs: the row of each run is looked at without its output, and one that is damaged is not believed. A child that has
// ended has not if its root goes on.
func TestRunSizesReadNoOutputs(t *testing.T) {
	d := open(t, t.TempDir())
	for _, id := range []workflow.RunID{"small", "negative", "status"} {
		finishRun(t, d, Head{Run: id, Tenant: "acme"}, "x")
	}
	finishRun(t, d, Head{Run: "large"}, strings.Repeat("x", 1<<16))
	startOf(t, d, "above", graph(t)).do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	finishRun(t, d, Head{Run: "below", Parent: "above", Root: "above"}, "x")
	startOf(t, d, "gone", graph(t)).do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	finishRun(t, d, Head{Run: "orphan", Parent: "gone", Root: "gone"}, "x")
	require.NoError(t, d.readRuns(t.Context(), func(db *sqlite.Conn) error {
		return db.Script(`UPDATE runs SET file_size = -5 WHERE id = 'negative'; UPDATE runs SET status = 1 WHERE id = 'status'; DELETE FROM runs WHERE id = 'gone'`)
	}))
	ended, damaged := map[workflow.RunID]bool{}, map[workflow.RunID]bool{}
	for s, err := range d.RunSizes(t.Context()) {
		require.NoError(t, err)
		ended[s.Run], damaged[s.Run] = s.Ended, s.Damaged
		require.GreaterOrEqual(t, s.Bytes, int64(0))
	}
	require.Equal(t, map[workflow.RunID]bool{"small": false, "large": false, "above": false, "below": false, "orphan": false, "negative": true, "status": true}, damaged)
	require.Equal(t, map[workflow.RunID]bool{"small": true, "large": true, "above": false, "below": false, "orphan": true, "negative": false, "status": false}, ended)
	texts := 0
	require.NoError(t, d.readRuns(t.Context(), func(db *sqlite.Conn) error {
		return db.Each(index.SizeColumns, func(r *sqlite.Row) error {
			for _, v := range r.Values() {
				if s, ok := v.(string); ok {
					texts += len(s)
				}
			}
			return nil
		}, int64(0), int64(listRows))
	}))
	require.Less(t, texts, 1<<13)
}
