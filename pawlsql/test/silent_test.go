package sqltest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pawlsql"
	"github.com/pawl-run/pawl/workflow"
)

// A link whose answers do not come any more, and which nobody closes, does not keep Run for good, wherever it is: it tells the logger, and makes
// the calls that have committed when a connection answers again.
func TestLinksThatAreHalfOpen(t *testing.T) {
	for _, kind := range []pawlsql.Dialect{pawlsql.PostgreSQL, pawlsql.MySQL} {
		for point, says := range map[string]string{
			"":              "wait\" error=\"the database does not answer", // before all
			"calls.found":   "lease calls: the database does not answer",
			"calls.claimed": "the database does not answer: read calls",
			"calls.made":    "delete calls that were made",
			"calls.deleted": "look for calls: the database does not answer",
		} {
			if kind == pawlsql.MySQL && point != "calls.deleted" { // one of them says what its driver does
				continue
			}
			d := openDatabase(t, kind)
			t.Run(fmt.Sprint(kind, " ", point), func(t *testing.T) {
				t.Parallel() // they wait most of the time
				testHalfOpenLink(t, d, point, says)
			})
		}
	}
}

// relayed returns the same database behind a relay.
func (d database) relayed(t *testing.T) (through database, link *servers.Relay) {
	through = d
	if d.kind == pawlsql.PostgreSQL {
		link = servers.StartRelay(t, sharedPostgres(t).Port)
		through.source = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", link.Port)
	} else {
		link = servers.StartRelay(t, sharedMariaDB(t).Port)
		through.source = fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", link.Port)
	}
	through.db = connect(t, d.driver, through.source)
	return through, link
}

// testHalfOpenLink holds the answers from a failpoint on, and expects a line of the log.
func testHalfOpenLink(t *testing.T, d database, point, says string) {
	d.outbox(t)
	through, link := d.relayed(t)
	logged := make(firstLine, 1)
	options := d.options()
	options.Lease, options.Logger = time.Second, slog.New(slog.NewTextHandler(logged, nil))
	b, err := pawlsql.New(through.db, d.kind, options)
	require.NoError(t, err)

	hold := sync.OnceFunc(func() { link.Set(servers.Link{In: true}) })
	hook := &testhook.Hook{}
	hook.OnHit(func(at string) {
		if at == point {
			hold()
		}
	})
	if point == "" {
		hold()
	}
	e := &recorder{}
	ctx, cancel := context.WithCancel(testhook.With(context.Background(), hook))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx, e) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	direct, err := pawlsql.New(d.db, d.kind, options)
	require.NoError(t, err)
	start := func(id workflow.RunID) {
		require.NoError(t, pawlsql.Start(t.Context(), direct.In(d.db), workflow.Run{ID: id, Workflow: "w"}, nil))
	}
	start("first")
	select {
	case line := <-logged:
		require.Contains(t, line, "calls of transactions wait")
		require.Contains(t, line, says)
	case <-time.After(40 * time.Second):
		require.Fail(t, "nothing is logged")
	}
	start("later")
	link.Set(servers.Link{Down: true}) // what it holds is lost
	link.Set(servers.Link{})
	eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
	require.NotEmpty(t, e.of("first"))
	require.Equal(t, []string{"start w<nil>"}, e.of("later"))
}

// Calls whose lease was taken, but not heard of, are made at once, and not when it has run out.
func TestLeasesWhoseAnswersAreLost(t *testing.T) {
	d := openDatabase(t, pawlsql.PostgreSQL)
	direct := d.outbox(t)
	start := func(id workflow.RunID) {
		require.NoError(t, pawlsql.Start(t.Context(), direct.In(d.db), workflow.Run{ID: id, Workflow: "w"}, nil))
	}
	through, link := d.relayed(t)
	config, err := pgx.ParseConfig(through.source)
	require.NoError(t, err)
	// No ping before a statement: its answer would be held, and the statement not sent.
	db := stdlib.OpenDB(*config, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false }))
	defer func() { require.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1) // which knows the statements after the first call
	options := d.options()
	logger, silences := logSilences()
	options.Lease, options.Logger = longLease, logger
	b, err := pawlsql.New(db, d.kind, options)
	require.NoError(t, err)
	var second atomic.Bool // the first is done
	held := make(chan struct{})
	hold := sync.OnceFunc(func() {
		link.Set(servers.Link{In: true})
		close(held)
	})
	hook := &testhook.Hook{}
	hook.OnHit(func(at string) {
		if at == "calls.found" && second.Load() {
			hold()
		}
	})
	start("first")
	e := &recorder{}
	ctx, cancel := context.WithCancel(testhook.With(context.Background(), hook))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx, e) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
	began := time.Now()
	second.Store(true)
	start("second")
	<-held
	eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls WHERE taker <> ''") == 1 })
	link.Cut()
	link.Set(servers.Link{})
	eventually(t, func() bool { return d.count(t, "SELECT COUNT(*) FROM {}_calls") == 0 })
	require.Equal(t, []string{"start w<nil>"}, e.of("second"))
	requireSooner(t, began, silences)
}

// A firstLine keeps the first line of a log.
type firstLine chan string

func (c firstLine) Write(line []byte) (int, error) {
	select {
	case c <- string(line):
	default:
	}
	return len(line), nil
}
