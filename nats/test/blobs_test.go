package natstest

import (
	"bytes"
	"fmt"
	"io/fs"
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
	"github.com/pawl-run/pawl/internal/testing/blobtest"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/nats/natslog"
	"github.com/pawl-run/pawl/store"
)

func openBlobs(t testing.TB, conn *nats.Conn) *natslog.Blobs {
	t.Helper()
	b, err := natslog.OpenBlobs(t.Context(), conn, natslog.BlobsOptions{})
	require.NoError(t, err)
	return b
}

// Blobs in a bucket pass what every store must pass, and leave no file behind.
func TestBlobsInABucket(t *testing.T) {
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
		return func() blob.Store {
			b, err := natslog.OpenBlobs(t.Context(), conn, o)
			require.NoError(t, err)
			return b
		}
	})
}

// Nothing is left of a blob that is deleted.
func TestBlobsAreDeleted(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	gone, err := b.Delete(t.Context(), blobtest.Put(t, b, []byte("x")), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.True(t, gone)
	js, err := jetstream.New(conn)
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
	js, err := jetstream.New(conn)
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

// Buckets that cannot be are refused.
func TestBucketsThatCannotBe(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	_, err = js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "brief", TTL: time.Hour})
	require.NoError(t, err)
	for _, o := range []natslog.BlobsOptions{{Bucket: "a.b"}, {Replicas: 6}, {MaxBytes: -1}, {Bucket: "brief"}} {
		_, err := natslog.OpenBlobs(t.Context(), conn, o)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	_, err = natslog.OpenBlobs(t.Context(), nil, natslog.BlobsOptions{})
	require.ErrorIs(t, err, pawl.ErrInvalid)
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
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	for _, name := range []string{"PAWLLOG_left", "OBJ_pawl"} {
		s, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		require.Zero(t, s.CachedInfo().State.Consumers, name)
	}
}
