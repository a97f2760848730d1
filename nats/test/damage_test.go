package natstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/workflow"

	"github.com/pawl-run/pawl/internal/testing/nodestrial"
	"github.com/pawl-run/pawl/nats/natslog"
)

// A bit flips in what a server has of the log, or of the bases, while it is down: the directory, and one that is made of them, is
// refused, or it is as it was.
func TestFlippedBitsOfServers(t *testing.T) {
	trials := 6
	if os.Getenv("PAWL_TEST") == "release" {
		trials = 1000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	files, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	want := ""
	require.NoError(t, withServer(t, files, func(o pawl.Options) error {
		for life := range 3 { // each life has some entries, and the first a base
			e, err := pawl.Open(t.Context(), dir, o)
			require.NoError(t, err)
			for i := range 4 {
				_, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", life, "-", i)), Definition: define(t, fanOut)}, items(3))
				require.NoError(t, err)
			}
			want = nodestrial.SumJournals(t, e)
			require.NoError(t, e.Close(t.Context()))
		}
		return nil
	}))
	x := &flips{t: t, files: files, dir: dir, want: want}
	next := make(chan uint64, trials)
	for i := range trials {
		next <- uint64(i) //nolint:gosec // it counts
	}
	close(next)
	var group sync.WaitGroup
	for range 8 { // what takes time is to wait for servers that do not answer
		group.Go(func() {
			for i := range next {
				x.play(rand.New(rand.NewPCG(seed, i)))
			}
		})
	}
	group.Wait()
	require.False(t, t.Failed())
	t.Logf("%d bits: %d of %d openings refused, %d of what the servers still had, the others as it was", trials, x.refused.Load(), 2*trials, x.older.Load())
}

// flips are trials of one directory and one server.
type flips struct {
	t              *testing.T
	files, dir     string // of the server, of the engine
	want           string
	refused, older atomic.Int64
}

// play flips a bit, and opens the directory, and one that is not there, with what the server has then. If it fails, the goroutine ends.
func (x *flips) play(r *rand.Rand) {
	t := x.t
	damaged, copied := t.TempDir(), filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.CopyFS(damaged, os.DirFS(x.files)))
	require.NoError(t, os.CopyFS(copied, os.DirFS(x.dir)))
	at := flipBit(t, r, damaged)
	fresh := filepath.Join(t.TempDir(), "fresh")
	for _, path := range []string{copied, fresh} {
		err := withServer(t, damaged, func(o pawl.Options) error {
			e, err := pawl.Open(t.Context(), path, o)
			if err != nil {
				return err
			}
			defer func() { require.NoError(t, e.Close(t.Context())) }()
			got := nodestrial.SumJournals(t, e)
			if path == fresh && got != x.want { // nobody but the directory knows what a server has lost of the end
				x.older.Add(1)
				return nil
			}
			require.Equal(t, x.want, got, at)
			return nil
		})
		if err != nil {
			x.refused.Add(1)
			silent := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errNoStart) // a server does not always say why it delivers no more
			require.True(t, silent || errors.Is(err, pawl.ErrCorrupt) || errors.Is(err, blob.ErrDamaged) || errors.Is(err, blob.ErrMissing), "%s: %v", at, err)
		}
	}
	require.NoError(t, errors.Join(os.RemoveAll(damaged), os.RemoveAll(copied), os.RemoveAll(fresh)))
}

// withServer calls f with options of an engine whose log and bases are at a server with such files, a process of its own: one whose files are
// damaged may not come to its start, nor end by itself.
func withServer(t *testing.T, files string, f func(pawl.Options) error) error {
	t.Helper()
	port := freePort(t)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), serverPort+"="+strconv.Itoa(port), serverDir+"="+files)
	said, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	defer kill(t, c)
	ready := make(chan error, 1)
	go func() { // until it has begun, or is killed
		_, err := io.ReadFull(said, make([]byte, len("ready\n")))
		ready <- err
	}()
	select {
	case err := <-ready:
		if err != nil {
			return fmt.Errorf("%w: %w", errNoStart, err)
		}
	case <-time.After(startTime):
		return errNoStart
	}
	conn := connect(t, natsURL(port))
	defer conn.Close()
	log, err := natslog.Open(t.Context(), conn, natslog.Options{})
	if err != nil {
		return err
	}
	o := pawl.Options{Executor: pawl.Handlers{"work": number}, Durability: pawl.ProcessCrash, Remote: pawl.RemoteOptions{Log: log}}
	for name, to := range map[string]*blob.Store{"bases": &o.Remote.Bases, "blobs": &o.Blobs} {
		if *to, err = natslog.OpenBlobs(t.Context(), conn, natslog.BlobsOptions{Bucket: name}); err != nil {
			return err
		}
	}
	return f(o)
}

// errNoStart says that a server has not started.
var errNoStart = errors.New("the server does not start")

// startTime is how long a server may take to start. Where the bit is in the sequence of a message, nats-server 2.15.2 counts up to what stands
// there (msgBlock.indexCacheBuf), for hours.
const startTime = 30 * time.Second

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// flipBit flips a bit in a block of messages, and returns where.
func flipBit(t *testing.T, r *rand.Rand, dir string) string {
	t.Helper()
	var blocks []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".blk") && sizeOf(t, path) > 0 {
			blocks = append(blocks, path)
		}
		return err
	}))
	path := blocks[r.IntN(len(blocks))]
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	at := r.IntN(len(data))
	data[at] ^= 1 << r.IntN(8)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return fmt.Sprintf("byte %d of %d of %s, %v", at, len(data), strings.TrimPrefix(path, dir), time.Now())
}
