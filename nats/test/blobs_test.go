package natstest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/blobtest"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/servers"
	"github.com/pawl-run/pawl/nats/natslog"
	"github.com/pawl-run/pawl/store"
)

func openBlobs(t testing.TB, conn *nats.Conn) *natslog.Blobs {
	t.Helper()
	return openReplicatedBlobs(t, conn, natslog.BlobsOptions{})
}

// Blobs in a bucket pass what every store must pass, and leave no file behind.
func TestBlobsInABucket(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // other processes have files of that name
	blobtest.Run(t, func(t *testing.T) func() blob.Store {
		conn := connect(t, startServer(t).ClientURL())
		return func() blob.Store { return openBlobs(t, conn) }
	})
	leftover, err := fs.Glob(os.DirFS(os.TempDir()), "pawl-blob-*")
	require.NoError(t, err)
	require.Empty(t, leftover)
}

// Blobs on three servers pass as well, where what answers may be behind the others.
func TestBlobsOnThreeServers(t *testing.T) {
	harness.TurnOfDay(t, harness.Figure(6, 3, 1))
	conn, buckets := connect(t, startCluster(t).url()), 0
	blobtest.Run(t, func(t *testing.T) func() blob.Store {
		buckets++
		o := natslog.BlobsOptions{Bucket: fmt.Sprint("blobs", buckets), Replicas: 3}
		return func() blob.Store { return openReplicatedBlobs(t, conn, o) }
	})
}

// Nothing is left of a blob that is deleted.
func TestBlobsAreDeleted(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	gone, err := b.Delete(t.Context(), blobtest.Put(t, b, []byte("x")), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.True(t, gone)
	js, err := newJetStream(conn)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "OBJ_pawl")
	require.NoError(t, err)
	require.Zero(t, s.CachedInfo().State.Msgs)
}

// Content that is not what was put is damaged; putting it again mends it.
func TestBlobsThatAreDamaged(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	content := bytes.Repeat([]byte("0123456789"), 50_000)
	hash := blobtest.Put(t, b, content)
	js, err := newJetStream(conn)
	require.NoError(t, err)
	objects, err := js.ObjectStore(t.Context(), "pawl")
	require.NoError(t, err)
	_, err = objects.PutString(t.Context(), strings.TrimPrefix(hash, "sha256:"), "something else")
	require.NoError(t, err)
	_, err = objects.PutString(t.Context(), "notes", "of somebody else")
	require.NoError(t, err)
	_, err = blobtest.Read(t, b, hash)
	require.ErrorIs(t, err, blob.ErrDamaged)
	require.Equal(t, []string{hash}, blobtest.ListHashes(t, b))
	require.Equal(t, hash, blobtest.Put(t, b, content))
	got, err := blobtest.Read(t, b, hash)
	require.NoError(t, err)
	require.True(t, slices.Equal(content, got))

	info, err := objects.GetInfo(t.Context(), strings.TrimPrefix(hash, "sha256:"))
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "OBJ_pawl")
	require.NoError(t, err)
	last, err := s.GetLastMsgForSubject(t.Context(), "$O.pawl.C."+info.NUID)
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(t.Context(), last.Sequence))
	_, err = blobtest.Read(t, b, hash)
	require.ErrorIs(t, err, blob.ErrDamaged)
	_, err = b.Stat(t.Context(), hash)
	require.ErrorIs(t, err, blob.ErrDamaged, "a follower puts what is not there")
	require.Equal(t, hash, blobtest.Put(t, b, content))
	_, err = b.Stat(t.Context(), hash)
	require.NoError(t, err)
	got, err = objects.GetBytes(t.Context(), strings.TrimPrefix(hash, "sha256:"))
	require.NoError(t, err, "the client library reads what natslog puts")
	require.True(t, slices.Equal(content, got))
}

// A description that cannot be read hides none of the other blobs from those who list them.
func TestListOfBlobsWithADamagedDescription(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	hashes := []string{}
	for _, content := range []string{"one", "two", "three"} {
		hashes = append(hashes, blobtest.Put(t, b, []byte(content)))
	}
	slices.Sort(hashes)
	subject := "$O.pawl.M." + base64.URLEncoding.EncodeToString([]byte(strings.TrimPrefix(hashes[1], "sha256:")))
	_, err := conn.Request(subject, []byte("{"), time.Minute)
	require.NoError(t, err)
	var listed, damaged []string
	for info, err := range b.All(t.Context()) {
		if err != nil {
			require.ErrorIs(t, err, blob.ErrDamaged)
			damaged = append(damaged, info.Hash)
			continue
		}
		listed = append(listed, info.Hash)
	}
	require.Equal(t, []string{hashes[0], hashes[2]}, listed)
	require.Equal(t, hashes[1:2], damaged)
	blobtest.Put(t, b, []byte("two"))
	blobtest.Put(t, b, []byte("one"))
	blobtest.Put(t, b, []byte("three"))
	require.Equal(t, hashes, blobtest.ListHashes(t, b), "it is put right, and no chunk of the others was deleted")
}

// Buckets that cannot be are refused.
func TestBucketsThatCannotBe(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := newJetStream(conn)
	require.NoError(t, err)
	_, err = js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "brief", TTL: time.Hour})
	require.NoError(t, err)
	_, err = js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "near"})
	require.NoError(t, err)
	for _, o := range []natslog.BlobsOptions{{Bucket: "a.b"}, {Replicas: 6}, {MaxBytes: -1}, {Bucket: "brief"}, {Bucket: "near"}} {
		_, err := natslog.OpenBlobs(t.Context(), conn, o)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"age":   func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"count": func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
		"each":  func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"size":  func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 },
		"old":   func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 10_000, jetstream.DiscardOld },
		"queue": func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"mem":   func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"mute":  func(c *jetstream.StreamConfig) { c.NoAck = true },
		"async": func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"from":  func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "OBJ_brief"}} },
	} {
		c := jetstream.StreamConfig{
			Name: "OBJ_" + name, Subjects: []string{"$O." + name + ".C.>", "$O." + name + ".M.>"}, Discard: jetstream.DiscardNew, AllowRollup: true,
		}
		change(&c)
		_, err := js.CreateStream(t.Context(), c)
		require.NoError(t, err, name)
		_, err = natslog.OpenBlobs(t.Context(), conn, natslog.BlobsOptions{Bucket: name})
		require.ErrorIs(t, err, pawl.ErrInvalid, name)
	}
	s, err := js.Stream(t.Context(), "OBJ_near")
	require.NoError(t, err)
	c := s.CachedInfo().Config
	c.AllowDirect = false
	_, err = js.UpdateStream(t.Context(), c)
	require.NoError(t, err)
	_, err = natslog.OpenBlobs(t.Context(), conn, natslog.BlobsOptions{Bucket: "near"})
	require.NoError(t, err)
	_, err = natslog.OpenBlobs(t.Context(), nil, natslog.BlobsOptions{})
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// A Delete whose connection breaks takes no effect after it has failed.
func TestADeleteWhoseConnectionBreaks(t *testing.T) {
	s := startServer(t)
	r := servers.StartRelay(t, s.Addr().(*net.TCPAddr).Port)
	conn, hook := connect(t, natsURL(r.Port)), &testhook.Hook{}
	b, err := natslog.OpenBlobs(testhook.With(t.Context(), hook), conn, natslog.BlobsOptions{})
	require.NoError(t, err)
	hash := blobtest.Put(t, b, []byte("x"))
	broken := conn.StatusChanged(nats.RECONNECTING)
	hook.OnHit(func(point string) {
		if point == "bucket.described" {
			r.Set(servers.Link{Down: true})
			<-broken
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // it ends at once, or sends the mark when nobody waits any more
	defer cancel()
	_, err = b.Delete(ctx, hash, time.Now().Add(time.Hour))
	require.Error(t, err)
	r.Set(servers.Link{})
	require.Eventually(t, conn.IsConnected, time.Minute, time.Millisecond)
	require.NoError(t, conn.Flush())
	_, err = blobtest.Read(t, b, hash)
	require.NoError(t, err)
}

// A bucket that is opened while somebody else makes it is whole.
func TestBucketsThatAreMadeAtOnce(t *testing.T) {
	url := startServer(t).ClientURL()
	conns := []*nats.Conn{connect(t, url), connect(t, url), connect(t, url), connect(t, url)}
	for i := range 20 {
		var all sync.WaitGroup
		for _, conn := range conns {
			all.Go(func() {
				b, err := natslog.OpenBlobs(t.Context(), conn, natslog.BlobsOptions{Bucket: fmt.Sprint("bucket-", i)})
				if err == nil {
					_, _, err = b.Put(t.Context(), strings.NewReader("content"))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

// A reader of a log or a bucket leaves no consumer behind: a stream has at most a thousand.
func TestReadersLeaveNoConsumers(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	l, b := openLog(t, conn, "left"), openBlobs(t, conn)
	takeLog(t, l, "open")
	small, large := blobtest.Put(t, b, []byte("small")), blobtest.Put(t, b, bytes.Repeat([]byte("large"), 1<<20))
	for _, hash := range []string{small, large} {
		_, err := blobtest.Read(t, b, hash)
		require.NoError(t, err)
	}
	require.Len(t, blobtest.ListHashes(t, b), 2)
	got, err := readLog(t, l, store.Position{})
	require.NoError(t, err)
	require.Len(t, got, 1)
	js, err := newJetStream(conn)
	require.NoError(t, err)
	for _, name := range []string{"PAWLLOG_left", "OBJ_pawl"} {
		require.Eventually(t, func() bool { // a reader does not wait until its consumer is gone
			s, err := js.Stream(t.Context(), name)
			return err == nil && s.CachedInfo().State.Consumers == 0
		}, time.Minute, 10*time.Millisecond, name)
	}
}
