package store

import (
	"database/sql/driver"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// manyRuns inserts rows that only lists look at, and only at their columns for lists: every
// hundredth run runs, the others have ended.
func manyRuns(t *testing.T, n int) *Dir {
	d := openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	require.NoError(t, d.updateIndex(func(db *sqlite.Conn) error {
		d.counts.rows = map[countKey]int64{{"flow", workflow.RunRunning}: int64(n / 100), {"flow", workflow.RunCompleted}: int64(n - n/100)}
		_, err := db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO runs SELECT i, 'run-' || i, 'flow', 1, '', '', '', '', iif(i % 50, '', 'few'), '', 0, i, iif(i % 50, '', 'run-1'), 1, 0, 0, 0, iif(i % 100, 4, 1), NULL, iif(i % 100, i, NULL),
				NULL, NULL, NULL, 0, 1, x'', i, 0, 0, 0, NULL, NULL, 0, 0 FROM n`, int64(n))
		if err == nil {
			_, err = db.Exec(`INSERT INTO labels SELECT num, 'all', 'x', 0 FROM runs UNION ALL SELECT num, 'few', 'x', 0 FROM runs WHERE num % 70 = 0
				UNION ALL SELECT num, 'one', 'x', 0 FROM runs WHERE num = 77`)
		}
		return err
	}))
	return d
}

// A list of few runs looks at few rows, however many there are; one of many gathers none.
func TestAListLooksAtWhatAnIndexLeadsTo(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	if harness.Raced {
		t.Skip("it counts rows that one goroutine reads, which takes a minute with the race detector")
	}
	const n = maxGathered + 300
	d := manyRuns(t, n)
	running := []workflow.RunStatus{workflow.RunRunning}
	for _, tt := range []struct {
		filter   RunFilter
		gathered bool
		pages    int
	}{
		{RunFilter{}, false, n/listRows + 1},
		{RunFilter{Status: running}, false, n/100/listRows + 1},
		{RunFilter{Status: running, Newest: true}, false, n/100/listRows + 1},
		{RunFilter{Status: []workflow.RunStatus{workflow.RunFailed, workflow.RunCancelled}}, false, 1},
		{RunFilter{Workflow: "other"}, false, 1},
		{RunFilter{Workflow: "flow"}, false, n/listRows + 1},
		{RunFilter{Parent: "run-1"}, false, 1},
		{RunFilter{Tenant: "few"}, false, n/50/listRows + 1},
		{RunFilter{ForkedFrom: "run-1"}, false, n/50/listRows + 1},
		{RunFilter{Tenant: "few", Status: running, Newest: true}, false, n/50/listRows + 1},
		{RunFilter{Where: `labels.one == "x"`}, false, 1},
		{RunFilter{Where: `labels["one"] == "x" && started > timestamp("1970-01-01T00:00:00Z") && size(run) > 3`}, false, 1},
		{RunFilter{Where: `labels.one == "x" || workflow == "none"`}, false, n/listRows + 1},
		{RunFilter{Where: `status == "running"`}, false, n/100/listRows + 1},
		{RunFilter{Where: `status in ["failed", "running"] && workflow == "flow"`}, false, n/100/listRows + 1},
		{RunFilter{Where: `status == "failed" && status == "running"`}, false, 0},
		{RunFilter{Where: `workflow == "x"`, Workflow: "flow"}, false, 0},
		{RunFilter{Where: `parent == "run-1"`}, false, 1},
		{RunFilter{Where: `tenant == "few"`}, false, n/50/listRows + 1},
		{RunFilter{Where: `run == "run-777"`}, true, 1},
		{RunFilter{Labels: map[string]string{"one": "x"}}, false, 1},
		{RunFilter{Labels: map[string]string{"one": "x", "all": "x"}, Workflow: "flow", Newest: true}, false, 1},
		{RunFilter{Labels: map[string]string{"one": "x"}, Prefix: "run-"}, false, 1},
		{RunFilter{Labels: map[string]string{"one": "x"}, Tenant: "few", Status: running}, false, 1},
		{RunFilter{Labels: map[string]string{"none": "x"}}, false, 1},
		{RunFilter{Labels: map[string]string{"few": "x", "all": "x"}}, false, n/70/listRows + 1},
		{RunFilter{Labels: map[string]string{"all": "x"}}, false, n/listRows + 1},
		{RunFilter{Labels: map[string]string{"all": "x"}, Status: running}, false, n/100/listRows + 1},
		{RunFilter{Labels: map[string]string{"all": "x"}, Tenant: "few"}, false, n/50/listRows + 1},
		{RunFilter{Prefix: "run-777"}, true, 1},
		{RunFilter{Prefix: "run-"}, false, n/listRows + 1},
		{RunFilter{EndedSince: time.UnixMilli(n - 50)}, true, 1},
		{RunFilter{EndedSince: time.UnixMilli(5), EndedUntil: time.UnixMilli(9)}, true, 1},
		{RunFilter{EndedSince: time.UnixMilli(5)}, false, n/listRows + 1},
	} {
		t.Run(fmt.Sprint(tt.filter), func(t *testing.T) {
			l := runList{d: d, filter: tt.filter}
			require.NoError(t, l.beginList(t.Context()))
			require.Equal(t, tt.gathered, l.gathered)
			pages := 0
			for ; !l.done; pages++ {
				_, err := l.nextPage(t.Context())
				require.NoError(t, err)
			}
			require.Equal(t, tt.pages, pages)
		})
	}
}

func TestEndedRunsAreInTheOrderOfTheirEnds(t *testing.T) {
	const n = 2*listRows + 50
	d := manyRuns(t, n)
	up, down := all(t, d.Ended(false)), all(t, d.Ended(true))
	require.Len(t, up, n-n/100)
	require.True(t, slices.IsSortedFunc(up, func(a, b EndedRun) int { return a.At.Compare(b.At) }))
	slices.Reverse(down)
	require.Equal(t, up, down)
}

// No query of a list, nor of what Open asks, reads or sorts more than it returns.
func TestListsAreServedByIndexes(t *testing.T) {
	d := open(t, t.TempDir())
	number, text := int64(1), "x"
	for query, args := range map[string][]driver.Value{
		inAll.up: {number, number}, inAll.down: {number, number},
		inStatus.up: {number, number, number}, inStatus.down: {number, number, number},
		inWorkflow.up: {number, number, text}, inWorkflow.down: {number, number, text},
		inTenant.up: {number, number, text}, inTenant.down: {number, number, text},
		inLabel.up: {number, number, text, text}, inLabel.down: {number, number, text, text}, someOfLabel: {text, text, number}, dropLabels: {"[1]"}, dropRefs: {"[1]"}, deleteRuns: {"[1]"},
		getRunsOf: {"[1]"}, areParent: {"[1]"}, getChildren: {text, number, number}, keysWithin: {`[["a","b"]]`}, dropKeys: {"[1]"}, dropKeyRefs: {"[1]"}, purgedSpills: {"[1]"}, dropPurged: {"[1]"},
		inParent.up: {number, number, text}, inParent.down: {number, number, text},
		nextPrefixed: {text, text, number}, nextEnded: {number, number, int64(math.MaxInt64), number},
		endedUp: {number, number, number}, endedDown: {number, number, number}, getDue: {number, number, number, number}, getNextAlarm: {number, number},
		getQuiet: {number, number, number, number}, maxNum: {}, maxSpill: {}, index.SizeColumns: {number, number},
	} {
		require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
			return db.Each("EXPLAIN QUERY PLAN "+query, func(r *sqlite.Row) error {
				plan := r.Text(3)
				require.False(t, strings.HasPrefix(plan, "SCAN") && !isGiven(plan) && query != inAll.up && query != inAll.down, "%s: %s", query, plan)
				require.NotContains(t, plan, "TEMP B-TREE", query)
				return nil
			}, args...)
		}))
	}
}

// isGiven reports whether a step of a plan goes through a list that was given with the query.
func isGiven(plan string) bool {
	return strings.Contains(plan, "VIRTUAL TABLE INDEX 1:") || plan == "SCAN CONSTANT ROW"
}

// A page of dead letters ends after so many that were looked at, whether or not they fit.
func TestDeadLettersThatFitAreFoundBehindManyThatDoNot(t *testing.T) {
	d := openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	for _, id := range []workflow.RunID{"a", "b"} {
		start(t, d, id).five(nil)
	}
	var num int64
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
		_, err := db.One(`SELECT num FROM runs WHERE id = 'b'`, func(r *sqlite.Row) error { num = r.Int64(0); return nil })
		return err
	}))
	require.NoError(t, d.updateIndex(func(db *sqlite.Conn) error {
		for i := range int64(2 * listRows) {
			node := "often"
			if i%200 == 0 {
				node = "rare"
			}
			if _, err := db.Exec(putDead, index.RowWithCRC(num, i+1, node, "work", int64(1), `{"code":"x"}`, `null`, i)...); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Len(t, all(t, d.DeadLetters(t.Context(), DeadLetterFilter{})), 2*listRows)
	for _, f := range []DeadLetterFilter{{Node: "rare"}, {Node: "rare", Run: "b"}, {Node: "rare", Task: "work", Code: "x"}} {
		require.Len(t, all(t, d.DeadLetters(t.Context(), f)), 3, f)
	}
	for _, f := range []DeadLetterFilter{{Node: "never"}, {Run: "a"}, {Run: "c"}, {Workflow: "other"}} {
		require.Empty(t, all(t, d.DeadLetters(t.Context(), f)), f)
	}
}
