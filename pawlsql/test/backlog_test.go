package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pawlsql"
	"github.com/pawl-run/pawl/workflow"
)

// fill writes signals of a run by hand, many at a time.
func (d database) fill(t testing.TB, run string, calls int) {
	t.Helper()
	const atOnce = 500
	row := fmt.Sprintf(`, ('%s', 'signal', '{"name":"s"}', 1)`, run)
	for range calls / atOnce {
		d.exec(t, "INSERT INTO {}_calls (run, kind, body, created) VALUES "+strings.Repeat(row, atOnce)[1:])
	}
}

// analyze makes the statistics that the planner of a database goes by.
func (d database) analyze(t testing.TB) {
	t.Helper()
	words := map[pawlsql.Dialect]string{pawlsql.SQLite: "ANALYZE", pawlsql.PostgreSQL: "ANALYZE {}_calls", pawlsql.MySQL: "ANALYZE TABLE {}_calls"}
	rows, err := d.db.QueryContext(t.Context(), d.text(words[d.kind]))
	require.NoError(t, err)
	require.NoError(t, rows.Close())
}

// The long backlog of a run which waits keeps no other waiting, whether the statistics of the database know it or not, and those of others.
func TestLongBacklogs(t *testing.T) {
	forEachOf(t, harness.SampleOfDay(t, harness.Figure(3, 3, 1), kinds), func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		e := &recorder{answer: func(id workflow.RunID, _ string) error {
			if id == "full" {
				return &workflow.LimitError{Limit: "signals", Max: 1}
			}
			return nil
		}}
		for i := range 2 {
			d.fill(t, "full", 20_000)
			if i > 0 {
				d.analyze(t)
			}
			stop := run(t, b, e)
			for k := range 300 {
				require.NoError(t, pawlsql.Start(ctx, b.In(d.db), workflow.Run{ID: workflow.RunID(fmt.Sprint(i, " ", k)), Workflow: "w"}, nil))
			}
			eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls WHERE run <> 'full'") == 0 })
			stop()
		}
		require.Empty(t, e.of("full"))
	})
}

// countReads returns how many rows were read so far, and entries of indexes: of the table of calls by connections that are
// closed, or, by MySQL, by all.
func (d database) countReads(t testing.TB) int {
	t.Helper()
	if d.kind == pawlsql.PostgreSQL {
		return d.count(t, `SELECT CAST(seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid) AS bigint)
			FROM pg_stat_user_tables t WHERE relname = '{}_calls'`)
	}
	return d.count(t, `SELECT CAST(SUM(variable_value) AS SIGNED) FROM information_schema.global_status WHERE variable_name LIKE 'Handler_read_%'`)
}

// A backlog costs some reads for each of its calls: a round does not read all that are left.
func TestReadsOfBacklogs(t *testing.T) {
	for _, kind := range harness.SampleOfDay(t, harness.Figure(2, 2, 1), []pawlsql.Dialect{pawlsql.PostgreSQL, pawlsql.MySQL}) {
		t.Run(string(kind), func(t *testing.T) {
			d := openDatabase(t, kind)
			d.outbox(t)
			const runs, each = 80, 600
			var rows strings.Builder // those of all runs, one behind the other
			for i := range 6 * runs {
				fmt.Fprintf(&rows, `, ('r%d', 'signal', '{"name":"s"}', 1)`, i%runs)
			}
			for range each / 6 {
				d.exec(t, "INSERT INTO {}_calls (run, kind, body, created) VALUES "+rows.String()[1:])
			}
			d.analyze(t)
			source := d.source
			if kind == pawlsql.PostgreSQL {
				source += "&application_name=reader"
			}
			db, err := sql.Open(d.driver, source)
			require.NoError(t, err)
			b, err := pawlsql.New(db, kind, d.options())
			require.NoError(t, err)
			var made atomic.Int64
			all := make(chan struct{})
			before := d.countReads(t)
			stop := run(t, b, &recorder{during: func(context.Context, workflow.RunID) {
				if made.Add(1) == runs*each {
					close(all)
				}
			}})
			<-all
			stop()
			require.NoError(t, db.Close())
			if kind == pawlsql.PostgreSQL { // a connection tells what it has read at its end
				eventually(t, func() bool {
					return d.count(t, `SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'reader'`) == 0
				})
			}
			reads := d.countReads(t) - before
			t.Logf("%d reads for %d calls", reads, runs*each)
			require.Less(t, reads, 20*runs*each)
		})
	}
}

// A looksTracer counts the looks for calls: at the first ones, and at all of them.
type looksTracer struct {
	first chan struct{}
	all   atomic.Int64
}

// TraceQueryStart implements pgx.QueryTracer.
func (l *looksTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	switch {
	case !strings.Contains(q.SQL, "SELECT DISTINCT"):
	case strings.Contains(q.SQL, "ORDER BY id LIMIT"):
		select {
		case l.first <- struct{}{}:
		case <-ctx.Done():
		}
	case !strings.Contains(q.SQL, "ORDER BY id DESC LIMIT"):
		l.all.Add(1)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*looksTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// As long as the calls that are due are of runs that wait, it looks at all of them more and more seldom, however often it is
// woken, and calls of other runs are made all the same, wherever they are.
func TestBacklogsThatWait(t *testing.T) {
	d := openDatabase(t, pawlsql.PostgreSQL)
	direct := d.outbox(t)
	config, err := pgx.ParseConfig(d.source)
	require.NoError(t, err)
	looks := &looksTracer{first: make(chan struct{})}
	config.Tracer = looks
	db := stdlib.OpenDB(*config)
	defer func() { require.NoError(t, db.Close()) }()
	o := d.options()
	var failures *wordCounter
	o.Logger, failures = logLines("calls of transactions wait")
	b, err := pawlsql.New(db, d.kind, o)
	require.NoError(t, err)
	wait := func(run string) { // for a thousand years
		d.exec(t, "INSERT INTO {}_calls (run, kind, body, created, due) VALUES ('"+run+`', 'start', '{"workflow":"w"}', 1, 33000000000000000)`)
	}
	wait("full")
	d.fill(t, "full", 2000)
	e := new(recorder)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- b.Run(ctx, e) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	const rounds = 300
	for range rounds {
		<-looks.first
		b.Wake()
	}
	most := 9*(1+failures.count.Load()) + int64(time.Since(begun)/(5*time.Second)) // it begins anew after an error
	require.LessOrEqual(t, looks.all.Load(), most, "%d rounds", rounds)
	lookOn := make(chan struct{})
	defer close(lookOn)
	go func() {
		for {
			select {
			case <-looks.first:
			case <-lookOn:
				return
			}
		}
	}()
	start := func(id workflow.RunID) {
		require.NoError(t, pawlsql.Start(t.Context(), direct.In(d.db), workflow.Run{ID: id, Workflow: "w"}, nil))
	}
	start("last")
	eventually(t, func() bool { return len(e.of("last")) == 1 })
	wait("amid")
	wait("other")
	d.fill(t, "other", 2000)
	d.exec(t, "UPDATE {}_calls SET due = 0 WHERE run = 'amid'")
	eventually(t, func() bool { return len(e.of("amid")) == 1 })
}

// Many large calls are read some at a time: the rest of them does not come over the network.
func TestLargeBacklogs(t *testing.T) {
	d := openDatabase(t, pawlsql.PostgreSQL)
	d.outbox(t)
	d.exec(t, `INSERT INTO {}_calls (run, kind, body, created) SELECT 'r' || n, 'start', '{"workflow":"w","input":{"a":"' || repeat('a', 1000000) || '"}}', 1 FROM generate_series(1, 120) n`)
	config, err := pgx.ParseConfig(d.source)
	require.NoError(t, err)
	var read atomic.Int64
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return countedConn{conn, &read}, err
	}
	db := stdlib.OpenDB(*config)
	defer func() { require.NoError(t, db.Close()) }()
	b, err := pawlsql.New(db, d.kind, d.options())
	require.NoError(t, err)
	require.ErrorIs(t, b.Run(t.Context(), &recorder{answer: func(workflow.RunID, string) error { return pawl.ErrClosed }}), pawl.ErrClosed)
	require.Greater(t, read.Load(), int64(32<<20))
	require.Less(t, read.Load(), int64(100<<20))

	e := new(recorder)
	run(t, b, e)
	eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
	require.Len(t, e.of("r120"), 1)
}

// A countedConn counts the bytes that are read.
type countedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// Calls are made, and go, also if the database is so far off that the lease has run out when they were read.
func TestDatabasesFarOff(t *testing.T) {
	d := openDatabase(t, pawlsql.PostgreSQL)
	near := d.outbox(t)
	link := servers.StartRelay(t, sharedPostgres(t).Port)
	link.Set(servers.Link{Slow: 30 * time.Millisecond})
	o := d.options()
	o.Lease = 100 * time.Millisecond
	b, err := pawlsql.New(connect(t, d.driver, fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", link.Port)), d.kind, o)
	require.NoError(t, err)
	require.NoError(t, pawlsql.Start(t.Context(), near.In(d.db), workflow.Run{ID: "r", Workflow: "w"}, nil))
	e := new(recorder)
	run(t, b, e)
	eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
	require.NotEmpty(t, e.of("r"))
}

// A call that has to wait, because the engine is busy or because its process has died, is made when its time comes, however long Poll is.
func TestPausesWithoutPolls(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		b := d.outbox(t, func(o *pawlsql.Options) { o.Poll = time.Hour })
		require.NoError(t, pawlsql.Start(t.Context(), b.In(d.db), workflow.Run{ID: "leased", Workflow: "w"}, nil))
		d.exec(t, "UPDATE {}_calls SET taker = 'dead', due = created + 2000000")
		require.NoError(t, pawlsql.Start(t.Context(), b.In(d.db), workflow.Run{ID: "busy", Workflow: "w"}, nil))
		times := 0
		e := &recorder{answer: func(id workflow.RunID, _ string) error {
			if times++; id == "busy" && times < 3 {
				return &pawl.TenantBusyError{Tenant: "t", Active: 1, Max: 1}
			}
			return nil
		}}
		run(t, b, e)
		eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
		require.Len(t, e.of("leased"), 1)
		require.Len(t, e.of("busy"), 1)
	})
}

// A pauseTracer holds the first look for calls that wait on its way to the database.
type pauseTracer struct {
	once sync.Once
	hold func()
}

// TraceQueryStart implements pgx.QueryTracer.
func (p *pauseTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "MIN(due)") {
		p.once.Do(p.hold)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*pauseTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A call that becomes due behind the look for heads, while the look for calls that wait is on its way, is made as well, however
// long Poll is.
func TestCallsThatBecomeDueBetweenLooks(t *testing.T) {
	d := openDatabase(t, pawlsql.PostgreSQL)
	direct := d.outbox(t)
	require.NoError(t, pawlsql.Start(t.Context(), direct.In(d.db), workflow.Run{ID: "r", Workflow: "w"}, nil))
	d.exec(t, "UPDATE {}_calls SET due = 33000000000000000") // in a thousand years
	config, err := pgx.ParseConfig(d.source)
	require.NoError(t, err)
	config.Tracer = &pauseTracer{hold: func() {
		d.exec(t, "UPDATE {}_calls SET due = CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)")
		d.exec(t, "SELECT pg_sleep(1)")
	}}
	db := stdlib.OpenDB(*config)
	defer func() { require.NoError(t, db.Close()) }()
	o := d.options()
	o.Poll = time.Hour
	b, err := pawlsql.New(db, d.kind, o)
	require.NoError(t, err)
	e := new(recorder)
	stop := run(t, b, e)
	eventually(t, func() bool { return len(e.of("r")) == 1 })
	stop()
}

// Calls that Start and Signal have taken are within the bounds of a row, whatever their characters are.
func TestTextsOfAnyCharacters(t *testing.T) {
	d := openDatabase(t, pawlsql.SQLite)
	b := d.outbox(t)
	got := map[workflow.RunID]any{}
	want := map[workflow.RunID]any{}
	tx := b.In(d.db)
	for id, text := range map[workflow.RunID]string{
		"long": strings.Repeat("日é😀<", 900<<10), // 9 MiB, and 27 as ASCII
		"odd":  "\u2028 \" \\ \x01\x7f\x00 \\u00e9 \\\\u00e9 \ufffd > & \t \\ud83d \\",
	} {
		want[id] = map[string]any{"a": text}
		require.NoError(t, pawlsql.Start(t.Context(), tx, workflow.Run{ID: id, Workflow: "w"}, want[id]))
	}
	def := &workflow.Definition{Name: "w", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t"}}}
	def.Input.Schema = map[string]any{"description": strings.Repeat("日<", 200<<10)}
	require.NoError(t, pawlsql.Start(t.Context(), tx, workflow.Run{ID: "def", Definition: def}, nil))
	want["def"] = def.Input.Schema
	e := &taker{take: func(run workflow.Run, input any) {
		if got[run.ID] = input; run.Definition != nil {
			got[run.ID] = run.Definition.Input.Schema
		}
	}}
	stop := run(t, b, e)
	eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls WHERE state = 0") == 0 })
	stop()
	for r, err := range b.Refused(t.Context()) {
		require.NoError(t, err)
		require.Fail(t, "it is refused", "%s: %s", r.Run, r.Message)
	}
	for id := range want {
		require.True(t, assert.ObjectsAreEqual(want[id], got[id]), id)
	}
}

// A taker is an engine that hands on what it is to start.
type taker struct {
	mu   sync.Mutex
	take func(run workflow.Run, input any)
}

func (k *taker) Start(_ context.Context, run workflow.Run, input any) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.take(run, input)
	return nil
}

func (k *taker) Do(context.Context, workflow.RunID, pawl.Act) error {
	return errors.New("nothing is to be done")
}
