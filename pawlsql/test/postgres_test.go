package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pawlsql"
	"github.com/pawl-run/pawl/pawlsql/pawlpgx"
	"github.com/pawl-run/pawl/workflow"
)

// A commit notifies whoever listens, so that nobody needs to poll; a transaction of pgx is one of the caller.
func TestNotifications(t *testing.T) {
	ctx := t.Context()
	d := openDatabase(t, pawlsql.PostgreSQL)
	b := d.outbox(t, func(o *pawlsql.Options) { o.Poll, o.Listen = time.Hour, pawlpgx.Listen(d.source) })
	e := &recorder{}
	run(t, b, e)
	conn, err := pgx.Connect(ctx, d.source)
	require.NoError(t, err)
	defer conn.Close(ctx)
	for i := range 3 {
		id := workflow.RunID(fmt.Sprint("r", i))
		tx, err := conn.Begin(ctx)
		require.NoError(t, err)
		n, err := pawlsql.Once(ctx, pawlpgx.In(b, tx), pawl.Task{EffectKey: "same"}, func(context.Context) (int, error) { return i + 1, nil })
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, pawlsql.Start(ctx, pawlpgx.In(b, tx), workflow.Run{ID: id, Workflow: "w"}, nil))
		require.NoError(t, pawlsql.Signal(ctx, pawlpgx.In(b, tx), id, workflow.Signal{Name: "s"}))
		require.NoError(t, tx.Commit(ctx))
		eventually(t, func() bool { return len(e.of(id)) == 2 })
	}
	// The server ends the connection that listens: another one is made, and nothing is missed.
	d.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"{}_calls\"%'")
	require.NoError(t, pawlsql.Start(ctx, b.In(d.db), workflow.Run{ID: "later", Workflow: "w"}, nil))
	eventually(t, func() bool { return len(e.of("later")) == 1 })
	// A call that another process retries is notified as well.
	d.exec(t, "INSERT INTO {}_calls (run, kind, body, state, created) VALUES ('again', 'cancel', '{ }', 1, 0)")
	other, err := pawlsql.New(d.db, d.kind, d.options())
	require.NoError(t, err)
	require.NoError(t, other.Retry(ctx, refused(t, other, 1)[0].ID))
	eventually(t, func() bool { return len(e.of("again")) == 1 })
	require.ErrorIs(t, pawlsql.Start(ctx, pawlpgx.In(b, nil), workflow.Run{ID: "r", Workflow: "w"}, nil), pawl.ErrInvalid)
}

// An error whose text the encoding of the database lacks is noted in ASCII, and holds up no other.
func TestMessagesOfOtherEncodings(t *testing.T) {
	d := openDatabase(t, pawlsql.PostgreSQL)
	d.exec(t, "CREATE DATABASE {}_latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	d.db = connect(t, d.driver, sharedPostgres(t).URL(d.prefix+"_latin")+"&client_encoding=UTF8")
	logger, silences := logSilences()
	b := d.outbox(t, func(o *pawlsql.Options) { o.Lease, o.Logger = longLease, logger })
	e := &recorder{answer: func(_ workflow.RunID, call string) error { return fmt.Errorf("%w: no %s", pawl.ErrInvalid, call) }}
	for i, name := range []string{"日本", "käse", "x"} {
		require.NoError(t, pawlsql.Start(t.Context(), b.In(d.db), workflow.Run{ID: workflow.RunID(fmt.Sprint(i)), Workflow: name}, nil))
	}
	began := time.Now()
	run(t, b, e)
	var messages []string
	for _, r := range refused(t, b, 3) {
		messages = append(messages, r.Message)
	}
	requireSooner(t, began, silences)
	require.Equal(t, []string{pawl.ErrInvalid.Error() + `: no start \u65e5\u672c<nil>`, pawl.ErrInvalid.Error() + ": no start käse<nil>", pawl.ErrInvalid.Error() + ": no start x<nil>"}, messages)
}

// Any name of a table that New takes may be notified: a channel has a shorter name than the longest of them.
func TestLongNames(t *testing.T) {
	d := openDatabase(t, pawlsql.PostgreSQL)
	schema := (d.prefix + strings.Repeat("s", 40))[:40]
	d.exec(t, "CREATE SCHEMA "+schema)
	b := d.outbox(t, func(o *pawlsql.Options) {
		o.Poll, o.Listen, o.Calls = time.Hour, pawlpgx.Listen(d.source), schema+"."+strings.Repeat("c", 40)
	})
	e := &recorder{}
	run(t, b, e)
	for i := range 3 {
		id := workflow.RunID(fmt.Sprint(i))
		require.NoError(t, pawlsql.Start(t.Context(), b.In(d.db), workflow.Run{ID: id, Workflow: "w"}, nil))
		eventually(t, func() bool { return len(e.of(id)) == 1 })
	}
}

// Calls may be written and taken over a pooler that gives a connection for each transaction.
func TestPooler(t *testing.T) {
	servers.RequirePgBouncer(t)
	d := openDatabase(t, pawlsql.PostgreSQL)
	p, err := servers.StartPgBouncer(sharedPostgres(t), "transaction")
	require.NoError(t, err)
	p.CloseAfter(t)
	// Prepared statements are of a connection, which the pooler changes.
	pooled := d
	pooled.db = connect(t, "pgx", p.URL("postgres")+"&default_query_exec_mode=exec")
	b := pooled.outbox(t, func(o *pawlsql.Options) { o.Poll, o.Listen = time.Hour, pawlpgx.Listen(d.source) })
	e := &recorder{}
	run(t, b, e)
	for i := range 20 {
		id := workflow.RunID(fmt.Sprint(i))
		pooled.in(t, i%2 == 0, func(tx *sql.Tx) error {
			return pawlsql.Start(t.Context(), b.In(tx), workflow.Run{ID: id, Workflow: "w"}, nil)
		})
	}
	eventually(t, func() bool { return pooled.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
	for i := range 20 {
		require.Len(t, e.of(workflow.RunID(fmt.Sprint(i))), 1-i%2)
	}
}

// Once works in transactions of any isolation: an attempt that cannot see the outcome of another fails, and is repeated.
func TestOnceIsolated(t *testing.T) {
	d := openDatabase(t, pawlsql.PostgreSQL)
	b := d.outbox(t)
	ctx := t.Context()
	for i, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		task := pawl.Task{EffectKey: fmt.Sprint("task", i)}
		early, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		var one int
		require.NoError(t, early.QueryRowContext(ctx, "SELECT 1").Scan(&one)) // its snapshot is from before
		d.in(t, true, func(tx *sql.Tx) error {
			_, err := pawlsql.Once(ctx, b.In(tx), task, func(context.Context) (int, error) { return 1, nil })
			return err
		})
		out, err := pawlsql.Once(ctx, b.In(early), task, func(context.Context) (int, error) { return 2, nil })
		if level == sql.LevelReadCommitted {
			require.NoError(t, err)
			require.Equal(t, 1, out)
		} else {
			require.Error(t, err)
		}
		require.NoError(t, early.Rollback())
	}
}

// BenchmarkCalls says how many calls a second a process takes: of transactions that have one start each, and have committed.
func BenchmarkCalls(b *testing.B) {
	d := openDatabase(b, pawlsql.PostgreSQL)
	ctx := b.Context()
	for _, real := range []bool{false, true} {
		b.Run(fmt.Sprint("engine=", real), func(b *testing.B) {
			box := d.outbox(b)
			var e pawlsql.Engine = &recorder{}
			if real {
				engine := openEngine(b, harness.Workspace(b), nil)
				_, err := engine.Publish(ctx, define(b, order))
				require.NoError(b, err)
				e = engine
			}
			tx, err := d.db.BeginTx(ctx, nil)
			require.NoError(b, err)
			for range b.N {
				require.NoError(b, pawlsql.Start(ctx, box.In(tx), workflow.Run{ID: pawl.NewRunID(), Workflow: "order"}, map[string]any{"item": "book", "count": 3}))
			}
			require.NoError(b, tx.Commit())
			b.ResetTimer()
			stop := run(b, box, e)
			for d.count(b, "SELECT COUNT(*) FROM {}_calls") > 0 {
				<-time.After(time.Millisecond)
			}
			b.StopTimer()
			stop()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
