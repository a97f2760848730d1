package natstest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/workflow"
)

// A second message of a subject is refused with the code and the text that the pool looks at, and another
// refusal with the same code has another text.
func TestTheRefusalOfASecondMessage(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := newJetStream(conn)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s.*"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage,
		MaxMsgsPerSubject: 1, MaxMsgs: 2, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
	})
	require.NoError(t, err)
	publish := func(subject string) *jetstream.APIError {
		_, err := js.Publish(t.Context(), subject, nil)
		var refused *jetstream.APIError
		errors.As(err, &refused)
		return refused
	}
	require.Nil(t, publish("s.a"))
	again := publish("s.a")
	require.NotNil(t, again)
	require.EqualValues(t, 10077, again.ErrorCode)
	require.Contains(t, again.Description, "maximum messages per subject exceeded")
	require.Nil(t, publish("s.b"))
	full := publish("s.c")
	require.NotNil(t, full)
	require.EqualValues(t, 10077, full.ErrorCode)
	require.NotContains(t, full.Description, "per subject")
}

// The bound of a type holds over all workers, and a task that is cancelled while it is held
// frees its place.
func TestTheBoundOfAType(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	h := openEngine(t, conn, t.TempDir(), natspool.Options{Lease: time.Minute, Types: map[string]int{"work": 2}})
	defer h.stop()
	var mu sync.Mutex
	now, most := 0, 0
	begun, second := make(chan bool, 10), make(chan bool)
	meet := sync.OnceFunc(func() { close(second) })
	handlers := pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		if task.Run == "c" {
			begun <- true
			<-ctx.Done()
			return nil, ctx.Err()
		}
		move := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			now += n
			if most = max(most, now); most > 1 {
				meet()
			}
		}
		move(1)
		defer move(-1)
		select {
		case <-second: // the first one waits for it
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		<-time.After(2 * time.Millisecond)
		return task.Input.(map[string]any)["n"], nil
	}}
	defer work(t, &natspool.Worker{Conn: conn, Capacity: 4}, handlers)()
	defer work(t, &natspool.Worker{Conn: conn, Capacity: 4}, handlers)()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "c", Definition: define(t, fanOut)}, items(5)))
	<-begun
	<-begun
	require.NoError(t, h.engine.Cancel(t.Context(), "c", "enough"))
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(50)))
	requireResults(t, h.engine, 50)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 2, most)
}

// Tasks that are out are published again when the stream was lost, and tasks that are done are not.
func TestALostStream(t *testing.T) {
	t.Parallel()
	conn := connect(t, startServer(t).ClientURL())
	h := openEngine(t, conn, t.TempDir(), natspool.Options{})
	defer h.stop()
	js, err := newJetStream(conn)
	require.NoError(t, err)
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(20)))
	queued := func() uint64 {
		s, err := js.Stream(t.Context(), "PAWL_tasks")
		if err != nil {
			return 0
		}
		return s.CachedInfo().State.Msgs
	}
	require.Eventually(t, func() bool { return queued() == 20 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, js.DeleteStream(t.Context(), "PAWL_tasks"))
	require.Eventually(t, func() bool { return queued() == 20 }, time.Minute, 10*time.Millisecond)
	defer work(t, &natspool.Worker{Conn: conn, Capacity: 4}, pawl.Handlers{"work": number})()
	requireResults(t, h.engine, 20)
	require.Eventually(t, func() bool { return queued() == 0 }, time.Minute, 10*time.Millisecond)
}

// A task or a result that no message can carry fails its task, and says so.
func TestWhatIsTooLargeForAMessage(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	h := openEngine(t, conn, t.TempDir(), natspool.Options{})
	defer h.stop()
	large := string(make([]byte, conn.MaxPayload()))
	defer work(t, &natspool.Worker{Conn: conn}, pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return large, nil }})()
	out, err := h.engine.Run(t.Context(), workflow.Run{ID: "result", Definition: define(t, single)}, nil)
	require.NoError(t, err)
	require.Equal(t, workflow.CodeResultTooLarge, out.Failure.Code)
}

// Options that cannot be are refused.
func TestOptionsThatCannotBe(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	for _, o := range []natspool.Options{
		{Name: "a.b"}, {Lease: time.Millisecond}, {Replicas: 6}, {Republish: -1}, {Types: map[string]int{"work": 0}},
	} {
		_, err := natspool.New(t.Context(), conn, o)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	require.ErrorIs(t, (&natspool.Worker{}).Run(t.Context(), nil), pawl.ErrInvalid)
}
