package natstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/blobtest"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/nats/natslog"
)

// bucketOf returns the stream of the bucket of openBlobs.
func bucketOf(t *testing.T, conn *nats.Conn) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	js, err := newJetStream(conn)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "OBJ_pawl")
	require.NoError(t, err)
	return js, s
}

// countMessages returns how many messages a bucket has.
func countMessages(t *testing.T, s jetstream.Stream) uint64 {
	t.Helper()
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	return info.State.Msgs
}

// In a full bucket a Put takes away nothing that is there, and leaves nothing of what there is no room for.
func TestAPutIntoAFullBucket(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b, err := natslog.OpenBlobs(t.Context(), conn, natslog.BlobsOptions{MaxBytes: 1 << 20})
	require.NoError(t, err)
	var contents [][]byte
	for {
		content := []byte(harness.RandomLetters(100<<10 + len(contents)))
		if _, _, err = b.Put(t.Context(), bytes.NewReader(content)); err != nil {
			break
		}
		contents = append(contents, content)
		require.Less(t, len(contents), 11, "a bucket takes no more than its bound")
	}
	require.ErrorContains(t, err, "maximum bytes exceeded")
	js, s := bucketOf(t, conn)
	there := countMessages(t, s)
	for _, n := range []int{40 << 10, 90 << 10, 300 << 10} {
		content := []byte(harness.RandomLetters(n))
		_, _, err = b.Put(t.Context(), bytes.NewReader(content))
		require.ErrorContains(t, err, "maximum bytes exceeded")
		_, err = b.Stat(t.Context(), fmt.Sprintf("sha256:%x", sha256.Sum256(content)))
		require.ErrorIs(t, err, blob.ErrMissing)
	}
	for _, content := range contents {
		_, _, _ = b.Put(t.Context(), bytes.NewReader(content)) // there may be room for its description, or not
		got, err := blobtest.Read(t, b, fmt.Sprintf("sha256:%x", sha256.Sum256(content)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
	}
	require.Len(t, blobtest.ListHashes(t, b), len(contents))
	require.Equal(t, there, countMessages(t, s), "no chunk is left")

	c := s.CachedInfo().Config
	c.MaxBytes = -1
	_, err = js.UpdateStream(t.Context(), c)
	require.NoError(t, err)
	content := []byte(harness.RandomLetters(300 << 10))
	got, err := blobtest.Read(t, b, blobtest.Put(t, b, content))
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
}

// Chunks for which nobody answers are sent again with their own bytes, as while the servers choose a leader.
func TestAPutThatNobodyAnswersAtFirst(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	js, s := bucketOf(t, conn)
	c := s.CachedInfo().Config
	all := c.Subjects
	take := func(subjects ...string) {
		c.Subjects = subjects
		_, err := js.UpdateStream(t.Context(), c)
		require.NoError(t, err)
	}
	putter := connect(t, conn.ConnectedUrl())
	content := []byte(harness.RandomLetters(3 << 20))
	other := openBlobs(t, putter)
	again(t, func() error { // a Put that nobody answers fails, but not at once
		take("$O.pawl.M.>")
		put, before, begun := make(chan error, 1), putter.Stats().OutBytes, time.Now()
		go func() {
			_, _, err := other.Put(t.Context(), bytes.NewReader(content))
			put <- err
		}()
		require.Eventually(t, func() bool { return putter.Stats().OutBytes-before > 256<<10 }, time.Minute, time.Millisecond)
		require.NoError(t, putter.Flush()) // the server has seen them
		take(all...)
		err := <-put
		require.True(t, err == nil || time.Since(begun) > time.Second, "%v", err)
		return err
	})
	got, err := blobtest.Read(t, b, fmt.Sprintf("sha256:%x", sha256.Sum256(content)))
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
	require.EqualValues(t, 3<<20/(128<<10)+1, countMessages(t, s))
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A read that fails is no end of the content, whatever its error wraps.
func TestAPutOfAReaderThatFails(t *testing.T) {
	b := openBlobs(t, connect(t, startServer(t).ClientURL()))
	for _, size := range []int{0, 100, 2 << 20} {
		broken := io.MultiReader(bytes.NewReader(make([]byte, size)), failing{&net.OpError{Op: "read", Err: io.EOF}})
		_, _, err := b.Put(t.Context(), broken)
		var failed *net.OpError
		require.ErrorAs(t, err, &failed)
	}
	require.Empty(t, blobtest.ListHashes(t, b))
}

// Puts of the same bytes at once leave one blob, and a Delete nothing.
func TestPutsOfOneBlobAtOnce(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	_, s := bucketOf(t, conn)
	content := []byte(harness.RandomLetters(1 << 20))
	for range 3 {
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				if _, _, err := b.Put(t.Context(), bytes.NewReader(content)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1<<20/(128<<10)+1, countMessages(t, s))
		hash := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		got, err := blobtest.Read(t, b, hash)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
		gone, err := b.Delete(t.Context(), hash, time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.True(t, gone)
		require.Zero(t, countMessages(t, s))
	}
}

// A blob that is put again keeps its chunks: it can be read meanwhile.
func TestAPutOfABlobThatIsRead(t *testing.T) {
	b := openBlobs(t, connect(t, startServer(t).ClientURL()))
	content := []byte(harness.RandomLetters(1 << 20))
	hash := blobtest.Put(t, b, content)
	r, err := b.Open(t.Context(), hash)
	require.NoError(t, err)
	require.Equal(t, hash, blobtest.Put(t, b, content))
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
	require.NoError(t, r.Close())
}

// A list deletes the chunks of a Put that did not come to its end, a day later, and neither those of blobs nor of other programs.
func TestChunksThatAreLost(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	hook := &testhook.Hook{}
	b, err := natslog.OpenBlobs(testhook.With(t.Context(), hook), conn, natslog.BlobsOptions{})
	require.NoError(t, err)
	js, s := bucketOf(t, conn)
	kept := blobtest.Put(t, b, make([]byte, 300<<10))
	_, err = js.Publish(t.Context(), "$O.pawl.C.others", []byte("under way"))
	require.NoError(t, err)
	there := countMessages(t, s)
	lost := blobtest.Put(t, b, []byte("lost"))
	about := "$O.pawl.M." + base64.URLEncoding.EncodeToString([]byte(strings.TrimPrefix(lost, "sha256:")))
	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSubject(about))) // as if the Put had died before
	require.Equal(t, []string{kept}, blobtest.ListHashes(t, b))
	require.Equal(t, there+1, countMessages(t, s), "it may be under way")
	hook.SetEraseAfter(1)
	require.Equal(t, []string{kept}, blobtest.ListHashes(t, b))
	require.Equal(t, there, countMessages(t, s))
	got, err := blobtest.Read(t, b, kept)
	require.NoError(t, err)
	require.Len(t, got, 300<<10)
}

// A Put whose context ends leaves nothing.
func TestAPutThatIsCancelled(t *testing.T) {
	url := startServer(t).ClientURL()
	conn := connect(t, url)
	b := openBlobs(t, conn)
	_, s := bucketOf(t, conn)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := &dialer{[]byte(`"stream":"OBJ_pawl","seq":`), cancel} // the answer to a chunk
	putter, err := nats.Connect(url, nats.Timeout(time.Minute), nats.SetCustomDialer(begun))
	require.NoError(t, err)
	defer putter.Close()
	_, _, err = openBlobs(t, putter).Put(ctx, strings.NewReader(harness.RandomLetters(8<<20)))
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, countMessages(t, s))
	require.Empty(t, blobtest.ListHashes(t, b))
}
