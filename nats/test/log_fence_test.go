package natstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/nats/natslog"
	"github.com/pawl-run/pawl/store"
)

// An entry whose answer is lost is in doubt, and is there once when it is appended again.
func TestAnswersOfALogThatAreLost(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := servers.StartRelay(t, s.Addr().(*net.TCPAddr).Port)
	conn := connect(t, natsURL(r.Port))
	l := openLog(t, conn, "lost")
	takeLog(t, l, "open")
	r.Set(servers.Link{In: true})
	_, err := l.Append(t.Context(), []byte("1"))
	require.ErrorContains(t, err, "it may be there or not")
	require.NotErrorIs(t, err, store.ErrFenced)
	r.Cut()
	r.Set(servers.Link{})
	var p store.Position
	require.Eventually(t, func() bool {
		p, err = l.Append(t.Context(), []byte("1"))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, store.PositionOf(2, []byte("1")), p)
	_, err = appendEntry(t.Context(), l, []byte("2"))
	require.NoError(t, err)
	got, err := readLog(t, l, store.Position{})
	require.NoError(t, err)
	require.Equal(t, []string{"1 open", "2 1", "3 2"}, got)

	conn.Close()
	_, err = l.Append(t.Context(), []byte("3"))
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
}

// An entry that arrives after somebody else has taken the log is not there.
func TestEntriesOfALogThatComeLate(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := servers.StartRelay(t, s.Addr().(*net.TCPAddr).Port)
	slow := connect(t, natsURL(r.Port))
	a, b := openLog(t, slow, "late"), openLog(t, connect(t, s.ClientURL()), "late")
	takeLog(t, a, "a")
	r.Set(servers.Link{Out: true})
	_, err := a.Append(t.Context(), []byte("late"))
	require.ErrorContains(t, err, "it may be there or not")
	takeLog(t, b, "b")
	r.Set(servers.Link{})
	require.NoError(t, slow.Flush())
	_, err = appendEntry(t.Context(), a, []byte("late"))
	require.ErrorIs(t, err, store.ErrFenced)
	_, err = appendEntry(t.Context(), b, []byte("1"))
	require.NoError(t, err)
	got, err := readLog(t, a, store.Position{})
	require.NoError(t, err)
	require.Equal(t, []string{"1 a", "2 b", "3 1"}, got)
}

// A log whose last entry is large is taken, and dropped from, over a link on which the whole entry takes longer than one answer
// may.
func TestALargeLastEntryOverASlowLink(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := servers.StartRelay(t, s.Addr().(*net.TCPAddr).Port)
	l := openLog(t, connect(t, natsURL(r.Port)), "slow")
	takeLog(t, l, "open")
	large := bytes.Repeat([]byte("0123456789abcdef"), 800_000) // 12.8 MB, 13 messages
	last, err := appendEntry(t.Context(), l, large)
	require.NoError(t, err)
	r.Set(servers.Link{Slow: 20 * time.Millisecond}) // of each 64 KiB: half a second for a message
	require.NoError(t, l.Drop(t.Context(), last))
	_, err = l.Take(t.Context(), func(found store.Position) []byte {
		require.Equal(t, last, found)
		return []byte("again")
	})
	require.NoError(t, err)
}

// A writer that had taken a stream appends nothing to another one of its name, although that is as long, and
// drops nothing of it.
func TestAStreamOfALogThatIsMadeAnew(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := newJetStream(conn)
	require.NoError(t, err)
	a := openLog(t, conn, "anew")
	takeLog(t, a, "a")
	last, err := appendEntry(t.Context(), a, []byte("1"))
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), "PAWLLOG_anew"))
	_, err = a.Append(t.Context(), []byte("2"))
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	b := openLog(t, conn, "anew")
	takeLog(t, b, "b")
	_, err = appendEntry(t.Context(), b, []byte("3"))
	require.NoError(t, err)
	_, err = appendEntry(t.Context(), a, []byte("2"))
	requireCorrupt(t, err, "message 2 of the stream PAWLLOG_anew")
	requireCorrupt(t, a.Drop(t.Context(), last), "message 2 of the stream PAWLLOG_anew")
	_, err = appendEntry(t.Context(), b, []byte("4"))
	require.NoError(t, err)
	got, err := readLog(t, b, store.Position{})
	require.NoError(t, err)
	require.Equal(t, []string{"1 b", "2 3", "3 4"}, got)
	takeLog(t, a, "a again")
	require.NoError(t, a.Drop(t.Context(), last))
	got, err = readLog(t, a, store.Position{})
	require.NoError(t, err)
	require.Equal(t, []string{"3 4", "4 a again"}, got)
}

// An entry is sent once by a call, also where nobody takes it: a copy that the client sends by itself may overtake what comes later.
func TestAnEntryIsSentOnce(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := newJetStream(conn)
	require.NoError(t, err)
	l := openLog(t, conn, "once")
	takeLog(t, l, "open")
	require.NoError(t, js.DeleteStream(t.Context(), "PAWLLOG_once"))
	before := conn.Stats().OutMsgs
	_, err = l.Append(t.Context(), []byte("1"))
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	require.EqualValues(t, 2, conn.Stats().OutMsgs-before, "the entry, and the question what became of the stream")
}

// A writer that has begun an entry and uses its bytes for another one appends that one, whole.
func TestABufferThatIsUsedAgain(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := newJetStream(conn)
	require.NoError(t, err)
	l, err := natslog.Open(t.Context(), conn, natslog.Options{Name: "buffer", MaxBytes: 2_000_000})
	require.NoError(t, err)
	p := takeLog(t, l, "open")
	entry := bytes.Repeat([]byte("a"), 2_500_000)
	_, err = appendEntry(t.Context(), l, entry)
	require.ErrorIs(t, err, store.ErrNoSpace)
	s, err := js.Stream(t.Context(), "PAWLLOG_buffer")
	require.NoError(t, err)
	c := s.CachedInfo().Config
	c.MaxBytes = -1
	_, err = js.UpdateStream(t.Context(), c)
	require.NoError(t, err)
	copy(entry, bytes.Repeat([]byte("b"), len(entry)))
	_, err = appendEntry(t.Context(), l, entry)
	require.NoError(t, err)
	for e, err := range l.Read(t.Context(), p) {
		require.NoError(t, err)
		require.True(t, bytes.Equal(entry, e.Data))
	}
}

// Nobody takes for damage what somebody else has dropped meanwhile.
func TestReadersOfALogThatIsDropped(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	var all sync.WaitGroup
	check := func(err error) {
		if err != nil && !errors.Is(err, store.ErrFenced) {
			t.Error(err)
		}
	}
	for w := range 3 {
		l := openLog(t, conn, "dropped")
		all.Go(func() {
			for n := range 100 {
				var p store.Position
				err := repeatCall(func() (err error) {
					p, err = l.Take(t.Context(), func(store.Position) []byte { return fmt.Append(nil, w, n) })
					return err
				})
				for more := 0; more < 5 && err == nil; more++ {
					p, err = appendEntry(t.Context(), l, bytes.Repeat([]byte("x"), 1000))
				}
				check(err)
				if err == nil {
					check(repeatCall(func() error { return l.Drop(t.Context(), p) }))
				}
			}
		})
	}
	reader := openLog(t, conn, "dropped")
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
			for _, err := range reader.Read(t.Context(), store.Position{}) {
				require.NotErrorIs(t, err, store.ErrCorrupt)
			}
		}
	}
}

// On three servers: as long as two of them are away nothing can be appended, and nobody takes that for a
// loss. When they are back what was in doubt is there once. Leaders that step down harm nobody.
func TestALogAtAClusterWithoutAMajority(t *testing.T) {
	harness.TurnOfDay(t, harness.Figure(6, 3, 1))
	c := startCluster(t)
	l := openReplicated(t, connect(t, c.url()), natslog.Options{Name: "minority", Replicas: 3})
	first := takeLog(t, l, "open").Seq // the servers may have lost the answer to an earlier one
	js, err := jetstream.New(connect(t, c.url()))
	require.NoError(t, err)
	var s jetstream.Stream
	again(t, func() (err error) { s, err = js.Stream(t.Context(), "PAWLLOG_minority"); return err })
	for i := range c.processes {
		if s.CachedInfo().Cluster.Leader != fmt.Sprint("n", i) {
			kill(t, c.processes[i])
		}
	}
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		_, err = l.Append(t.Context(), []byte("1"))
		require.Error(t, err)
		require.NotErrorIs(t, err, store.ErrFenced)
		require.NotErrorIs(t, err, store.ErrCorrupt)
	}
	for i := range c.processes {
		if s.CachedInfo().Cluster.Leader != fmt.Sprint("n", i) {
			c.processes[i] = c.startMember(t, i)
		}
	}
	require.Eventually(t, func() bool {
		_, err = l.Append(t.Context(), []byte("1"))
		require.NotErrorIs(t, err, store.ErrFenced)
		require.NotErrorIs(t, err, store.ErrCorrupt)
		return err == nil
	}, patience, 10*time.Millisecond)
	var got []string
	require.Eventually(t, func() bool { // the servers may still look for one who makes consumers
		got, err = readLog(t, l, store.Position{Seq: first - 1})
		require.NotErrorIs(t, err, store.ErrCorrupt)
		return err == nil
	}, patience, 10*time.Millisecond)
	require.Equal(t, []string{fmt.Sprint(first, " open"), fmt.Sprint(first+1, " 1")}, got)

	contendForLog(t, c.url(), 3, 100, 50, func() {
		_, err := js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN.PAWLLOG_contended", nil, 5*time.Second)
		if err != nil {
			t.Log(err)
		}
	})
}

// A reader whose request is swallowed between the servers notices it soon, and goes on.
func TestReadersOfALogThatHearNothing(t *testing.T) {
	harness.InTurn(t, 2)
	c := startRelayedCluster(t)
	l := openReplicated(t, connect(t, natsURL(c.members[0].Ports[0])), natslog.Options{Name: "silent", Replicas: 3})
	const entries = 600 // a reader asks for 500, and for more when it has half of them
	var last store.Position
	takeLog(t, l, "open")
	for range entries {
		again(t, func() (err error) { last, err = l.Append(t.Context(), []byte("entry")); return err })
	}
	js, err := jetstream.New(connect(t, c.url()))
	require.NoError(t, err)
	var s jetstream.Stream
	again(t, func() (err error) { s, err = js.Stream(t.Context(), "PAWLLOG_silent"); return err })
	for begun := time.Now(); time.Since(begun) < patience; {
		read, at := 0, "n0" // where the consumer is
		var cut time.Time
		for _, err := range l.Read(t.Context(), store.Position{}) {
			if err != nil && (read == 0 || errors.Is(err, context.DeadlineExceeded)) {
				at = "n0" // another round: the servers may still look for a leader, or do so again since the cut
				break
			}
			require.NoError(t, err)
			if read++; read > 1 {
				continue
			}
			for info := range s.ListConsumers(t.Context()).Info() {
				at = info.Cluster.Leader
			}
			if at == "n0" {
				break // what is there comes
			}
			for ends, r := range c.routes { // for less than others take to choose a leader
				if at == fmt.Sprint("n", ends[0]+ends[1]) && ends[0]*ends[1] == 0 {
					r.Set(servers.Link{Out: true, In: true})
					time.AfterFunc(time.Second, func() { r.Set(servers.Link{Down: true}); r.Set(servers.Link{}) })
				}
			}
			cut = time.Now()
		}
		if at != "n0" {
			require.EqualValues(t, last.Seq, read)
			require.Less(t, time.Since(cut), time.Minute, "it waits for what does not come")
			return
		}
	}
	t.Fatal("there is no consumer at another server")
}
