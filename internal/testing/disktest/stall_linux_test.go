//go:build amd64 || arm64

package disktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// Every sync takes a while. No task times out, nobody is told of anything, and the
// runs end as they always do.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	delay := harness.Figure[time.Duration](25, 100, 100) * time.Millisecond
	for _, w := range harness.Figure([]work{workNamed("small")}, []work{workNamed("small")}, works) {
		s := newSweep(t, w)
		c := supervised(t)
		dir := filepath.Join(s.dir, "slow")
		trial, err := newTrial(dir, w, s.want)
		require.NoError(t, err)
		slow := 0
		c.set(trial.Engine(), func(c call) verdict {
			if c.class != syncs {
				return verdict{}
			}
			slow++
			return verdict{until: after(delay)}
		})
		var r report
		require.NoError(t, c.do(order{Work: w.name, Dir: dir, Life: 1}, &r))
		c.set("", nil)
		_, err = c.end()
		require.NoError(t, err)
		require.True(t, r.Done)
		require.Equal(t, 1, r.Life)
		require.Zero(t, r.surfaced(), "%+v", r)
		require.Positive(t, slow)
		trial.Lives = r.Life
		trial.finish()
		require.Empty(t, trial.Wrong)
		t.Logf("slow disk: %s: %d syncs of %v, 0 violations", w.name, slow, delay)
	}
}

// A stall holds the calls that it is for until it is over.
type stall struct {
	mu    sync.Mutex
	held  int
	first chan struct{} // closed when a call is held
	over  chan struct{}
}

func newStall() *stall { return &stall{first: make(chan struct{}), over: make(chan struct{})} }

func (s *stall) judge(of func(call) bool) func(call) verdict {
	return func(c call) verdict {
		if (c == call{opens, stalled}) {
			return verdict{until: s.first}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !of(c) {
			return verdict{}
		}
		if s.held++; s.held == 1 {
			close(s.first)
		}
		return verdict{until: s.over}
	}
}

// count returns how many calls were held.
func (s *stall) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// file has one run end, whose filing the supervisor stalls, and then others, until
// all have ended. Only then does it report, and close.
func (o order) file(ctx context.Context) (any, error) {
	h, err := newHost(o.Dir, work{})
	if err != nil {
		return nil, err
	}
	engine, err := h.open(ctx, quick)
	if err != nil {
		return nil, err
	}
	def := &workflow.Definition{Name: "one", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "a", Timeout: time.Hour}}}
	for i := range o.N {
		out, err := engine.Run(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: def}, nil)
		if err := errors.Join(err, out.Err()); err != nil {
			return nil, err
		}
	}
	go func() { _ = engine.Close(ctx) }() // it is stalled; that it comes to its end is seen from outside
	return h.report, nil
}

// The file of one run cannot be written for as long as others need to begin and to
// end: they do not wait for it.
func TestStalledFile(t *testing.T) {
	t.Parallel()
	const runs = 20
	for range harness.Figure(1, 1, 10) {
		trial, err := newTrial(filepath.Join(harness.Workspace(t), "trial"), work{}, nil)
		require.NoError(t, err)
		c := supervised(t)
		s := newStall()
		c.set(trial.Engine(), s.judge(func(c call) bool {
			return c.class == writes && strings.HasPrefix(c.path, "tmp/") && !strings.HasSuffix(c.path, "-redo") && s.held == 0
		}))
		var r report
		require.NoError(t, c.do(order{Do: "file", Dir: trial.Dir, N: runs}, &r))
		<-s.first
		require.Equal(t, 1, s.count(), "more than one file was stalled")
		require.Empty(t, r.Told)
		require.Empty(t, r.Logged)
		close(s.over)
		_, err = c.end()
		require.NoError(t, err)
		trial.reopen(t, runs)
		t.Logf("stalled file: %d other runs ended meanwhile, 0 violations", runs-1)
	}
}

// A closing is how Close took a disk that did not answer.
type closing struct {
	Error   string
	Expired bool // it was the error of the context
	Again   string
}

// Names that do not exist. A child that opens acknowledged tells its supervisor that a
// run was acknowledged, and one that opens stalled waits until a call is held.
const (
	acknowledged = "acknowledged"
	stalled      = "stalled"
)

// signal opens a name that does not exist.
func (o order) signal(name string) error {
	if _, err := os.Open(filepath.Join(o.Dir, "engine", name)); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is there, or cannot be looked for: %w", name, err)
	}
	return nil
}

// close starts a run, and then others, which the supervisor stalls, and then closes the
// engine with a deadline. Then it waits until the disk answers.
func (o order) close(ctx context.Context) (any, error) {
	h, err := newHost(o.Dir, work{})
	if err != nil {
		return nil, err
	}
	engine, err := h.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := engine.Start(ctx, run(0), nil); err != nil {
		return nil, err
	}
	if err := o.signal(acknowledged); err != nil {
		return nil, err
	}
	for i := 1; i < o.N; i++ {
		go func() { _ = engine.Start(ctx, run(i), nil) }() // it is stalled
	}
	if err := o.signal(stalled); err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err = engine.Close(soon)
	return closing{Error: fmt.Sprint(err), Expired: errors.Is(err, context.DeadlineExceeded)}, nil
}

// The disk does not answer at all while an engine closes: Close returns when its
// context is done, a little later, and says so. Everything acknowledged is there.
func TestStalledClose(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	for range harness.Figure(1, 1, 10) {
		trial, err := newTrial(filepath.Join(harness.Workspace(t), "trial"), work{}, nil)
		require.NoError(t, err)
		c := supervised(t)
		s := newStall()
		ready := false
		c.set(trial.Engine(), s.judge(func(c call) bool {
			ready = ready || c == call{opens, acknowledged}
			return ready && c == call{syncs, "pawl.db-wal"}
		}))
		var got closing
		require.NoError(t, c.do(order{Do: "close", Dir: trial.Dir, N: 3}, &got))
		require.True(t, got.Expired, "%+v", got)
		require.Contains(t, got.Error, "the disk does not answer")
		<-s.first
		close(s.over)
		_, err = c.end()
		require.NoError(t, err)
		trial.reopen(t, 1)
		t.Logf("stalled Close: %d calls held, Close returned: %s; 0 violations", s.held, got.Error)
	}
}
