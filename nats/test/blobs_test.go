package natstest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/nats/natslog"
	"github.com/pawl-run/pawl/store"
)

func openBlobs(t testing.TB, conn *nats.Conn) *natslog.Blobs {
	t.Helper()
	b, err := natslog.OpenBlobs(t.Context(), conn, natslog.BlobsOptions{})
	require.NoError(t, err)
	return b
}

func putBlob(t testing.TB, b blob.Store, content []byte) string {
	t.Helper()
	hash, size, err := b.Put(t.Context(), bytes.NewReader(content))
	require.NoError(t, err)
	require.EqualValues(t, len(content), size)
	return hash
}

func readBlob(t testing.TB, b blob.Store, hash string) ([]byte, error) {
	t.Helper()
	r, err := b.Open(t.Context(), hash)
	if err != nil {
		return nil, err
	}
	defer func() { require.NoError(t, r.Close()) }()
	return io.ReadAll(r)
}

func namesOf(t testing.TB, b blob.Store) (hashes []string) {
	t.Helper()
	for info, err := range b.All(t.Context()) {
		require.NoError(t, err)
		hashes = append(hashes, info.Hash)
	}
	return hashes
}

// Blobs of any size are kept once, under the hashes that a folder gives them.
func TestBlobsInABucket(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	files, err := blob.OpenFiles(t.TempDir(), blob.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, files.Close()) }()
	require.Empty(t, namesOf(t, b))
	want := map[string][]byte{}
	for _, n := range []int{0, 1, 128 << 10, 1 << 20, 1<<20 + 1, 5 << 20} {
		content := bytes.Repeat([]byte{byte(n), 1, 2, 3, 5, 8, 13}, n/7+1)[:n]
		hash := putBlob(t, b, content)
		require.Equal(t, putBlob(t, files, content), hash)
		want[hash] = content
	}
	other := openBlobs(t, conn)
	for hash, content := range want {
		got, err := readBlob(t, other, hash)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
		info, err := other.Stat(t.Context(), hash)
		require.NoError(t, err)
		require.EqualValues(t, len(content), info.Size)
		require.Equal(t, hash, info.Hash)
		require.WithinDuration(t, time.Now(), info.Time, time.Minute)
		require.NoError(t, iotest.TestReader(mustOpen(t, b, hash), content))
	}
	require.Equal(t, namesOf(t, files), namesOf(t, b), "in the order of their hashes")

	hash := namesOf(t, b)[0]
	before, err := b.Stat(t.Context(), hash)
	require.NoError(t, err)
	require.Equal(t, hash, putBlob(t, b, want[hash]))
	after, err := b.Stat(t.Context(), hash)
	require.NoError(t, err)
	require.True(t, after.Time.After(before.Time))
	require.Len(t, namesOf(t, b), len(want))
	leftover, err := fs.Glob(os.DirFS(os.TempDir()), "pawl-blob-*")
	require.NoError(t, err)
	require.Empty(t, leftover)
}

func mustOpen(t testing.TB, b blob.Store, hash string) io.Reader {
	t.Helper()
	r, err := b.Open(t.Context(), hash)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// A blob that was put at a moment or later is not deleted, and a Put between the look and the mark
// wins.
func TestBlobsAreDeleted(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	hash := putBlob(t, b, []byte("x"))
	info, err := b.Stat(t.Context(), hash)
	require.NoError(t, err)
	gone, err := b.Delete(t.Context(), hash, info.Time)
	require.NoError(t, err)
	require.False(t, gone)
	later := info.Time.Add(time.Nanosecond)
	gone, err = b.Delete(t.Context(), hash, later)
	require.NoError(t, err)
	require.True(t, gone)
	gone, err = b.Delete(t.Context(), hash, later)
	require.NoError(t, err)
	require.False(t, gone)
	_, err = readBlob(t, b, hash)
	require.ErrorIs(t, err, blob.ErrMissing)
	_, err = b.Stat(t.Context(), hash)
	require.ErrorIs(t, err, blob.ErrMissing)
	require.Empty(t, namesOf(t, b))
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "OBJ_pawl")
	require.NoError(t, err)
	require.Zero(t, s.CachedInfo().State.Msgs, "nothing is left of it")

	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				if _, _, err := b.Put(t.Context(), strings.NewReader("y")); err != nil {
					t.Error(err)
				}
				if _, err := b.Delete(t.Context(), hash, time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	hash = putBlob(t, b, []byte("y"))
	got, err := readBlob(t, b, hash)
	require.NoError(t, err)
	require.Equal(t, "y", string(got))
}

// Content that is not what was put is damaged; putting it again mends it.
func TestBlobsThatAreDamaged(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	content := bytes.Repeat([]byte("0123456789"), 50_000)
	hash := putBlob(t, b, content)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	objects, err := js.ObjectStore(t.Context(), "pawl")
	require.NoError(t, err)
	_, err = objects.PutString(t.Context(), strings.TrimPrefix(hash, "sha256:"), "something else")
	require.NoError(t, err)
	_, err = objects.PutString(t.Context(), "notes", "of somebody else")
	require.NoError(t, err)
	_, err = readBlob(t, b, hash)
	require.ErrorIs(t, err, blob.ErrDamaged)
	require.Equal(t, []string{hash}, namesOf(t, b))
	require.Equal(t, hash, putBlob(t, b, content))
	got, err := readBlob(t, b, hash)
	require.NoError(t, err)
	require.True(t, slices.Equal(content, got))

	info, err := objects.GetInfo(t.Context(), strings.TrimPrefix(hash, "sha256:"))
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "OBJ_pawl")
	require.NoError(t, err)
	last, err := s.GetLastMsgForSubject(t.Context(), "$O.pawl.C."+info.NUID)
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(t.Context(), last.Sequence))
	_, err = readBlob(t, b, hash)
	require.ErrorIs(t, err, blob.ErrDamaged)
}

// Calls that cannot be are refused, and end with their context.
func TestBlobsThatCannotBe(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	for _, hash := range []string{"", "x", "sha256:", "sha256:" + strings.Repeat("A", 64), "sha256:" + strings.Repeat("a", 63), "../" + strings.Repeat("a", 64)} {
		_, err := b.Open(t.Context(), hash)
		require.ErrorIs(t, err, fs.ErrInvalid)
		_, err = b.Stat(t.Context(), hash)
		require.ErrorIs(t, err, fs.ErrInvalid)
		_, err = b.Delete(t.Context(), hash, time.Now())
		require.ErrorIs(t, err, fs.ErrInvalid)
	}
	_, _, err := b.Put(t.Context(), nil)
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, _, err = b.Put(t.Context(), iotest.ErrReader(io.ErrClosedPipe))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = b.Put(ctx, strings.NewReader("x"))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, namesOf(t, b))

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
	small, large := putBlob(t, b, []byte("small")), putBlob(t, b, bytes.Repeat([]byte("large"), 1<<20))
	for _, hash := range []string{small, large} {
		_, err := readBlob(t, b, hash)
		require.NoError(t, err)
	}
	require.Len(t, namesOf(t, b), 2)
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
