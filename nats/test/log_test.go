package natstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/nats/natslog"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// patience is how long a test waits for servers: those of a cluster that has just formed, or has lost one, may look for a leader,
// and any may be slow to answer on a machine that does much else.
const patience = 5 * time.Minute

// newJetStream returns what asks JetStream for a test, and waits longer for its answers than the product does.
func newJetStream(conn *nats.Conn) (jetstream.JetStream, error) {
	return jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
}

func openLog(t testing.TB, conn *nats.Conn, name string) *natslog.Log {
	t.Helper()
	return openReplicated(t, conn, natslog.Options{Name: name})
}

// again does something until it succeeds, as long as patience lasts.
func again(t testing.TB, do func() error) {
	t.Helper()
	err := do()
	for late := time.Now().Add(patience); err != nil && time.Now().Before(late); err = do() {
		<-time.After(10 * time.Millisecond)
	}
	require.NoError(t, err)
}

// openReplicated opens a log at servers that may look for a leader.
func openReplicated(t testing.TB, conn *nats.Conn, o natslog.Options) (l *natslog.Log) {
	t.Helper()
	again(t, func() (err error) { l, err = natslog.Open(t.Context(), conn, o); return err })
	return l
}

// openReplicatedBlobs is openReplicated for blobs.
func openReplicatedBlobs(t testing.TB, conn *nats.Conn, o natslog.BlobsOptions) (b *natslog.Blobs) {
	t.Helper()
	again(t, func() (err error) { b, err = natslog.OpenBlobs(t.Context(), conn, o); return err })
	return b
}

func takeLog(t testing.TB, l store.Log, entry string) (p store.Position) {
	t.Helper()
	again(t, func() (err error) {
		p, err = l.Take(t.Context(), func(store.Position) []byte { return []byte(entry) })
		return err
	})
	return p
}

// appendEntry appends an entry to a log. It repeats the same bytes, as every writer does, where the server was slow to answer. It
// may be called by any goroutine.
func appendEntry(ctx context.Context, l store.Log, entry []byte) (p store.Position, err error) {
	err = repeatCall(func() error {
		p, err = l.Append(ctx, entry)
		return err
	})
	return p, err
}

// repeatCall calls a log until the answer is one that another call does not change.
func repeatCall(call func() error) (err error) {
	for late := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		err = call()
		if err == nil || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNoSpace) || time.Now().After(late) {
			return err
		}
	}
}

// readLog returns the entries of a log, or its first 20 bytes, and the error that ends it.
func readLog(t testing.TB, l store.Log, after store.Position) (out []string, failed error) {
	t.Helper()
	for e, err := range l.Read(t.Context(), after) {
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprintf("%d %.20s", e.Seq, e.Data))
	}
	return out, nil
}

// subjectOfLog returns the subject of a log's stream.
func subjectOfLog(t testing.TB, js jetstream.JetStream, name string) string {
	t.Helper()
	s, err := js.Stream(t.Context(), "PAWLLOG_"+name)
	require.NoError(t, err)
	return s.CachedInfo().Config.Subjects[0]
}

func requireCorrupt(t testing.TB, err error, file string) {
	t.Helper()
	var damage *store.CorruptError
	require.True(t, errors.As(err, &damage), "%v", err)
	require.Equal(t, file, damage.File)
}

// The log over JetStream passes what every log must pass.
func TestLogInAStream(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	n := 0
	logtest.Run(t, func(t *testing.T) func() store.Log {
		n++
		name := "log" + strconv.Itoa(n)
		return func() store.Log { return openLog(t, conn, name) }
	})
}

// An entry that no message can carry is in several; what its writer has not completed does not count,
// wherever it stops.
func TestEntriesInSeveralMessages(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	l := openLog(t, conn, "large")
	takeLog(t, l, "open")
	large := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // 3.2 MB
	p, err := appendEntry(t.Context(), l, large)
	require.NoError(t, err)
	require.Equal(t, store.PositionOf(5, large), p, "its number is that of its last message")
	last, err := appendEntry(t.Context(), l, []byte("small"))
	require.NoError(t, err)
	for e, err := range l.Read(t.Context(), store.Position{Seq: 1}) {
		require.NoError(t, err)
		require.Equal(t, large, e.Data)
		break
	}
	_, err = openLog(t, conn, "large").Take(t.Context(), func(found store.Position) []byte {
		require.Equal(t, last, found)
		return large
	})
	require.NoError(t, err)
	_, err = openLog(t, conn, "large").Take(t.Context(), func(found store.Position) []byte {
		require.Equal(t, store.PositionOf(10, large), found)
		return []byte("open")
	})
	require.NoError(t, err)

	js, err := newJetStream(conn)
	require.NoError(t, err)
	for part := 1; part <= 2; part++ { // of three
		m := nats.NewMsg(subjectOfLog(t, js, "large"))
		m.Header.Set("Pawl-Part", fmt.Sprintf("%d/3", part))
		_, err = js.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	}
	entries := []string{"1 open", "5 0123456789abcdef0123", "6 small", "10 0123456789abcdef0123", "11 open"}
	got, err := readLog(t, l, store.Position{})
	require.NoError(t, err)
	require.Equal(t, entries, got)
	takeLog(t, l, "behind it")
	got, err = readLog(t, l, store.Position{})
	require.NoError(t, err)
	require.Equal(t, append(entries, "14 behind it"), got)

	require.NoError(t, l.Drop(t.Context(), store.Position{Seq: 5}))
	got, err = readLog(t, l, store.Position{})
	require.NoError(t, err)
	require.Equal(t, append(entries[2:], "14 behind it"), got)
}

// A message that is not an entry, or a missing one, is an error that says where.
func TestDamageOfALogInAStream(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := newJetStream(conn)
	require.NoError(t, err)
	publish := func(name, part string) {
		m := nats.NewMsg(subjectOfLog(t, js, name))
		m.Header.Set("Pawl-Part", part)
		_, err := js.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	}
	for i, part := range []string{"2/3", "0/1", "3/2", "x", "1/2x", "18446744073709551615/18446744073709551615"} {
		name := "bad" + strconv.Itoa(i)
		l := openLog(t, conn, name)
		takeLog(t, l, "open")
		publish(name, part)
		got, err := readLog(t, l, store.Position{})
		requireCorrupt(t, err, "message 2 of the stream PAWLLOG_"+name)
		require.Equal(t, []string{"1 open"}, got)
	}

	// A hole: a stream that somebody else has made may be changed.
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PAWLLOG_hole", Subjects: []string{"pawl.hole.log"}, Discard: jetstream.DiscardNew})
	require.NoError(t, err)
	l := openLog(t, conn, "hole")
	takeLog(t, l, "open")
	for _, e := range []string{"2", "3", "4"} {
		_, err = appendEntry(t.Context(), l, []byte(e))
		require.NoError(t, err)
	}
	s, err := js.Stream(t.Context(), "PAWLLOG_hole")
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(t.Context(), 3))
	got, err := readLog(t, l, store.Position{})
	requireCorrupt(t, err, "message 3 of the stream PAWLLOG_hole")
	require.Equal(t, []string{"1 open", "2 2"}, got)
	_, err = readLog(t, l, store.Position{Seq: 2})
	requireCorrupt(t, err, "message 3 of the stream PAWLLOG_hole")
	got, err = readLog(t, l, store.Position{Seq: 3})
	require.NoError(t, err)
	require.Equal(t, []string{"4 4"}, got)

	// The servers have lost the end, and do not say so.
	require.NoError(t, js.DeleteStream(t.Context(), "PAWLLOG_hole"))
	openLog(t, conn, "hole")
	_, err = appendEntry(t.Context(), l, []byte("5"))
	requireCorrupt(t, err, "message 4 of the stream PAWLLOG_hole")
	takeLog(t, l, "anew")
	got, err = readLog(t, l, store.Position{})
	require.NoError(t, err)
	require.Equal(t, []string{"1 anew"}, got)
}

// Nobody can delete single entries of a log that natslog has made, a full one loses none, and a stream
// that would lose some is refused.
func TestStreamsThatKeepEverything(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := newJetStream(conn)
	require.NoError(t, err)
	l, err := natslog.Open(t.Context(), conn, natslog.Options{Name: "small", MaxBytes: 10_000})
	require.NoError(t, err)
	first := takeLog(t, l, "open")
	s, err := js.Stream(t.Context(), "PAWLLOG_small")
	require.NoError(t, err)
	require.Error(t, s.DeleteMsg(t.Context(), 1))
	many := 1
	for ; err == nil || many == 1; many++ {
		_, err = appendEntry(t.Context(), l, make([]byte, 1000))
	}
	require.ErrorIs(t, err, store.ErrNoSpace)
	got, err := readLog(t, l, store.Position{})
	require.NoError(t, err)
	require.Len(t, got, many-1)
	require.NoError(t, l.Drop(t.Context(), store.Position{Seq: first.Seq + 1}))
	_, err = appendEntry(t.Context(), l, make([]byte, 1000))
	require.NoError(t, err, "there is room again, and the writer goes on")

	for name, c := range map[string]jetstream.StreamConfig{
		"age":   {MaxAge: time.Hour, Discard: jetstream.DiscardNew},
		"count": {MaxMsgs: 10, Discard: jetstream.DiscardNew},
		"old":   {MaxBytes: 1000, Discard: jetstream.DiscardOld},
		"queue": {Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew},
		"mem":   {Storage: jetstream.MemoryStorage, Discard: jetstream.DiscardNew},
		"size":  {MaxMsgSize: 1000, Discard: jetstream.DiscardNew},
		"mute":  {NoAck: true, Discard: jetstream.DiscardNew},
		"async": {PersistMode: jetstream.AsyncPersistMode, Discard: jetstream.DiscardNew},
		"s2":    {Compression: jetstream.S2Compression, Discard: jetstream.DiscardNew},
		"near":  {AllowDirect: true, Discard: jetstream.DiscardNew},
		"from":  {Sources: []*jetstream.StreamSource{{Name: "PAWLLOG_small"}}, Discard: jetstream.DiscardNew},
		"two":   {Subjects: []string{"pawl.two.log", "pawl.two.other"}, Discard: jetstream.DiscardNew},
		"any":   {Subjects: []string{"pawl.any.log.>"}, Discard: jetstream.DiscardNew},
		"other": {Subjects: []string{"pawl.others.log"}, Discard: jetstream.DiscardNew},
		"kept":  {DenyPurge: true, Discard: jetstream.DiscardNew},
	} {
		if c.Name = "PAWLLOG_" + name; c.Subjects == nil {
			c.Subjects = []string{"pawl." + name + ".log"}
		}
		_, err := js.CreateStream(t.Context(), c)
		require.NoError(t, err)
		_, err = natslog.Open(t.Context(), conn, natslog.Options{Name: name})
		require.ErrorIs(t, err, pawl.ErrInvalid, name)
	}
	for _, o := range []natslog.Options{{Name: "a.b"}, {Replicas: 6}, {MaxBytes: -1}} {
		_, err := natslog.Open(t.Context(), conn, o)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	_, err = natslog.Open(t.Context(), nil, natslog.Options{})
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// Writers take the log from one another while the server is killed again and again and answers are
// lost: each entry that was acknowledged is there once, in order, and none of somebody
// who had lost the log.
func TestWritersAtAServerThatIsKilled(t *testing.T) {
	harness.TurnOfDay(t, harness.Figure(6, 3, 1))
	port, files := freePort(t), t.TempDir()
	url := "nats://127.0.0.1:" + strconv.Itoa(port)
	c := child(t, serverPort+"="+strconv.Itoa(port), serverDir+"="+files)
	contendForLog(t, url, 1, 300, 250, func() {
		kill(t, c)
		c = child(t, serverPort+"="+strconv.Itoa(port), serverDir+"="+files)
	})
	kill(t, c)
}

// contendForLog lets three writers take a log from one another until each has appended some entries and fail was called twice. It
// calls fail whenever so many were acknowledged.
func contendForLog(t *testing.T, url string, replicas, each int, perFailure int64, fail func()) {
	const writers = 3
	ctx := t.Context()
	open := func() *natslog.Log {
		return openReplicated(t, connect(t, url), natslog.Options{Name: "contended", Replicas: replicas})
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	acked := make([]map[uint64]string, writers)
	var count, slowest, failures atomic.Int64
	due := make(chan bool, 1) // the next failure
	var all sync.WaitGroup
	for w := range writers {
		l, random := open(), rand.New(rand.NewPCG(seed, uint64(w)))
		acked[w] = map[uint64]string{}
		all.Go(func() {
			for n := 0; n < each || failures.Load() < 2; {
				entry := fmt.Sprintf("%d open at %d", w, n)
				p, err := l.Take(ctx, func(store.Position) []byte { return []byte(entry) })
				for more := random.IntN(20); err == nil && more >= 0; more-- {
					acked[w][p.Seq] = entry
					if count.Add(1)%perFailure == 0 {
						select {
						case due <- true:
						default:
						}
					}
					entry = fmt.Sprintf("%d %d", w, n)
					begin := time.Now()
					for {
						p, err = l.Append(ctx, []byte(entry))
						if err == nil || errors.Is(err, store.ErrFenced) {
							break
						}
						<-time.After(10 * time.Millisecond)
					}
					if took := int64(time.Since(begin)); took > slowest.Load() {
						slowest.Store(took)
					}
					n++
				}
				if err != nil && !errors.Is(err, store.ErrFenced) {
					<-time.After(10 * time.Millisecond)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-due:
			fail()
			failures.Add(1)
		}
	}
	got := map[uint64]string{}
	seen := map[string]uint64{}
	reader := connect(t, url)
	require.Eventually(t, func() bool { // as long as the servers look for a leader, nobody can read
		clear(got)
		clear(seen)
		l, err := natslog.Open(ctx, reader, natslog.Options{Name: "contended", Replicas: replicas})
		if err != nil {
			return false
		}
		for e, err := range l.Read(ctx, store.Position{}) {
			if err != nil {
				require.NotErrorIs(t, err, store.ErrCorrupt)
				return false
			}
			if text := string(e.Data); !strings.Contains(text, "open") {
				require.Zero(t, seen[text], "%q is there twice", text)
				seen[text] = e.Seq
			}
			got[e.Seq] = string(e.Data)
		}
		return true
	}, patience, 100*time.Millisecond)
	total, owner := 0, byte(0)
	for seq := uint64(1); seq <= uint64(len(got)); seq++ {
		entry := got[seq]
		if strings.Contains(entry, "open") {
			owner = entry[0]
		}
		require.Equal(t, owner, entry[0], "entry %d is of somebody who had lost the log", seq)
	}
	for w := range acked {
		total += len(acked[w])
		for seq, entry := range acked[w] {
			require.Equal(t, entry, got[seq], "entry %d of writer %d", seq, w)
		}
	}
	t.Logf("%d entries acknowledged, %d there; %d failures; the slowest entry took %v", total, len(got), failures.Load(), time.Duration(slowest.Load()).Round(time.Millisecond))
	require.GreaterOrEqual(t, total, writers*each/2)
}

// awaitKept waits until a copy has all that was committed. One more commit makes sure that there is an entry of a later moment.
func awaitKept(t *testing.T, e *pawl.Engine, last *atomic.Pointer[pawl.FollowReport]) {
	t.Helper()
	moment := time.Now().Truncate(time.Millisecond) // as the engine writes it
	_, err := e.Publish(t.Context(), define(t, "name: last\nstart: a\nnodes: [{id: a}]\n"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		r := last.Load()
		return r != nil && r.Err == nil && r.Waiting == 0 && !r.Base.IsZero() && !r.At.Before(moment)
	}, patience, 10*time.Millisecond)
}

// A directory that is followed into a stream is restored elsewhere, although the server was killed
// meanwhile.
func TestADirectoryIsRestoredFromAStream(t *testing.T) {
	port, files := freePort(t), t.TempDir()
	url := "nats://127.0.0.1:" + strconv.Itoa(port)
	server := child(t, serverPort+"="+strconv.Itoa(port), serverDir+"="+files)
	defer func() { kill(t, server) }()
	conn := connect(t, url)
	log, bases := openLog(t, conn, "dir"), openBlobs(t, conn)
	engine, err := pawl.Open(t.Context(), filepath.Join(t.TempDir(), "here"), pawl.Options{
		Executor: pawl.Handlers{"work": number}, Durability: pawl.ProcessCrash,
	})
	require.NoError(t, err)
	followed := make(chan error, 1)
	kept := make(chan bool, 1) // something was kept, and there is a base
	var last atomic.Pointer[pawl.FollowReport]
	go func() {
		followed <- engine.Follow(t.Context(), pawl.FollowOptions{
			Log: log, Bases: bases, Interval: time.Millisecond,
			Report: func(r pawl.FollowReport) {
				last.Store(&r)
				if r.Err == nil && !r.Base.IsZero() {
					select {
					case kept <- true:
					default:
					}
				}
			},
		})
	}()
	for i := range 20 {
		id := workflow.RunID(fmt.Sprint("r", i))
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, fanOut)}, items(20)))
		_, err := engine.Wait(t.Context(), id)
		require.NoError(t, err)
		if i%5 == 4 {
			<-kept
			kill(t, server)
			server = child(t, serverPort+"="+strconv.Itoa(port), serverDir+"="+files)
		}
	}
	awaitKept(t, engine, &last) // Close has 10 s for what is left, in which the server may still start
	require.NoError(t, engine.Close(t.Context()))
	require.NoError(t, <-followed)

	there := filepath.Join(t.TempDir(), "there")
	info, err := pawl.Restore(t.Context(), there, pawl.RestoreOptions{Log: openLog(t, connect(t, url), "dir"), Bases: openBlobs(t, connect(t, url))})
	require.NoError(t, err)
	t.Logf("%+v", info)
	engine, err = pawl.Open(t.Context(), there, pawl.Options{Executor: pawl.Handlers{"work": number}})
	require.NoError(t, err)
	for i := range 20 {
		out, err := engine.Wait(t.Context(), workflow.RunID(fmt.Sprint("r", i)))
		require.NoError(t, err)
		require.Len(t, out.Output["results"], 20)
	}
	require.NoError(t, engine.Close(t.Context()))
}

// A lostStore takes nothing while it is away.
type lostStore struct {
	blob.Store
	away atomic.Bool
}

func (s *lostStore) Put(ctx context.Context, r io.Reader) (string, int64, error) {
	if s.away.Load() {
		return "", 0, errors.New("it is away")
	}
	return s.Store.Put(ctx, r)
}

// A stream that got full while the store of bases was away lets old entries go when an engine is opened with it, and takes new ones.
func TestAnEngineIsOpenedWithAFullStream(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	bases := &lostStore{Store: openBlobs(t, conn)}
	blobs, err := natslog.OpenBlobs(t.Context(), conn, natslog.BlobsOptions{Bucket: "blobs"})
	require.NoError(t, err)
	dir, based := filepath.Join(t.TempDir(), "data"), make(chan bool, 1)
	open := func() *pawl.Engine {
		log, err := natslog.Open(t.Context(), conn, natslog.Options{Name: "small", MaxBytes: 300_000})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e, err := pawl.Open(ctx, dir, pawl.Options{
			Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return harness.RandomLetters(10 << 10), nil }}, Durability: pawl.ProcessCrash,
			Blobs: blobs, Remote: pawl.RemoteOptions{Log: log, Bases: bases, Rebase: time.Second, Report: func(r pawl.RemoteReport) {
				if r.Err == nil {
					select {
					case based <- true:
					default:
					}
				}
			}},
		})
		require.NoError(t, err)
		return e
	}
	e, started := open(), 0
	start := func() error {
		started++
		return e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", started)), Definition: define(t, single)}, nil)
	}
	for range 3 {
		require.NoError(t, start())
	}
	<-based // behind the one that the opening made
	bases.away.Store(true)
	for err = start(); err == nil; err = start() {
	}
	require.ErrorIs(t, err, pawl.ErrNoSpace)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // results wait for room
	defer cancel()
	_ = e.Close(ctx)
	_ = e.Close(t.Context()) // its end is waited for
	bases.away.Store(false)
	e = open()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for err = start(); err != nil; err = start() {
		require.ErrorIs(t, err, pawl.ErrNoSpace)
		<-tick.C
	}
	require.NoError(t, e.Close(t.Context()))
}
