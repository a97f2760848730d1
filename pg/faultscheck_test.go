package pg_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/pg"
	"github.com/pawl-run/pawl/workflow"
)

// check checks what is left of a trial whose nodes are gone.
func (x *nodesTrial) check() {
	db := open(x.t, x.server.URL("postgres"), pg.Options{})
	changed := make(chan struct{}, 64)
	n, err := openNode(x.t.Context(), db, nodeOrder{Dir: x.dir, Name: "last"}, number, func(cluster.Status) { changed <- struct{}{} })
	require.NoError(x.t, err)
	for n.Engine() == nil {
		<-changed
	}
	found := map[workflow.RunID]bool{}
	for r, err := range n.Engine().Runs(x.t.Context(), pawl.RunFilter{}) {
		require.NoError(x.t, err)
		found[r.Run] = true
	}
	for name, all := range map[string]map[workflow.RunID]bool{"acknowledged": x.acked, "being performed": x.begun, "told to have ended": x.ended} {
		for id := range all {
			require.True(x.t, found[id], "%s was %s, and is missing", id, name)
		}
	}
	for id := range found {
		requireOnce(x.t, n.Engine(), id)
	}
	require.NoError(x.t, n.Close(x.t.Context()))
	checkWriters(x.t, x.server.URL("postgres"))
	x.checkCopies(db)
}

// requireOnce requires that a run has completed, and each of its tasks has counted once.
func requireOnce(t *testing.T, e *pawl.Engine, id workflow.RunID) {
	out, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
	want, err := json.Marshal(items(tasksOfRun)["items"])
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
	require.Equal(t, tasksOfRun, completed, "every result of %s counts once", id)
}

// checkWriters checks that nobody has appended behind the opening of another one, and that no entry is missing.
func checkWriters(t *testing.T, url string) {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	rows, err := conn.Query(t.Context(), `SELECT number, writer FROM pawl.entries ORDER BY number`)
	require.NoError(t, err)
	gone, last, lives, entries := map[[16]byte]bool{}, [16]byte{}, 0, 0
	var next, number int64
	var writer [16]byte
	_, err = pgx.ForEachRow(rows, []any{&number, &writer}, func() error {
		require.True(t, next == 0 || number == next, "entry %d is missing", next)
		require.False(t, gone[writer], "entry %d is of an owner who had lost the log", number)
		if next, entries = number+1, entries+1; writer != last {
			gone[last], last, lives = true, writer, lives+1
		}
		return nil
	})
	require.NoError(t, err)
	t.Logf("the log has %d entries of %d owners, one after the other", entries, lives)
}

// checkCopies checks that the directories of all nodes, and what is restored from the database, become the same.
func (x *nodesTrial) checkCopies(db *pg.Database) {
	b, err := db.OpenBackend(x.t.Context(), "orders")
	require.NoError(x.t, err)
	sums := map[string]string{}
	for _, name := range []string{"last", "a", "b"} {
		e, err := pawl.Open(x.t.Context(), filepath.Join(x.dir, name), pawl.Options{
			Durability: pawl.ProcessCrash, Blobs: b.Blobs, Remote: pawl.RemoteOptions{Log: openLog(x.t, db, "orders"), Bases: b.Bases},
		})
		require.NoError(x.t, err)
		sums[name] = sumOf(x.t, e)
		require.NoError(x.t, e.Close(x.t.Context()))
	}
	there := filepath.Join(x.dir, "restored")
	info, err := pawl.Restore(x.t.Context(), there, pawl.RestoreOptions{Log: openLog(x.t, db, "orders"), Bases: b.Bases})
	require.NoError(x.t, err)
	require.Empty(x.t, info.Damaged)
	e, err := pawl.Open(x.t.Context(), there, pawl.Options{})
	require.NoError(x.t, err)
	sums["restored"] = sumOf(x.t, e)
	require.NoError(x.t, e.Close(x.t.Context()))
	for name, sum := range sums {
		require.Equal(x.t, sums["last"], sum, name)
	}
}

// sumOf returns the sum of the journals of all runs.
func sumOf(t *testing.T, e *pawl.Engine) string {
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
