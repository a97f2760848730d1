package pg_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/nodestrial"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pg"
)

// TestMain runs the tests, and ends the server that they share, or is a process that a test needs.
func TestMain(m *testing.M) {
	nodestrial.ServeChild(connectNode)
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// shared is a server that tests share who do it no harm, each with a database of its own.
var shared struct {
	once   sync.Once
	server *servers.Postgres
	err    error
	count  int
	mu     sync.Mutex
}

// newDatabase returns the address of an empty database on the server that tests share.
func newDatabase(t testing.TB) (url string) {
	t.Helper()
	servers.RequirePostgres(t)
	shared.once.Do(func() { shared.server, shared.err = servers.StartPostgres(nil) })
	require.NoError(t, shared.err)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.count++
	name := fmt.Sprint("test", shared.count)
	execute(t, shared.server.URL("postgres"), "CREATE DATABASE "+name)
	return shared.server.URL(name)
}

// execute runs statements.
func execute(t testing.TB, url, sql string) {
	t.Helper()
	require.NoError(t, executeOnce(t.Context(), url, sql))
}

// openDatabase opens a database, and has it wait a minute for each answer: a machine that does much else leaves the server little
// time.
func openDatabase(ctx context.Context, url string, o pg.Options) (*pg.Database, error) {
	db, err := pg.Open(ctx, url, o)
	for late := time.Now().Add(time.Minute); err != nil && !errors.Is(err, pg.ErrUnsafeServer) && time.Now().Before(late); {
		<-time.After(10 * time.Millisecond)
		db, err = pg.Open(ctx, url, o)
	}
	if err == nil {
		db.SetAnswerTimeout(time.Minute)
	}
	return db, err
}

// open opens a database with its tables.
func open(t testing.TB, url string, o pg.Options) *pg.Database {
	t.Helper()
	db, err := openDatabase(t.Context(), url, o)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	require.NoError(t, db.Migrate(t.Context()))
	return db
}

// startServer starts a server of the test's own.
func startServer(t testing.TB, settings map[string]string) *servers.Postgres {
	t.Helper()
	servers.RequirePostgres(t)
	s, err := servers.StartPostgres(settings)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func textOf(n int) []byte { return bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n] }

// queryText returns the one text that a query yields.
func queryText(t testing.TB, url, sql string) (text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&text))
	return text
}
