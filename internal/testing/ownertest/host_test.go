//go:build unix

package ownertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// stopSelf stops this process until another has it go on.
func stopSelf() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// host is a host as it should be: it runs an engine until SIGTERM, closes it and
// looks whether anything is left. Its tasks wait, and go when they are told to.
func (s *served) host(c command) reply {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	before := goleak.IgnoreCurrent()
	var err error
	if s.ledger, err = os.OpenFile(ledgerOf(c.Dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return failed("failed", err)
	}
	e, err := pawl.Open(ctx, c.Dir, pawl.Options{Executor: pawl.Handlers{"*": func(ctx context.Context, _ pawl.Task) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}})
	if err != nil {
		return failed("failed", err)
	}
	var next, acks atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for n := next.Add(1); n <= 2*int64(c.Count); n = next.Add(1) {
				id := workflow.RunID(fmt.Sprint("h", n))
				err := e.Start(context.Background(), workflow.Run{ID: id, Definition: work}, nil)
				if err == nil {
					err = s.note("started", id)
				}
				if err != nil {
					if !errors.Is(err, pawl.ErrClosed) {
						s.say(failed("failed", err))
					}
					return
				}
				if acks.Add(1) == int64(c.Count) {
					s.say(reply{Said: "active"})
				}
			}
		})
	}
	<-ctx.Done()
	begin := time.Now()
	bound, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = e.Close(bound)
	took := time.Since(begin)
	group.Wait()
	stop()
	if leak := harness.FindLeaks(before); err == nil {
		err = leak
	}
	if err != nil {
		return failed("failed", err)
	}
	return reply{Said: "closed", Took: took}
}

// TestTerminatedHosts sends SIGTERM to hosts with a thousand active runs, while
// they start more: they close in bounded time, have no goroutine left, and
// nothing that they were told is lost.
func TestTerminatedHosts(t *testing.T) {
	active := harness.Figure(100, 1000, 1000)
	r := rand.New(rand.NewPCG(*seed, 341))
	n, acks, slowest := harness.Figure(1, 2, 20), 0, time.Duration(0)
	for range n {
		dir := filepath.Join(harness.Workspace(t), "engine")
		p := begin(t, "host")
		p.send(command{Do: "host", Dir: dir, Count: active - r.IntN(3)})
		require.Equal(t, "active", p.next().Said)
		asked := time.Now()
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		got := p.next()
		slowest = max(slowest, time.Since(asked))
		require.Equal(t, "closed", got.Said, got.Error)
		p.kill()
		acks += settled(t, dir, nil)
	}
	require.Greater(t, acks, n*(active-3))
	require.Less(t, slowest, patience)
	t.Logf("%d hosts with %d active runs terminated, the slowest closed after %v: %d starts acknowledged, 0 lost, 0 goroutines left; violations: 0", n, active, slowest, acks)
}
