package natstest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/serving"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/workflow"
)

// A brokenStream stands for a JetStream that has the stream of tasks, until it is deleted and made anew: what real servers come to only rarely,
// if several are started anew within seconds.
type brokenStream struct {
	t         *testing.T
	conn      *nats.Conn // of the pool
	published chan string

	mu         sync.Mutex
	replicas   int
	leaderless func(asked time.Duration) bool // by the time since it was asked first
	consumer   string                         // what is wrong with its consumers
	asked      time.Time                      // first
	deleted    time.Time
	created    time.Time
	sequence   uint64
}

// Answers of servers.
const (
	noLeader   = `{"error": {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}}`
	noStream   = `{"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}`
	noConsumer = `{"error": {"code": 404, "err_code": 10014, "description": "consumer not found"}}`
)

// startBroken starts a server whose JetStream is the test.
func startBroken(t *testing.T, b *brokenStream) {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(time.Minute))
	b.t, b.conn, b.created, b.published = t, connect(t, s.ClientURL()), time.Now(), make(chan string, 1000)
	servers := connect(t, s.ClientURL())
	for subject, answer := range map[string]func(*nats.Msg) string{
		"$JS.API.STREAM.>": b.answerStream, "$JS.API.CONSUMER.>": b.answerConsumer, "pawl.tasks.task.>": b.takeTask,
	} {
		_, err = servers.Subscribe(subject, func(m *nats.Msg) {
			if err := m.Respond([]byte(answer(m))); err != nil {
				t.Error(err)
			}
		})
		require.NoError(t, err)
	}
	require.NoError(t, servers.Flush())
}

func (b *brokenStream) answerStream(m *nats.Msg) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked.IsZero() {
		b.asked = time.Now()
	}
	leaderless := b.leaderless != nil && b.deleted.IsZero() && b.leaderless(time.Since(b.asked))
	leader := "n1"
	switch strings.Split(m.Subject, ".")[3] {
	case "DELETE":
		b.deleted, b.sequence, b.consumer, b.created = time.Now(), 0, "", time.Time{}
		return `{"success": true}`
	case "CREATE":
		b.created = time.Now()
	case "INFO":
		if leaderless {
			leader = ""
		}
	default:
		if leaderless {
			return noLeader
		}
	}
	if b.created.IsZero() {
		return noStream
	}
	text, err := json.Marshal(map[string]any{
		"config": map[string]any{"name": "PAWL_tasks", "num_replicas": b.replicas}, "created": b.created, "state": map[string]any{"last_seq": b.sequence}, "cluster": map[string]any{"leader": leader},
	})
	if err != nil {
		b.t.Error(err)
	}
	return string(text)
}

func (b *brokenStream) answerConsumer(m *nats.Msg) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.consumer != "":
		return b.consumer
	case strings.HasPrefix(m.Subject, "$JS.API.CONSUMER.DELETE"):
		return noConsumer
	}
	return `{"stream_name": "PAWL_tasks", "name": "work", "config": {"durable_name": "work"}}`
}

func (b *brokenStream) takeTask(m *nats.Msg) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var task struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(m.Data, &task); err != nil {
		b.t.Error(err)
	}
	if b.created.IsZero() {
		return noStream
	}
	b.sequence++
	b.published <- fmt.Sprint(task.Key, " is message ", b.sequence)
	return fmt.Sprintf(`{"stream": "PAWL_tasks", "seq": %d}`, b.sequence)
}

// forget has the stream begin anew.
func (b *brokenStream) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sequence = 0
}

// openPool opens a pool that looks at its stream only when it has a reason.
func (b *brokenStream) openPool() *natspool.Pool {
	b.t.Helper()
	pool, err := natspool.New(b.t.Context(), b.conn, natspool.Options{Republish: time.Hour})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, pool.Close(context.Background())) })
	return pool
}

// requireDeletion requires that the stream was deleted, and not within some time after the first request.
func (b *brokenStream) requireDeletion(after time.Duration) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.False(b.t, b.deleted.IsZero())
	require.GreaterOrEqual(b.t, b.deleted.Sub(b.asked), after)
}

// requireKept requires that the stream was not deleted.
func (b *brokenStream) requireKept() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Zero(b.t, b.deleted)
}

// execute dispatches a task.
func execute(t *testing.T, p *natspool.Pool, key pawl.Key) {
	t.Helper()
	_, err := p.Execute(serving.With(t.Context(), serving.Of(t.Context())), pawl.Task{Key: key, Type: "work"})
	require.ErrorIs(t, err, pawl.ErrPending)
}

// A stream without a leader, as where the replicas have lost what they had agreed on, is made anew by a pool that is opened, unless a leader comes
// in time.
func TestAStreamWithoutALeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		leader  time.Duration
		deleted bool
	}{{2 * time.Second, false}, {time.Hour, true}} {
		t.Run(c.leader.String(), func(t *testing.T) {
			t.Parallel()
			b := &brokenStream{leaderless: func(asked time.Duration) bool { return asked < c.leader }}
			startBroken(t, b)
			b.openPool()
			if c.deleted {
				b.requireDeletion(15 * time.Second)
			} else {
				b.requireKept()
			}
		})
	}
}

// A pool that is opened for a stream without a leader fails when its context ends.
func TestAPoolThatIsNotOpenedInTime(t *testing.T) {
	t.Parallel()
	b := &brokenStream{leaderless: func(time.Duration) bool { return true }}
	startBroken(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := natspool.New(ctx, b.conn, natspool.Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "the stream is broken: it has no leader")
}

// A stream with a consumer that has no leader is made anew, and whatever is out is published.
func TestAConsumerWithoutALeader(t *testing.T) {
	t.Parallel()
	b := &brokenStream{consumer: noLeader}
	startBroken(t, b)
	pool := b.openPool()
	execute(t, pool, "k1")
	require.Equal(t, "k1 is message 1", <-b.published)
	b.requireDeletion(15 * time.Second)
}

// A stream that gives a message a number that another one had has lost what it had, and whatever is out is published again. Its consumers may be
// behind it, unless they were on the same server: it is made anew.
func TestAStreamThatBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			t.Parallel()
			b := &brokenStream{replicas: replicas}
			startBroken(t, b)
			pool := b.openPool()
			execute(t, pool, "k1")
			require.Equal(t, "k1 is message 1", <-b.published)
			b.forget()
			execute(t, pool, "k2")
			require.Equal(t, "k2 is message 1", <-b.published)
			again := map[string]bool{} // one that waited already comes twice
			for len(again) < 2 {
				again[(<-b.published)[:2]] = true
			}
			if replicas > 1 {
				b.requireDeletion(2 * time.Second)
			} else {
				b.requireKept()
			}
		})
	}
}

// A consumer that has delivered more than its stream has, as where the servers have chosen a leader that had lost the stream, delivers nothing
// until both are made anew.
func TestAConsumerBehindTheEndOfItsStream(t *testing.T) {
	t.Parallel()
	const n = 20
	conn := connect(t, startServer(t).ClientURL())
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	h := openEngine(t, conn, t.TempDir(), natspool.Options{})
	defer h.stop()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(n)))
	require.Eventually(t, func() bool {
		s, err := js.Stream(t.Context(), "PAWL_tasks")
		return err == nil && s.CachedInfo().State.Msgs == n
	}, patience, 10*time.Millisecond)
	answer, err := conn.Request("$JS.API.CONSUMER.RESET.PAWL_tasks.work", []byte(`{"seq": 1000}`), time.Minute)
	require.NoError(t, err)
	require.Contains(t, string(answer.Data), `"reset_seq":1000`)
	defer work(t, &natspool.Worker{Conn: conn}, pawl.Handlers{"work": number})()
	requireResults(t, h.engine, n)
}
