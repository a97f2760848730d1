package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pawlsql"
	"github.com/pawl-run/pawl/workflow"
)

// TestMain runs the tests, or is the host that a test kills.
func TestMain(m *testing.M) {
	if order := os.Getenv(hostVariable); order != "" {
		if err := asHost(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	for _, stop := range started.all {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// started are the servers that the tests share.
var started struct {
	mu       sync.Mutex
	all      []func() error
	postgres *servers.Postgres
	mariadb  *servers.MariaDB
}

// sharedPostgres returns a server that no test harms.
func sharedPostgres(t testing.TB) *servers.Postgres {
	t.Helper()
	servers.RequirePostgres(t)
	started.mu.Lock()
	defer started.mu.Unlock()
	if started.postgres == nil {
		s, err := servers.StartPostgres(nil)
		require.NoError(t, err)
		started.postgres, started.all = s, append(started.all, s.Close)
	}
	return started.postgres
}

// sharedMariaDB returns a server that no test harms.
func sharedMariaDB(t testing.TB) *servers.MariaDB {
	t.Helper()
	servers.RequireMariaDB(t)
	started.mu.Lock()
	defer started.mu.Unlock()
	if started.mariadb == nil {
		s, err := servers.StartMariaDB()
		require.NoError(t, err)
		started.mariadb, started.all = s, append(started.all, s.Close)
	}
	return started.mariadb
}

// A database is one that a test has, of a kind.
type database struct {
	kind   pawlsql.Dialect
	driver string
	source string
	db     *sql.DB
	prefix string // of names of tables that the test may use
}

var prefixes atomic.Int64

// forEach runs a test on each kind of database.
func forEach(t *testing.T, test func(t *testing.T, d database)) {
	forEachOf(t, kinds, test)
}

// kinds are all kinds of databases.
var kinds = []pawlsql.Dialect{pawlsql.SQLite, pawlsql.PostgreSQL, pawlsql.MySQL}

// forEachOf runs a test on some kinds of databases.
func forEachOf(t *testing.T, some []pawlsql.Dialect, test func(t *testing.T, d database)) {
	for _, kind := range some {
		t.Run(string(kind), func(t *testing.T) { test(t, openDatabase(t, kind)) })
	}
}

func openDatabase(t testing.TB, kind pawlsql.Dialect) database {
	t.Helper()
	d := database{kind: kind, prefix: fmt.Sprintf("t%d", prefixes.Add(1))}
	switch kind {
	case pawlsql.SQLite:
		d.driver, d.source = "sqlite", sqliteSource(filepath.Join(harness.Workspace(t), "host.db"))
	case pawlsql.PostgreSQL:
		d.driver, d.source = "pgx", sharedPostgres(t).URL("postgres")
	case pawlsql.MySQL:
		d.driver, d.source = "mysql", sharedMariaDB(t).DSN("test")
	}
	d.db = connect(t, d.driver, d.source)
	return d
}

func sqliteSource(path string) string {
	return "file:" + path + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_txlock=immediate"
}

func connect(t testing.TB, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// exec executes a statement in whose text {} is the prefix.
func (d database) exec(t testing.TB, statement string) {
	t.Helper()
	_, err := d.db.ExecContext(t.Context(), d.text(statement))
	require.NoError(t, err)
}

func (d database) text(statement string) string { return replaceAll(statement, "{}", d.prefix) }

// count returns the number that a statement selects.
func (d database) count(t testing.TB, statement string) (n int) {
	t.Helper()
	require.NoError(t, d.db.QueryRowContext(t.Context(), d.text(statement)).Scan(&n))
	return n
}

// options are those of an outbox in the tables of a test.
func (d database) options() pawlsql.Options {
	return pawlsql.Options{Calls: d.prefix + "_calls", Effects: d.prefix + "_effects", Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
}

// outbox returns an outbox whose tables are there.
func (d database) outbox(t testing.TB, change ...func(*pawlsql.Options)) *pawlsql.Outbox {
	t.Helper()
	o := d.options()
	for _, f := range change {
		f(&o)
	}
	b, err := pawlsql.New(d.db, d.kind, o)
	require.NoError(t, err)
	require.NoError(t, b.Migrate(t.Context()))
	return b
}

// in calls f in a transaction, which is rolled back if f fails, and if it is not to commit.
func (d database) in(t testing.TB, commit bool, f func(tx *sql.Tx) error) {
	t.Helper()
	tx, err := d.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	err = f(tx)
	if err == nil && commit {
		require.NoError(t, tx.Commit())
		return
	}
	require.NoError(t, tx.Rollback())
	require.NoError(t, err)
}

// run runs an outbox until the test ends, or the function that it returns is called.
func run(t testing.TB, b *pawlsql.Outbox, e pawlsql.Engine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx, e) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

func openEngine(t testing.TB, dir string, h pawl.Handlers) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(context.Background(), dir, pawl.Options{Executor: h, Durability: pawl.ProcessCrash, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e
}

func define(t testing.TB, yaml string) *workflow.Definition {
	t.Helper()
	def, err := workflow.ParseYAML([]byte(yaml))
	require.NoError(t, err)
	return def
}

// eventually waits until a condition holds, which is asked for again and again.
func eventually(t testing.TB, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 5*time.Minute, 5*time.Millisecond)
}

// longLease is that of tests where nobody is to wait for it. It is shorter than eventually waits: where the database did not
// answer in time, so that nobody could end the lease, it ends by itself.
const longLease = 3 * time.Minute

// requireSooner requires that it did not take longLease, unless the database did not answer meanwhile.
func requireSooner(t testing.TB, began time.Time, silences *wordCounter) {
	t.Helper()
	require.True(t, time.Since(began) < longLease || silences.count.Load() > 0, "a lease was waited for")
}

// A wordCounter counts the lines of a log that have a text.
type wordCounter struct {
	text  string
	count atomic.Int64
}

// logSilences returns a log, and what counts the times there that a database did not answer.
func logSilences() (*slog.Logger, *wordCounter) { return logLines("the database does not answer") }

// logLines returns a log, and what counts its lines that have a text.
func logLines(text string) (*slog.Logger, *wordCounter) {
	c := &wordCounter{text: text}
	return slog.New(slog.NewTextHandler(c, nil)), c
}

func (c *wordCounter) Write(line []byte) (int, error) {
	if strings.Contains(string(line), c.text) {
		c.count.Add(1)
	}
	return len(line), nil
}
