package natstest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/serving"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/workflow"
)

// A pool waits before it tries again to remove the message of a cancelled task, also where the refusal comes at once.
func TestRemovalsThatFail(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	conn := connect(t, s.ClientURL())
	h := openEngine(t, conn, t.TempDir(), natspool.Options{})
	defer h.stop()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil))
	over := &overNATS{conn: conn}
	require.Eventually(t, func() bool { return over.queued(t) == 1 }, patience, 10*time.Millisecond) // else it is removed once more when it gets there
	listening := connect(t, s.ClientURL())
	notices, err := listening.SubscribeSync("pawl.tasks.drop") // one with each try
	require.NoError(t, err)
	require.NoError(t, listening.Flush())
	require.NoError(t, s.GlobalAccount().DisableJetStream())
	begun := time.Now()
	require.NoError(t, h.engine.Cancel(t.Context(), "r", "enough"))
	const tries = 4
	for range tries {
		_, err := notices.NextMsg(time.Minute)
		require.NoError(t, err)
	}
	require.Greater(t, time.Since(begun), (tries-2)*500*time.Millisecond)
}

// A worker that finds nothing asks with one request at a time, which waits for seconds, and warns nobody.
func TestAWorkerThatFindsNothing(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	conn := connect(t, url)
	h := openEngine(t, conn, t.TempDir(), natspool.Options{Types: map[string]int{"work": 1}})
	defer h.stop()
	requests, err := connect(t, url).SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.PAWL_tasks.work")
	require.NoError(t, err)
	warnings, begun := make(told, 100), time.Now()
	stop := work(t, &natspool.Worker{Conn: conn, Logger: slog.New(slog.NewTextHandler(warnings, nil))}, pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return 1, nil
	}})
	out, err := h.engine.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil)
	require.NoError(t, err)
	require.NoError(t, out.Err())
	var waits []time.Duration
	var came time.Duration
	for range 4 { // with the task, for seconds, and again
		m, err := requests.NextMsg(patience)
		require.NoError(t, err)
		came = time.Since(begun)
		var request struct{ Expires time.Duration }
		require.NoError(t, json.Unmarshal(m.Data, &request))
		waits = append(waits, request.Expires)
	}
	var waited time.Duration // of those before the last, but for the one with the task, which may be any
	for _, d := range waits[:3] {
		waited += d
	}
	waited -= slices.Max(waits[:3])
	require.GreaterOrEqual(t, came+100*time.Millisecond, waited, "one comes before the one before it has expired: %v", waits)
	slices.Sort(waits[1:])
	require.GreaterOrEqual(t, waits[2], 3*time.Second, "they ask again too soon")
	stop()
	for len(warnings) > 0 {
		require.Contains(t, <-warnings, "deadline exceeded") // on a busy machine
	}
}

// A dialer calls arrived before a client reads a text for the first time.
type dialer struct {
	text    []byte
	arrived func()
}

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return &watchedConn{conn, d}, err
}

type watchedConn struct {
	net.Conn
	by *dialer
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if bytes.Contains(p[:n], c.by.text) {
		c.by.arrived()
	}
	return n, err
}

// A task that was published before, perhaps by another pool, may come once more when its result is committed: its worker asks, and does
// not execute it again.
func TestACopyOfATaskThatIsDone(t *testing.T) {
	conn, dir := connect(t, startServer(t).ClientURL()), t.TempDir()
	h := openEngine(t, conn, dir, natspool.Options{})
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil))
	js, err := newJetStream(conn)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "PAWL_tasks")
	require.NoError(t, err)
	published := func() (text *jetstream.RawStreamMsg) {
		require.Eventually(t, func() bool {
			text, err = stream.GetLastMsgForSubject(t.Context(), "pawl.tasks.task.work.*.*")
			return err == nil
		}, time.Minute, 10*time.Millisecond)
		return text
	}
	published()
	h.stop()
	require.NoError(t, stream.Purge(t.Context()))
	h = openEngine(t, conn, dir, natspool.Options{})
	defer h.stop()
	text := published() // of the second pool
	calls := make(chan pawl.Key, 2)
	defer work(t, &natspool.Worker{Conn: conn}, pawl.Handlers{"work": func(_ context.Context, t pawl.Task) (any, error) {
		calls <- t.Key
		return 1, nil
	}})()
	_, err = h.engine.Wait(t.Context(), "r")
	require.NoError(t, err)
	empty := func() bool {
		about, err := stream.Info(t.Context())
		return err == nil && about.State.Msgs == 0
	}
	require.Eventually(t, empty, time.Minute, time.Millisecond)
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: text.Subject, Header: text.Header, Data: text.Data})
	require.NoError(t, err)
	require.Eventually(t, empty, time.Minute, time.Millisecond)
	require.Len(t, calls, 1)
}

// A task that comes to a worker as it ends goes back at once, and not after its lease.
func TestATaskThatComesAsItsWorkerEnds(t *testing.T) {
	url := startServer(t).ClientURL()
	conn := connect(t, url)
	h := openEngine(t, conn, t.TempDir(), natspool.Options{Lease: time.Hour})
	defer h.stop()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil))
	over := &overNATS{conn: conn}
	require.Eventually(t, func() bool { return over.queued(t) == 1 }, time.Minute, 10*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	ending, err := nats.Connect(url, nats.Timeout(time.Minute), nats.SetCustomDialer(&dialer{[]byte("1h0m0s"), cancel}))
	require.NoError(t, err)
	defer ending.Close()
	require.NoError(t, (&natspool.Worker{Conn: ending}).Run(ctx, pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return "too late", nil
	}}))
	defer work(t, &natspool.Worker{Conn: conn}, pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return "in time", nil }})()
	soon, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, err := h.engine.Wait(soon, "r")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": "in time"}, out.Output)
}

// An attempt of an engine that closes leaves its message for the next engine, also if that is on its way into the stream: it is
// not removed, and nobody is told to drop it.
func TestAMessageThatIsOnItsWayAsTheEngineCloses(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	near := connect(t, url)
	notices, err := near.SubscribeSync("pawl.tasks.drop")
	require.NoError(t, err)
	require.NoError(t, near.Flush())
	var pool *natspool.Pool
	arrived, pass := make(chan bool, 1), make(chan bool)
	answer := &dialer{[]byte(`"stream":"PAWL_tasks","seq":2}`), func() { arrived <- true; <-pass }}
	conn, err := nats.Connect(url, nats.Timeout(time.Minute), nats.SetCustomDialer(answer))
	require.NoError(t, err)
	defer conn.Close()
	again(t, func() (err error) { pool, err = natspool.New(t.Context(), conn, natspool.Options{}); return err })
	defer func() { require.NoError(t, pool.Close(context.Background())) }()
	over := &overNATS{conn: near}
	execute := func(key pawl.Key) context.CancelCauseFunc {
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := pool.Execute(ctx, pawl.Task{Key: key, Type: "work"})
		require.ErrorIs(t, err, pawl.ErrPending)
		return cancel
	}
	awaitQueued := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return over.queued(t) == n }, time.Minute, time.Millisecond)
	}
	defer execute("k1")(pawl.ErrClosed)
	awaitQueued(1)
	closeEngine := execute("k2")
	<-arrived // the stream has it, and the pool does not know that yet
	closeEngine(pawl.ErrClosed)
	end := execute("k3") // it comes behind, as its removal does
	close(pass)
	awaitQueued(3)
	end(nil)
	m, err := notices.NextMsg(time.Minute)
	require.NoError(t, err)
	require.JSONEq(t, `{"key": "k3"}`, string(m.Data))
	awaitQueued(2)
}

// A pool whose connection is back before JetStream is tries again, and publishes soon what the stream has lost.
func TestAStreamThatComesBackLaterThanItsServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := servers.StartRelay(t, s.Addr().(*net.TCPAddr).Port)
	warnings := make(told, 1000)
	h := openEngine(t, connect(t, natsURL(r.Port)), t.TempDir(), natspool.Options{Republish: time.Hour, Logger: slog.New(slog.NewTextHandler(warnings, nil))})
	defer h.stop()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil))
	over := &overNATS{conn: connect(t, s.ClientURL())}
	require.Eventually(t, func() bool { return over.queued(t) == 1 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, s.GlobalAccount().DisableJetStream())
	r.Cut()
	for !strings.Contains(<-warnings, "the stream cannot be had") {
	}
	require.NoError(t, s.GlobalAccount().EnableJetStream(nil, nil))
	defer work(t, &natspool.Worker{Conn: connect(t, s.ClientURL())}, pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return 1, nil }})()
	soon, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	_, err := h.engine.Wait(soon, "r")
	require.NoError(t, err)
}

// A doubtful engine cannot always tell whether it has its log.
type doubtful struct {
	serving.Host
	err atomic.Pointer[error]
}

func (d *doubtful) ConfirmLog(context.Context) error { return *d.err.Load() }

// A pool whose engine may have lost its log does not know who holds a task now: it has another worker ask again.
func TestAPoolRefusesNobodyWhileItsLogIsInDoubt(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	pool, err := natspool.New(t.Context(), conn, natspool.Options{})
	require.NoError(t, err)
	engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Executor: pool})
	require.NoError(t, err)
	pool.Attach(engine)
	host := &doubtful{Host: serving.Of(t.Context())}
	_, err = pool.Execute(serving.With(t.Context(), host), pawl.Task{Key: "k1", Type: "work"})
	require.ErrorIs(t, err, pawl.ErrPending)
	ask := func(what, text string) string {
		answer, err := conn.Request("pawl.tasks."+what, []byte(text), time.Minute)
		require.NoError(t, err)
		return string(answer.Data)
	}
	require.Contains(t, ask("beat", `{"worker": "ann", "key": "k1", "claim": true}`), `"taken"`)
	for _, c := range []struct {
		err  error
		want string
	}{{pawl.ErrFenced, `"busy"`}, {nil, `"other"`}} {
		host.err.Store(&c.err)
		require.Contains(t, ask("beat", `{"worker": "bob", "key": "k1"}`), c.want)
		require.Contains(t, ask("once", `{"worker": "bob", "key": "k1", "turn": "t", "once": "order"}`), c.want)
	}
	require.NoError(t, pool.Close(context.Background()))
	require.NoError(t, engine.Close(context.Background()))
}
