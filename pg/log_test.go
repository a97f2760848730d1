package pg_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/blobtest"
	"github.com/pawl-run/pawl/pg"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
)

// executeOnce runs statements over a connection of their own.
func executeOnce(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return errors.Join(err, conn.Close(ctx))
}

func openLog(t testing.TB, db *pg.Database, name string) *pg.Log {
	t.Helper()
	l, err := db.OpenLog(t.Context(), name)
	require.NoError(t, err)
	return l
}

func takeLog(t testing.TB, l store.Log, entry string) store.Position {
	t.Helper()
	p, err := l.Take(t.Context(), func(store.Position) []byte { return []byte(entry) })
	require.NoError(t, err)
	return p
}

func appendEntry(t testing.TB, l store.Log, entry string) store.Position {
	t.Helper()
	p, err := l.Append(t.Context(), []byte(entry))
	require.NoError(t, err)
	return p
}

// readLog returns the entries of a log, or their first 20 bytes, and the error that ends it.
func readLog(t testing.TB, l store.Log, after store.Position) (out []string, failed error) {
	t.Helper()
	for e, err := range l.Read(t.Context(), after) {
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprintf("%d %.20s", e.Seq, e.Data))
	}
	return out, nil
}

func requireEntries(t testing.TB, l store.Log, want ...string) {
	t.Helper()
	got, err := readLog(t, l, store.Position{})
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// A log in a database passes what every log must pass.
func TestLogInADatabase(t *testing.T) {
	checkLogs(t, open(t, newDatabase(t), pg.Options{}))
}

// The logs of a database are listed by their names; without tables there is no list.
func TestLogsAreListed(t *testing.T) {
	url := newDatabase(t)
	bare, err := openDatabase(t.Context(), url, pg.Options{})
	require.NoError(t, err)
	defer bare.Close()
	_, err = bare.ListLogs(t.Context())
	require.ErrorIs(t, err, pg.ErrNoTables)
	db := open(t, url, pg.Options{})
	names, err := db.ListLogs(t.Context())
	require.NoError(t, err)
	require.Empty(t, names)
	for _, name := range []string{"b", "B", "a", "b"} {
		openLog(t, db, name)
	}
	names, err = db.ListLogs(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"B", "a", "b"}, names)
	_, err = (*pg.Database)(nil).ListLogs(t.Context())
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// A database without a pooler works with prepared statements too.
func TestStatementsThatArePrepared(t *testing.T) {
	db := open(t, newDatabase(t), pg.Options{Configure: func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	}})
	checkLogs(t, db)
	b := openBlobs(t, db)
	got, err := blobtest.Read(t, b, blobtest.Put(t, b, textOf(600<<10)))
	require.NoError(t, err)
	require.Equal(t, textOf(600<<10), got)
}

// checkLogs has logs of a database pass what every log must pass.
func checkLogs(t *testing.T, db *pg.Database) {
	n := 0
	logtest.Run(t, func(t *testing.T) func() store.Log {
		n++
		name := fmt.Sprint("log", n)
		return func() store.Log { return openLog(t, db, name) }
	})
}
