package pawl_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// A delayedStore calls a function before the first chunk of a base comes. Open has tried the store with less before.
type delayedStore struct {
	*blob.Files
	once sync.Once
	do   func()
}

func (s *delayedStore) Put(ctx context.Context, r io.Reader) (string, int64, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return "", 0, err
	}
	if len(data) > 4096 {
		s.once.Do(s.do)
	}
	return s.Files.Put(ctx, bytes.NewReader(data))
}

// A fencedLog calls a function when it has the first entry, and answers that another writer has the log.
type fencedLog struct {
	*logtest.Writer
	do func()
}

func (l fencedLog) Append(ctx context.Context, entry []byte) (store.Position, error) {
	p, err := l.Writer.Append(ctx, entry)
	if err == nil {
		l.do()
		err = pawl.ErrFenced
	}
	return p, err
}

// Two machines that open an empty log at the same time: the base of the one that loses it is gone, so that the other one's log and bases are
// trimmed. If the log has that base all the same, it stays, and the other machine has the directory.
func TestRemoteOpensTwiceOnAnEmptyLog(t *testing.T) {
	for name, named := range map[string]bool{"before the base": false, "behind the base": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newMendPlace(t)
				var said bytes.Buffer
				var b *pawl.Engine
				options := func() pawl.Options {
					o := p.options(p.h, nil)
					o.Logger = slog.New(slog.NewTextHandler(&said, nil))
					return o
				}
				other := func() {
					var err error
					b, err = pawl.Open(t.Context(), p.pathOf("b"), options())
					require.NoError(t, err)
				}
				o := options()
				if named {
					o.Remote.Log = fencedLog{p.log.Writer(nil), other}
				} else {
					o.Remote.Bases = &delayedStore{Files: p.bases, do: other}
				}
				_, err := pawl.Open(t.Context(), p.pathOf("a"), o)
				require.ErrorIs(t, err, pawl.ErrFenced)
				_, err = pawl.Restore(t.Context(), p.pathOf("restored"), pawl.RestoreOptions{Log: p.log.Writer(nil), Bases: p.bases})
				require.NoError(t, err)
				for i := range 8 {
					p.run(b, workflow.RunID(fmt.Sprint(i)))
					<-time.After(30 * time.Hour)
				}
				require.NoError(t, b.Close(t.Context()))
				require.Empty(t, said.String())
				p.live("c", 8)
				for range p.bases.All(t.Context()) {
					said.WriteByte('.')
				}
				require.Less(t, said.Len(), 16, "blobs of old bases are deleted")
			})
		})
	}
}

// Open waits for a log that falls silent before it has the first base no longer than its context; the next one goes on.
func TestRemoteOpenEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := pawl.Open(ctx, p.pathOf("a"), p.options(p.h, func(method string) logtest.Fault {
			if method == "Append" {
				return logtest.Hangs
			}
			return logtest.None
		}))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began))
		p.live("a", 1, "one")
	})
}

// A countedStore counts how often each blob is opened.
type countedStore struct {
	*blob.Files
	opens map[string]int
}

func (s countedStore) Open(ctx context.Context, hash string) (io.ReadCloser, error) {
	s.opens[hash]++
	return s.Files.Open(ctx, hash)
}

// A blob that nothing needs any more, and that may not be deleted yet, is looked at once, and not for each base.
func TestRemoteLooksAtAnUnusedBlobOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		p.h["work"] = func(context.Context, pawl.Task) (any, error) { return harness.RandomLetters(20 << 10), nil }
		o := p.options(p.h, nil)
		bases := countedStore{p.bases, map[string]int{}}
		o.Remote.Bases, o.Remote.Rebase = bases, time.Hour
		e, err := pawl.Open(t.Context(), p.pathOf("a"), o)
		require.NoError(t, err)
		for i := range 20 {
			p.run(e, workflow.RunID(fmt.Sprint(i)))
			<-time.After(61 * time.Minute)
		}
		require.NoError(t, e.Close(t.Context()))
		require.Greater(t, len(bases.opens), 20)
		for hash, n := range bases.opens {
			require.LessOrEqual(t, n, 5, hash) // as the manifest of one of the last bases as well
		}
	})
}
