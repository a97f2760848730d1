package pg_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/internal/testing/nodestrial"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/pg"
)

// Two nodes and their server are processes that are killed, nodes with their directory or without, or stopped, and what lies between them is cut,
// swallows or takes long. All that was acknowledged is there in the end, nothing of it twice, and when a fault is over somebody answers within half
// a minute, if the machine is not busy.
func TestNodesThroughFaults(t *testing.T) {
	f := nodestrial.Figures{Trials: 1, Decks: 1, Most: 5, Recovery: 2 * time.Minute}
	if os.Getenv("PAWL_TEST") == "release" { // 300 times SIGKILL of nodes, 100 kills and restarts of servers
		f = nodestrial.Figures{Trials: 5, Decks: 10, Most: 100, Recovery: 30 * time.Second}
	}
	nodestrial.Run(t, f, func(t *testing.T) nodestrial.Setting {
		server := startServer(t, nil)
		url := migrated(t, server.URL("postgres"))
		return nodestrial.Setting{
			Term: time.Second, Deck: deckOf(server),
			Links: func() ([]*servers.Relay, string) {
				link := servers.StartRelay(t, server.Port)
				return []*servers.Relay{link}, urlThrough(link, "postgres")
			},
			Open: func() (b cluster.Backend, err error) {
				db, err := openDatabase(t.Context(), url, pg.Options{})
				if err != nil {
					return b, err
				}
				t.Cleanup(db.Close)
				return db.OpenBackend(t.Context(), "orders")
			},
			CheckLog: func() { checkWriters(t, url) },
		}
	})
}

// connectNode connects a process that is a node.
func connectNode(ctx context.Context, address string) (b cluster.Backend, err error) {
	db, err := pg.Open(ctx, address, pg.Options{})
	if err != nil {
		return b, err
	}
	if b, err = db.OpenBackend(ctx, "orders"); err != nil {
		db.Close()
	}
	return b, err
}

// deckOf returns faults of nodes and their server: six kills of nodes, and two of the server among them.
func deckOf(server *servers.Postgres) []nodestrial.Fault {
	kill := nodestrial.Fault{Name: "kill the server", Harm: func(x *nodestrial.Trial) func() { return killServer(x, server) }}
	return slices.Concat(
		slices.Repeat([]nodestrial.Fault{nodestrial.KillNode}, 4),
		slices.Repeat([]nodestrial.Fault{nodestrial.LoseNode, kill}, 2),
		[]nodestrial.Fault{nodestrial.StopNode, nodestrial.CutNode, nodestrial.HalfOpenNode, nodestrial.SlowNode},
	)
}

// killServer ends the server in one of three ways: all its processes by SIGKILL, by an immediate shutdown, or in order. A deck has two of these at
// a time perhaps: the second one finds it dead.
func killServer(x *nodestrial.Trial, server *servers.Postgres) (heal func()) {
	if !x.MarkHarmed("server") {
		return func() {}
	}
	way := x.R.IntN(3)
	switch way {
	case 0:
		require.NoError(x.T, server.Kill())
	case 1:
		require.NoError(x.T, server.Signal(syscall.SIGQUIT))
	case 2:
		require.NoError(x.T, server.Shutdown())
	}
	x.CountFault("server: " + []string{"SIGKILL", "immediate shutdown", "restart"}[way])
	return func() { require.NoError(x.T, server.Start()) }
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

// urlThrough returns the address of a database behind a relay.
func urlThrough(link *servers.Relay, database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable&connect_timeout=2", link.Port, database)
}

// neverPing has a pool ask no connection whether it lives: a relay would hold the answer, and the statement would not be sent.
func neverPing(c *pgxpool.Config) {
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

// A Put that has inserted nothing asks for no deletion, and one that the server does not answer any more gives up to delete what
// it has inserted after the time of one answer, not of one for each part.
func TestPutsThatFailAtASilentServer(t *testing.T) {
	url := migrated(t, newDatabase(t))
	link := servers.StartRelay(t, shared.server.Port)
	name := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	var deletes deletesTracer
	var connects atomic.Int64
	db := open(t, urlThrough(link, name), pg.Options{Configure: func(c *pgxpool.Config) {
		neverPing(c)
		c.ConnConfig.Tracer = &deletes
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { connects.Add(1); return nil }
	}})
	b := openBlobs(t, db)
	deletes.count = 0
	_, _, err := b.Put(t.Context(), iotest.ErrReader(io.ErrClosedPipe))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Zero(t, deletes.count)

	before := int64(0)
	_, _, err = b.Put(t.Context(), io.MultiReader(bytes.NewReader(textOf(256<<10)), readerFunc(func([]byte) (int, error) {
		db.SetAnswerTimeout(time.Second)
		link.Set(servers.Link{In: true})
		before = connects.Load()
		return 0, io.ErrClosedPipe
	})))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Equal(t, 1, deletes.count)
	require.Equal(t, before, connects.Load(), "it tries again, with other connections")
	link.Set(servers.Link{Down: true})
}

// A deletesTracer counts the deletions that are asked for.
type deletesTracer struct{ count int }

// TraceQueryStart implements pgx.QueryTracer.
func (d *deletesTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(q.SQL, "DELETE") {
		d.count++
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*deletesTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// An answer of an append that was lost on its way leaves the entry in doubt, and it is there once when it is appended again; a link that is slow loses
// nothing.
func TestAnswersOfALogThatAreLost(t *testing.T) {
	url := migrated(t, newDatabase(t))
	link := servers.StartRelay(t, shared.server.Port)
	name := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	l := openLog(t, open(t, urlThrough(link, name), pg.Options{Configure: neverPing}), "lost")
	takeLog(t, l, "open")
	appendEntry(t, l, "1") // the connection knows the statement from then on
	link.Set(servers.Link{In: true})
	ended := make(chan error)
	go func() {
		_, err := l.Append(t.Context(), []byte("2"))
		ended <- err
	}()
	require.Eventually(t, func() bool { return queryText(t, url, `SELECT count(*)::text FROM pawl.entries`) == "3" }, time.Minute, time.Millisecond)
	link.Set(servers.Link{Down: true})
	require.Error(t, <-ended)
	_, err := l.Append(t.Context(), []byte("2"))
	require.Error(t, err)
	link.Set(servers.Link{Slow: 5 * time.Millisecond})
	require.Eventually(t, func() bool {
		_, err = l.Append(t.Context(), []byte("2"))
		return err == nil
	}, time.Minute, time.Millisecond)
	appendEntry(t, l, "3")
	requireEntries(t, l, "1 open", "2 1", "3 2", "4 3")
}
