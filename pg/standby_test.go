package pg_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/nodestrial"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pg"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// startStandby starts a standby of a server, which waits for it if it is to be synchronous.
func startStandby(t *testing.T, of *servers.Postgres, synchronous bool) *servers.Postgres {
	t.Helper()
	s, err := of.StartStandby("standby", nil)
	require.NoError(t, err)
	s.CloseAfter(t)
	if synchronous {
		require.NoError(t, of.Reload(map[string]string{"synchronous_standby_names": "standby"}))
		require.Eventually(t, func() bool {
			return queryText(t, of.URL("postgres"), `SELECT coalesce(min(sync_state), '') FROM pg_stat_replication`) == "sync"
		}, time.Minute, 10*time.Millisecond)
		awaitSettings(t, of.URL("postgres"))
	}
	return s
}

// Entries that writers were told to be kept are on the synchronous standby when the primary dies and the standby takes its place.
func TestFailoverToASynchronousStandby(t *testing.T) {
	primary := startServer(t, nil)
	migrated(t, primary.URL("postgres"))
	standby := startStandby(t, primary, true)
	var mu sync.Mutex
	acknowledged := map[uint64]string{}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for w := range 3 {
		db, err := openDatabase(ctx, primary.URL("postgres"), pg.Options{}) // before the primary may die
		require.NoError(t, err)
		all.Go(func() {
			defer db.Close()
			writeContended(t, db, w, func() bool { return ctx.Err() != nil }, func(p store.Position, entry string) {
				mu.Lock()
				defer mu.Unlock()
				acknowledged[p.Seq] = entry
			})
		})
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(acknowledged) >= 200 }, 5*time.Minute, time.Millisecond)
	require.NoError(t, primary.Kill())
	cancel()
	all.Wait()
	require.NoError(t, standby.Promote())
	n := len(acknowledged)
	requireAcknowledged(t, standby.URL("postgres"), acknowledged)
	t.Logf("%d entries acknowledged, 0 missing", n)
}

// An asynchronous standby that has lost the end of the log is mended by the directory that has it; a directory that somebody else has gone on
// without is refused.
func TestFailoverToAStandbyThatLacksTheEnd(t *testing.T) {
	primary := startServer(t, nil)
	migrated(t, primary.URL("postgres"))
	standby := startStandby(t, primary, false)
	dir := t.TempDir()
	run := func(s *servers.Postgres, name string, runs ...string) error {
		e, closeAll, err := openRemote(t, s.URL("postgres"), filepath.Join(dir, name), nodestrial.ReturnNumber)
		if err != nil {
			return err
		}
		defer closeAll()
		for _, id := range runs {
			def, err := workflow.ParseYAML([]byte(nodestrial.FanOut))
			require.NoError(t, err)
			_, err = e.Run(t.Context(), workflow.Run{ID: workflow.RunID(id), Definition: def}, nodestrial.MakeInput(nodestrial.TasksOfRun))
			require.NoError(t, err)
		}
		return nil
	}
	require.NoError(t, run(primary, "a", "one"))
	require.Eventually(t, func() bool {
		return queryText(t, standby.URL("postgres"), `SELECT count(*)::text FROM pawl.entries`) == queryText(t, primary.URL("postgres"), `SELECT count(*)::text FROM pawl.entries`)
	}, time.Minute, 10*time.Millisecond)
	stopReplay(t, standby)
	require.NoError(t, run(primary, "a", "two"), "which the standby does not get")
	require.NoError(t, primary.Kill())
	require.NoError(t, standby.Promote())

	before := queryText(t, standby.URL("postgres"), `SELECT max(number)::text FROM pawl.entries`)
	require.NoError(t, run(standby, "a", "three"), "the directory appends the end again")
	require.NotEqual(t, before, queryText(t, standby.URL("postgres"), `SELECT max(number)::text FROM pawl.entries`))
	e, closeAll, err := openRemote(t, standby.URL("postgres"), filepath.Join(dir, "b"), nodestrial.ReturnNumber)
	require.NoError(t, err)
	for _, id := range []workflow.RunID{"one", "two", "three"} {
		nodestrial.RequireOnce(t, e, id)
	}
	closeAll()

	// The same again, but somebody else goes on before the directory comes.
	last := queryText(t, standby.URL("postgres"), `SELECT max(number)::text FROM pawl.entries`)
	require.NoError(t, run(standby, "a", "four"))
	execute(t, standby.URL("postgres"), `DELETE FROM pawl.entries WHERE number > `+last)
	require.NoError(t, run(standby, "b", "other"))
	err = run(standby, "a")
	require.ErrorIs(t, err, pawl.ErrCorrupt)
	require.NoError(t, run(standby, "b", "more"))
}

// openRemote opens an engine whose log is in a database, with a handler for tasks of type work.
func openRemote(t *testing.T, url, dir string, work func(context.Context, pawl.Task) (any, error)) (*pawl.Engine, func(), error) {
	db := open(t, url, pg.Options{})
	b, err := db.OpenBackend(t.Context(), "orders")
	require.NoError(t, err)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{
		Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"work": work}, Blobs: b.Blobs,
		Remote: pawl.RemoteOptions{Log: openLog(t, db, "orders"), Bases: b.Bases},
	})
	return e, func() { require.NoError(t, errors.Join(e.Close(context.Background()))) }, err
}

// stopReplay cuts a standby off from its primary.
func stopReplay(t *testing.T, standby *servers.Postgres) {
	t.Helper()
	execute(t, standby.URL("postgres"), `ALTER SYSTEM SET primary_conninfo = ''`)
	execute(t, standby.URL("postgres"), `SELECT pg_reload_conf()`)
	require.Eventually(t, func() bool {
		return queryText(t, standby.URL("postgres"), `SELECT count(*)::text FROM pg_stat_wal_receiver`) == "0"
	}, time.Minute, 10*time.Millisecond)
}
