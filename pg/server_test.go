package pg_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/internal/testing/blobtest"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pg"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
)

// Poolers work in every mode: each call is one statement, without a name.
func TestLogBehindAPooler(t *testing.T) {
	servers.RequirePgBouncer(t)
	s := startServer(t, nil)
	for _, mode := range harness.SampleOfDay(t, harness.Figure(3, 3, 1), []string{"session", "transaction", "statement"}) {
		t.Run(mode, func(t *testing.T) {
			execute(t, s.URL("postgres"), "CREATE DATABASE "+mode)
			pooler, err := servers.StartPgBouncer(s, mode, "default_pool_size = 2", "server_reset_query_always = 1")
			require.NoError(t, err)
			pooler.CloseAfter(t)
			url := pooler.URL(mode)
			db := open(t, url, pg.Options{})
			n := 0
			logtest.Run(t, func(t *testing.T) func() store.Log {
				n++
				name := fmt.Sprint("log", n)
				return func() store.Log { return openLog(t, db, name) }
			})
			contendForLog(t, url, 4, 100, nil)
			b := openBlobs(t, db)
			hash := blobtest.Put(t, b, textOf(600<<10))
			got, err := blobtest.Read(t, b, hash)
			require.NoError(t, err)
			require.Equal(t, textOf(600<<10), got)
		})
	}
}

// An entry is not acknowledged before the synchronous standby has it, whatever synchronous_commit and client_min_messages of the user say, nor if
// somebody cancels the wait for it, which for PostgreSQL is a success with a warning; nor when it is found on the primary later.
func TestEntriesThatNoStandbyHas(t *testing.T) {
	s := startServer(t, nil)
	url := s.URL("postgres")
	execute(t, url, `ALTER ROLE postgres SET synchronous_commit = off; ALTER ROLE postgres SET client_min_messages = error`)
	l := openLog(t, open(t, url, pg.Options{}), "sync")
	takeLog(t, l, "open")
	setStandby(t, s, "nobody")
	appended := make(chan error)
	go func() {
		_, err := l.Append(t.Context(), []byte("1"))
		appended <- err
	}()
	cancelWaits := func() error {
		require.Eventually(t, func() bool {
			return queryText(t, url, `SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'SyncRep'`) == "1"
		}, time.Minute, time.Millisecond, "it waits")
		require.Equal(t, "true", queryText(t, url, `SELECT pg_cancel_backend(pid)::text FROM pg_stat_activity WHERE wait_event = 'SyncRep'`))
		return <-appended
	}
	require.ErrorIs(t, cancelWaits(), pg.ErrNotReplicated)
	require.Equal(t, "2", queryText(t, url, `SELECT count(*)::text FROM pawl.entries`), "the primary has it")
	go func() {
		_, err := l.Append(t.Context(), []byte("1"))
		appended <- err
	}()
	require.ErrorIs(t, cancelWaits(), pg.ErrNotReplicated)
	execute(t, url, `DELETE FROM pawl.entries WHERE number = 1`) // no row is before it that an append would lock
	go func() {
		_, err := l.Append(t.Context(), []byte("1"))
		appended <- err
	}()
	select {
	case err := <-appended:
		require.Fail(t, "nobody else has it", "%v", err)
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, s.Reload(nil))
	require.NoError(t, <-appended)
	requireEntries(t, l, "2 1")
}

// Settings of the user that bite do no harm: statements that are ended are done again, and in smaller parts.
func TestSettingsThatBite(t *testing.T) {
	url := migrated(t, newDatabase(t))
	execute(t, url, `DROP ROLE IF EXISTS bitten; CREATE ROLE bitten SUPERUSER LOGIN`)
	for _, set := range []string{
		"statement_timeout = '200ms'", "idle_in_transaction_session_timeout = '1ms'", "lock_timeout = '50ms'",
		"default_transaction_isolation = 'serializable'", "idle_session_timeout = '50ms'", "bytea_output = 'escape'",
		"DateStyle = 'German'", "TimeZone = 'Asia/Tokyo'", "search_path = 'nowhere'", "standard_conforming_strings = off",
	} {
		execute(t, url, "ALTER ROLE bitten SET "+set)
	}
	bitten := strings.Replace(url, "postgres@", "bitten@", 1)
	acknowledged := map[uint64]string{}
	contendAt(t, bitten, 2, 60, nil, acknowledged)
	requireAcknowledged(t, url, acknowledged)

	var l *pg.Log
	var p store.Position
	again := func(do func() error) {
		require.Eventually(t, func() bool { return do() == nil }, 5*time.Minute, time.Millisecond)
	}
	var db *pg.Database
	again(func() (err error) { db, err = pg.Open(t.Context(), bitten, pg.Options{}); return err })
	t.Cleanup(func() { db.Close() })
	again(func() (err error) { l, err = db.OpenLog(t.Context(), "bites"); return err })
	again(func() (err error) {
		p, err = l.Take(t.Context(), func(store.Position) []byte { return []byte("open") })
		return err
	})
	execute(t, url, fmt.Sprintf(`INSERT INTO pawl.entries SELECT log, n, writer, convert_to(repeat('x', 20000), 'UTF8')
		FROM pawl.entries, generate_series(%d, 3000) n WHERE log = 'bites' AND number = %[1]d - 1;
		CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.003) WHERE mod(OLD.number, 10) = 0; RETURN OLD; END $$;
		CREATE TRIGGER wait BEFORE DELETE ON pawl.entries FOR EACH ROW EXECUTE FUNCTION wait()`, p.Seq+1))
	again(func() error { return l.Drop(t.Context(), store.Position{Seq: 2990}) }) // 1000 rows at a time would take too long
	var n int
	again(func() (err error) { n, err = readLogOnce(t.Context(), l); return err })
	require.Equal(t, 10, n)
}

// Statements that others undo, as transactions see what was there when they began, are done again: callers at the same time notice nothing, or who has
// lost.
func TestIsolations(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			url := migrated(t, newDatabase(t))
			name := "isolated_" + strings.ReplaceAll(level, " ", "_")
			execute(t, url, fmt.Sprintf(`DROP ROLE IF EXISTS %s; CREATE ROLE %[1]s SUPERUSER LOGIN; ALTER ROLE %[1]s SET default_transaction_isolation = '%s'`, name, level))
			db := open(t, strings.Replace(url, "postgres@", name+"@", 1), pg.Options{})
			b := openBlobs(t, db)
			for i := range 30 {
				name := fmt.Sprint("x", i)
				c, err := db.OpenCell(t.Context(), name)
				require.NoError(t, err)
				revision, err := c.Write(t.Context(), nil, 0)
				require.NoError(t, err)
				var all sync.WaitGroup
				var won atomic.Int64
				for range 4 {
					all.Go(func() {
						_, err := db.OpenLog(t.Context(), name)
						assert.NoError(t, err)
						if _, err = c.Write(t.Context(), nil, revision); err == nil {
							won.Add(1)
						} else {
							assert.ErrorIs(t, err, cluster.ErrChanged)
						}
						_, _, err = b.Put(t.Context(), strings.NewReader("the same"))
						assert.NoError(t, err)
					})
				}
				all.Wait()
				require.EqualValues(t, 1, won.Load())
			}
		})
	}
}

// readLogOnce returns how many entries there are.
func readLogOnce(ctx context.Context, l *pg.Log) (n int, failed error) {
	for _, err := range l.Read(ctx, store.Position{}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// A server without fsync is refused, and what somebody should know of one is told.
func TestServersThatAreChecked(t *testing.T) {
	s := startServer(t, map[string]string{"fsync": "off", "full_page_writes": "off"})
	_, err := openDatabase(t.Context(), s.URL("postgres"), pg.Options{})
	require.ErrorIs(t, err, pg.ErrUnsafeServer)
	require.EqualError(t, err, "the PostgreSQL server may lose what it has acknowledged: fsync is off: a crash of its machine loses and damages data")
	db, err := openDatabase(t.Context(), s.URL("postgres"), pg.Options{Unsafe: true})
	require.NoError(t, err)
	defer db.Close()
	r, err := db.Check(t.Context())
	require.NoError(t, err)
	require.Len(t, r.Unsafe, 1)
	require.Len(t, r.Notes, 4, "%q", r.Notes)
	require.NoError(t, db.Migrate(t.Context()))
	require.NoError(t, s.Reload(map[string]string{"synchronous_standby_names": "ANY 1 (a, b)"}))
	require.Eventually(t, func() bool {
		r, err = db.Check(t.Context())
		return err == nil && r.SynchronousNames == "ANY 1 (a, b)"
	}, time.Minute, time.Millisecond)
	require.True(t, r.Fsync)
	require.Empty(t, r.Unsafe)
	require.Len(t, r.Notes, 1, "checksums: %q", r.Notes)
	require.Equal(t, 1, r.Tables)
	require.Equal(t, "on", r.SynchronousCommit)
	_, err = (&pg.Database{}).Check(t.Context())
	require.Error(t, err)
}

// A user who may not write, and a database that is read only, are told what is wrong.
func TestUsersWhoMayNot(t *testing.T) {
	url := newDatabase(t)
	migrated(t, url)
	execute(t, url, `DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA pawl TO reader; GRANT SELECT ON pawl.version TO reader`)
	db, err := openDatabase(t.Context(), strings.Replace(url, "postgres@", "reader@", 1), pg.Options{})
	require.NoError(t, err)
	defer db.Close()
	_, err = db.OpenLog(t.Context(), "x")
	require.ErrorContains(t, err, "needs USAGE of the schema pawl, and SELECT, INSERT, UPDATE and DELETE on its tables")
	execute(t, url, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA pawl TO reader`)
	l, err := db.OpenLog(t.Context(), "x")
	require.NoError(t, err)
	takeLog(t, l, "open")
	appendEntry(t, l, "1")
	requireEntries(t, l, "1 open", "2 1")
}
