package natstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/nats/natscluster"
	"github.com/pawl-run/pawl/workflow"
)

// openFed opens an engine in dir whose events go into a stream. It performs its tasks itself.
func openFed(t testing.TB, conn *nats.Conn, dir string, o natscluster.FeedOptions) (*pawl.Engine, *natscluster.Feed) {
	t.Helper()
	var feed *natscluster.Feed
	again(t, func() (err error) { feed, err = natscluster.OpenFeed(t.Context(), conn, o); return err })
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Durability: pawl.ProcessCrash, Feed: pawl.FeedOptions{To: feed}, Executor: pawl.Handlers{
		"work": func(_ context.Context, task pawl.Task) (any, error) {
			n := task.Input.(map[string]any)["n"]
			if n == int64(3) && task.Attempt == 1 {
				return nil, errors.New("once more")
			}
			return n, nil
		},
	}})
	require.NoError(t, err)
	return e, feed
}

// awaitFeed waits until everything is published.
func awaitFeed(t testing.TB, e *pawl.Engine) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		s, err := e.Stats(t.Context())
		require.NoError(t, err)
		if s.Feed.Waiting == 0 {
			return
		}
		require.True(t, time.Now().Before(end), "%+v", s.Feed)
		<-time.After(5 * time.Millisecond)
	}
}

// readFeed returns the messages of a stream, in their order.
func readFeed(t testing.TB, conn *nats.Conn, feed *natscluster.Feed) (out []pawl.FeedMessage, raw []jetstream.Msg) {
	t.Helper()
	js, err := newJetStream(conn)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), feed.Stream())
	require.NoError(t, err)
	c, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	messages, err := c.Messages()
	require.NoError(t, err)
	defer messages.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := stream.CachedInfo().State.Msgs; uint64(len(out)) < n; {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		require.NoError(t, err)
		var m pawl.FeedMessage
		require.NoError(t, json.Unmarshal(msg.Data(), &m))
		require.Equal(t, m.ID, msg.Headers().Get(jetstream.MsgIDHeader))
		require.Equal(t, feed.SubjectOf(&m), msg.Subject())
		out, raw = append(out, m), append(raw, msg)
	}
	return out, raw
}

// requireFed requires that the messages tell every event of each run, in its order; what comes again is as it was.
func requireFed(t testing.TB, e *pawl.Engine, all []pawl.FeedMessage, ids ...workflow.RunID) (repeated int) {
	t.Helper()
	seen, came := map[string]pawl.FeedMessage{}, map[workflow.RunID][]history.Event{}
	for _, m := range all {
		if was, ok := seen[m.ID]; ok {
			require.Equal(t, was, m)
			repeated++
			continue
		}
		seen[m.ID] = m
		came[m.Run] = append(came[m.Run], m.Event)
	}
	for _, id := range ids {
		i := 0
		for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{}) {
			require.NoError(t, err)
			require.Less(t, i, len(came[id]), "event %d of %s", ev.Seq, id)
			got := came[id][i]
			require.Equal(t, []any{ev.Seq, ev.Record, ev.Type, ev.Token, ev.Node}, []any{got.Seq, got.Record, got.Type, got.Token, got.Node})
			i++
		}
		require.Len(t, came[id], i)
	}
	return repeated
}

// Every event of a run is in the stream, once, under its subject, and what is published again is dropped.
func TestFeed(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	e, feed := openFed(t, conn, t.TempDir(), natscluster.FeedOptions{Name: "orders", Window: time.Hour})
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	var ids []workflow.RunID
	for i := range 20 {
		id := workflow.RunID(fmt.Sprintf("run %d", i)) // no token of a subject
		if i%2 == 0 {
			id = workflow.RunID(fmt.Sprint("run-", i))
		}
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, fanOut)}, items(5)))
		ids = append(ids, id)
	}
	for _, id := range ids {
		_, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
	}
	awaitFeed(t, e)
	all, raw := readFeed(t, conn, feed)
	require.Zero(t, requireFed(t, e, all, ids...))
	first := slices.IndexFunc(all, func(m pawl.FeedMessage) bool { return m.Run == "run-0" })
	require.Equal(t, "pawl.orders.event.fan.run-0.workflow.started", raw[first].Subject())
	for i := range all[:10] {
		require.NoError(t, feed.Publish(t.Context(), all[i]))
	}
	again, _ := readFeed(t, conn, feed)
	require.Len(t, again, len(all), "they are dropped by their ids")

	large := all[0]
	large.ID, large.Event.Data = "large", map[string]any{"text": strings.Repeat("x", 2<<20)}
	require.NoError(t, feed.Publish(t.Context(), large))
	all, raw = readFeed(t, conn, feed)
	require.Nil(t, all[len(all)-1].Event.Data)
	require.Equal(t, "data", raw[len(raw)-1].Headers().Get(natscluster.HeaderTruncated))
}

// The server is killed with SIGKILL and comes back, and the engine is closed and opened, while runs are under way: each
// event is in the stream, in the order of its run.
func TestFeedOfAServerThatIsKilled(t *testing.T) {
	const rounds = 4
	port, files, dir := freePort(t), t.TempDir(), t.TempDir()
	startServer := func() *exec.Cmd { return child(t, serverPort+"="+strconv.Itoa(port), serverDir+"="+files) }
	server := startServer()
	defer func() { kill(t, server) }()
	conn := connect(t, "nats://127.0.0.1:"+strconv.Itoa(port))
	e, feed := openFed(t, conn, dir, natscluster.FeedOptions{})
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var ids []workflow.RunID
	for round := range rounds {
		for i := range 10 {
			id := workflow.RunID(fmt.Sprintf("r%d-%d", round, i))
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, fanOut)}, items(20)))
			ids = append(ids, id)
		}
		<-time.After(time.Duration(random.IntN(200)) * time.Millisecond)
		kill(t, server)
		if round%2 == 1 {
			require.NoError(t, e.Close(context.Background()))
		}
		server = startServer()
		if round%2 == 1 {
			e, feed = openFed(t, conn, dir, natscluster.FeedOptions{})
		}
	}
	for _, id := range ids {
		_, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
	}
	awaitFeed(t, e)
	all, _ := readFeed(t, conn, feed)
	t.Logf("%d messages, %d of them repeated", len(all), requireFed(t, e, all, ids...))
}

func TestFeedOptions(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	for _, o := range []natscluster.FeedOptions{{Name: "a.b"}, {Replicas: 9}, {Replicas: -1}, {MaxAge: -1}, {MaxBytes: -1}, {Window: -1}} {
		_, err := natscluster.OpenFeed(t.Context(), conn, o)
		require.ErrorIs(t, err, pawl.ErrInvalid, "%+v", o)
	}
	_, err := natscluster.OpenFeed(t.Context(), nil, natscluster.FeedOptions{})
	require.ErrorIs(t, err, pawl.ErrInvalid)
}
