package natstest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	pawlnats "github.com/pawl-run/pawl/nats"
	"github.com/pawl-run/pawl/store"
)

// A relay passes the bytes of connections to a server on, and holds them while it is told to.
type relay struct {
	url string
	mu  sync.Mutex
	now sync.Cond
	out bool // bytes to the server are held
	in  bool // bytes from the server are
	all []net.Conn
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{url: "nats://" + l.Addr().String()}
	r.now.L = &r.mu
	t.Cleanup(func() { _ = l.Close(); r.hold(false, false); r.cut() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			r.mu.Lock()
			r.all = append(r.all, client, server)
			r.mu.Unlock()
			go r.pass(client, server, &r.out)
			go r.pass(server, client, &r.in)
		}
	}()
	return r
}

func (r *relay) pass(from, to net.Conn, held *bool) {
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		for *held {
			r.now.Wait()
		}
		r.mu.Unlock()
		if _, failed := to.Write(b[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (r *relay) hold(out, in bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out, r.in = out, in
	r.now.Broadcast()
}

// cut closes the connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		_ = c.Close()
	}
	r.all = nil
}

// An entry whose answer is lost is in doubt, and is there once when it is appended again.
func TestAnswersOfALogThatAreLost(t *testing.T) {
	s := startServer(t)
	r := startRelay(t, s.Addr().String())
	conn := connect(t, r.url)
	l := openLog(t, conn, "lost")
	takeLog(t, l, "open")
	r.hold(false, true)
	_, err := l.Append(t.Context(), []byte("1"))
	require.ErrorContains(t, err, "it may be there or not")
	require.NotErrorIs(t, err, store.ErrFenced)
	r.cut()
	r.hold(false, false)
	var p store.Position
	require.Eventually(t, func() bool {
		p, err = l.Append(t.Context(), []byte("1"))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, store.PositionOf(2, []byte("1")), p)
	_, err = l.Append(t.Context(), []byte("2"))
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
	s := startServer(t)
	r := startRelay(t, s.Addr().String())
	slow := connect(t, r.url)
	a, b := openLog(t, slow, "late"), openLog(t, connect(t, s.ClientURL()), "late")
	takeLog(t, a, "a")
	r.hold(true, false)
	_, err := a.Append(t.Context(), []byte("late"))
	require.ErrorContains(t, err, "it may be there or not")
	takeLog(t, b, "b")
	r.hold(false, false)
	require.NoError(t, slow.Flush())
	_, err = a.Append(t.Context(), []byte("late"))
	require.ErrorIs(t, err, store.ErrFenced)
	_, err = b.Append(t.Context(), []byte("1"))
	require.NoError(t, err)
	got, err := readLog(t, a, store.Position{})
	require.NoError(t, err)
	require.Equal(t, []string{"1 a", "2 b", "3 1"}, got)
}

// Whoever had taken a stream appends nothing to another one of its name, although that is as long, and drops
// nothing of it.
func TestAStreamOfALogThatIsMadeAnew(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	a := openLog(t, conn, "anew")
	takeLog(t, a, "a")
	last, err := a.Append(t.Context(), []byte("1"))
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), "PAWLLOG_anew"))
	_, err = a.Append(t.Context(), []byte("2"))
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	b := openLog(t, conn, "anew")
	takeLog(t, b, "b")
	_, err = b.Append(t.Context(), []byte("3"))
	require.NoError(t, err)
	_, err = a.Append(t.Context(), []byte("2"))
	requireCorrupt(t, err, "message 2 of the stream PAWLLOG_anew")
	requireCorrupt(t, a.Drop(t.Context(), last), "message 2 of the stream PAWLLOG_anew")
	_, err = b.Append(t.Context(), []byte("4"))
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

// Who has begun an entry and uses its bytes for another one appends that one, whole.
func TestABufferThatIsUsedAgain(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	l, err := pawlnats.OpenLog(t.Context(), conn, pawlnats.LogOptions{Name: "buffer", MaxBytes: 2_000_000})
	require.NoError(t, err)
	p := takeLog(t, l, "open")
	entry := bytes.Repeat([]byte("a"), 2_500_000)
	_, err = l.Append(t.Context(), entry)
	require.ErrorIs(t, err, store.ErrNoSpace)
	s, err := js.Stream(t.Context(), "PAWLLOG_buffer")
	require.NoError(t, err)
	c := s.CachedInfo().Config
	c.MaxBytes = -1
	_, err = js.UpdateStream(t.Context(), c)
	require.NoError(t, err)
	copy(entry, bytes.Repeat([]byte("b"), len(entry)))
	_, err = l.Append(t.Context(), entry)
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
				p, err := l.Take(t.Context(), func(store.Position) []byte { return fmt.Append(nil, w, n) })
				for more := 0; more < 5 && err == nil; more++ {
					p, err = l.Append(t.Context(), bytes.Repeat([]byte("x"), 1000))
				}
				check(err)
				if err == nil {
					check(l.Drop(t.Context(), p))
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
	c := startCluster(t)
	l, err := pawlnats.OpenLog(t.Context(), connect(t, c.url()), pawlnats.LogOptions{Name: "minority", Replicas: 3})
	require.NoError(t, err)
	takeLog(t, l, "open")
	js, err := jetstream.New(connect(t, c.url()))
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "PAWLLOG_minority")
	require.NoError(t, err)
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
	}, time.Minute, 10*time.Millisecond)
	var got []string
	require.Eventually(t, func() bool { // the servers may still look for one who makes consumers
		got, err = readLog(t, l, store.Position{})
		require.NotErrorIs(t, err, store.ErrCorrupt)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, []string{"1 open", "2 1"}, got)

	contendForLog(t, c.url(), 3, 100, 50, func() {
		_, err := js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN.PAWLLOG_contended", nil, 5*time.Second)
		if err != nil {
			t.Log(err)
		}
	})
}
