package natstest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	pawlcluster "github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/commitlog"
	"github.com/pawl-run/pawl/nats/natscluster"
	"github.com/pawl-run/pawl/workflow"
)

// check checks what is left of a trial whose nodes are gone.
func (x *nodesTrial) check() {
	conn := connect(x.t, x.c.url())
	changed := make(chan struct{}, 64)
	var n *pawlcluster.Node
	require.Eventually(x.t, func() (opened bool) { // the servers have just been harmed
		var err error
		n, err = openNode(conn, nodeOrder{Dir: x.dir, Name: "last"}, number, func(pawlcluster.Status) { changed <- struct{}{} })
		if err != nil {
			x.t.Logf("the last node: %v", err)
		}
		return err == nil
	}, time.Minute, 100*time.Millisecond)
	for n.Engine() == nil {
		<-changed
	}
	found := map[workflow.RunID]bool{}
	for r, err := range n.Engine().Runs(x.t.Context(), pawl.RunFilter{}) {
		require.NoError(x.t, err)
		found[r.Run] = true
	}
	for name, all := range map[string]map[workflow.RunID]bool{"acknowledged": x.acked, "being performed": x.begun, "told to have ended": x.ended} {
		for id := range all {
			require.True(x.t, found[id], "%s was %s, and is missing", id, name)
		}
	}
	for id := range found {
		out, err := n.Engine().Wait(x.t.Context(), id)
		require.NoError(x.t, err)
		require.Equal(x.t, workflow.RunCompleted, out.Status)
		requireOnce(x.t, n.Engine(), id, out)
	}
	require.NoError(x.t, n.Close(x.t.Context()))
	checkWriters(x.t, conn)
	x.checkCopies(conn)
}

// requireOnce requires that each task of a run has counted once.
func requireOnce(t *testing.T, e *pawl.Engine, id workflow.RunID, out workflow.Outcome) {
	want, _ := items(tasksOfRun)["items"].([]int)
	got, err := json.Marshal(out.Output["results"])
	require.NoError(t, err)
	text, err := json.Marshal(want)
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(got))
	completed := 0
	for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		if ev.Type == "task.completed" {
			completed++
		}
	}
	require.Equal(t, tasksOfRun, completed, "every result of %s counts once", id)
}

// checkWriters checks that nobody has appended behind the opening of another one, and that no message is missing.
func checkWriters(t *testing.T, conn *nats.Conn) {
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "PAWLLOG_pawl")
	require.NoError(t, err)
	state := s.CachedInfo().State
	require.Zero(t, state.NumDeleted)
	consumer, err := js.OrderedConsumer(t.Context(), "PAWLLOG_pawl", jetstream.OrderedConsumerConfig{HeadersOnly: true})
	require.NoError(t, err)
	messages, err := consumer.Messages()
	require.NoError(t, err)
	defer messages.Stop()
	gone, last, lives := map[string]bool{}, "", 0
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		m, err := messages.Next(jetstream.NextContext(ctx))
		cancel()
		require.NoError(t, err)
		at, err := m.Metadata()
		require.NoError(t, err)
		require.Equal(t, seq, at.Sequence.Stream)
		writer := m.Headers().Get("Pawl-Writer")
		require.False(t, gone[writer], "message %d is of an owner who had lost the log", seq)
		if writer != last {
			gone[last], last, lives = true, writer, lives+1
		}
	}
	t.Logf("the log has %d messages of %d owners, one after the other", state.Msgs, lives)
}

// checkCopies checks that the directories of all nodes, and what is restored from the servers, become the same.
func (x *nodesTrial) checkCopies(conn *nats.Conn) {
	b, err := natscluster.Open(x.t.Context(), conn, natscluster.Options{Replicas: 3})
	require.NoError(x.t, err)
	newLog := func() commitlog.Log {
		log, err := b.NewLog(x.t.Context())
		require.NoError(x.t, err)
		return log
	}
	sums := map[string]string{}
	for _, name := range []string{"last", "a", "b"} {
		e, err := pawl.Open(x.t.Context(), filepath.Join(x.dir, name), pawl.Options{
			Durability: pawl.ProcessCrash, Blobs: b.Blobs, Remote: pawl.RemoteOptions{Log: newLog(), Bases: b.Bases},
		})
		require.NoError(x.t, err)
		sums[name] = sumOf(x.t, e)
		require.NoError(x.t, e.Close(x.t.Context()))
	}
	there := filepath.Join(x.dir, "restored")
	info, err := pawl.Restore(x.t.Context(), there, pawl.RestoreOptions{Log: newLog(), Bases: b.Bases})
	require.NoError(x.t, err)
	require.Empty(x.t, info.Damaged)
	e, err := pawl.Open(x.t.Context(), there, pawl.Options{})
	require.NoError(x.t, err)
	sums["restored"] = sumOf(x.t, e)
	require.NoError(x.t, e.Close(x.t.Context()))
	for name, sum := range sums {
		require.Equal(x.t, sums["last"], sum, name)
	}
}

// sumOf returns the sum of the journals of all runs.
func sumOf(t *testing.T, e *pawl.Engine) string {
	h := sha256.New()
	for run, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		for record, err := range e.Journal(t.Context(), run.Run, pawl.EventsOptions{}) {
			require.NoError(t, err)
			data, err := json.Marshal(record)
			require.NoError(t, err)
			fmt.Fprintln(h, run.Run, string(data))
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
