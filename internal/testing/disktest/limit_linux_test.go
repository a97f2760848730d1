//go:build amd64 || arm64

package disktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

// limit sets a soft limit of this process.
func limit(resource int, n uint64) error {
	var was unix.Rlimit
	if err := unix.Getrlimit(resource, &was); err != nil {
		return err
	}
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: min(n, was.Max), Max: was.Max})
}

// small does a work while no file may become larger than so many bytes, until the
// host has been told so in one life.
func (o order) small(ctx context.Context) (any, error) {
	signal.Ignore(syscall.SIGXFSZ)
	if err := limit(unix.RLIMIT_FSIZE, uint64(o.N)); err != nil {
		return nil, err
	}
	h, err := newHost(o.Dir, workNamed(o.Work))
	if err != nil {
		return nil, err
	}
	err = h.liveFor(ctx, o.Life, 3*time.Second)
	if again := limit(unix.RLIMIT_FSIZE, unix.RLIM_INFINITY); again != nil {
		return nil, again
	}
	if h.report.Life, h.report.Done = o.Life, err == nil; err == nil {
		return h.report, nil
	}
	return h.run(ctx, o.Life+1), nil
}

// limited reports whether the host was told that a file may not become larger:
// SQLite says only that a write has failed, SQLITE_IOERR_WRITE. That it has run out
// of time counts for nothing.
func (r report) limited() bool {
	says := func(text string) bool {
		return strings.Contains(text, syscall.EFBIG.Error()) || strings.Contains(text, pawl.ErrNoSpace.Error()) ||
			strings.Contains(text, "disk I/O error (778)")
	}
	return slices.ContainsFunc(r.Told, func(e told) bool { return e.NoSpace || says(e.Text) }) || slices.ContainsFunc(r.Logged, says)
}

// No file may become larger than a limit, as in a container or under ulimit: at
// any size the host is told, and goes on when the limit is gone.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	dir := harness.Workspace(t)
	c, err := startChild(false)
	require.NoError(t, err)
	var sizes []int
	for size := 1 << 10; size <= 512<<10; size += harness.Figure(32<<10, 16<<10, 4<<10) {
		sizes = append(sizes, size)
	}
	trials, hits, wrong := 0, 0, 0
	for _, size := range harness.SampleOfDay(t, harness.Figure(1, 2, 1), sizes) {
		trial, err := newTrial(fmt.Sprint(dir, "/", size), workNamed("small"), nil)
		require.NoError(t, err)
		var r report
		require.NoError(t, c.do(order{Do: "small", Work: "small", Dir: trial.Dir, Life: 1, N: size}, &r))
		trials++
		if r.limited() {
			hits++
		}
		if !r.Done {
			trial.Bad("the host gave up: %+v", r)
		}
		for _, e := range r.Told {
			if e.Corrupt || e.Locked || e.Version {
				trial.Bad("%s: %s", e.Op, e.Text)
			}
		}
		trial.Lives = r.Life
		trial.finish()
		if len(trial.Wrong) > 0 {
			wrong++
			t.Errorf("%d bytes: %.2000s", size, strings.Join(trial.Wrong, "\n"))
		}
	}
	killed, err := c.end()
	require.NoError(t, err)
	require.False(t, killed)
	require.GreaterOrEqual(t, hits, 3, "the limit was not met")
	t.Logf("RLIMIT_FSIZE: %d sizes, %d met, %d violations", trials, hits, wrong)
}

// descriptors are what a host and its engine are told when there are none.
type descriptors struct {
	Runs, Ended int
	Hogged      int
	Started     int // runs while there was no descriptor
	Told        []told
	Logged      []string
}

// waitForLack is how long it may take until a file of a run that sleeps or has ended cannot be written.
const waitForLack = 30 * time.Second

// starve has so many runs active, takes every descriptor that is left, lets half of
// the results come, frees the descriptors, and lets the others come.
func (o order) starve(ctx context.Context) (any, error) {
	if err := limit(unix.RLIMIT_NOFILE, 64); err != nil {
		return nil, err
	}
	h, err := newHost(o.Dir, work{idle: 20 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	h.hit = make(chan struct{}, 1)
	var mu sync.Mutex
	keys := map[workflow.RunID]pawl.Key{}
	out := descriptors{Runs: o.N + 10}
	begun := make(chan struct{}, 4*out.Runs)
	engine, err := h.open(ctx, pawl.Handlers{"*": func(_ context.Context, t pawl.Task) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		if keys[t.Run] == "" {
			begun <- struct{}{}
		}
		keys[t.Run] = t.Key
		return nil, pawl.ErrPending
	}})
	if err != nil {
		return nil, err
	}
	def := &workflow.Definition{Name: "wait", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "a"}}}
	id := func(i int) workflow.RunID { return workflow.RunID(fmt.Sprint("run-", i)) }
	start := func(i int) error {
		return engine.Start(ctx, workflow.Run{ID: id(i), Definition: def}, nil)
	}
	complete := func(i int) error {
		mu.Lock()
		key := keys[id(i)]
		mu.Unlock()
		return engine.Complete(ctx, key, nil)
	}
	for i := range o.N {
		if err := start(i); err != nil {
			return nil, err
		}
		<-begun
	}
	select {
	case <-h.hit: // of before
	default:
	}
	hog := takeDescriptors()
	out.Hogged = len(hog)
	for i := o.N; i < out.Runs; i++ {
		hog = append(hog, takeDescriptors()...) // those that a file had which was written meanwhile
		if err := h.note("start", start(i)); err == nil {
			out.Started++
		}
	}
	for i := range o.N / 2 {
		hog = append(hog, takeDescriptors()...)
		_ = h.note("complete", complete(i)) // it is noted, and repeated below
	}
	select {
	case <-h.hit:
	case <-time.After(waitForLack):
		return nil, fmt.Errorf("nobody lacked a descriptor within %v", waitForLack)
	}
	for _, f := range hog {
		_ = f.Close() // it was not written
	}
	for i := range out.Runs {
		if err := h.retry(ctx, "start", func() error { return start(i) }); err != nil {
			return nil, err
		}
	}
	for range out.Runs - o.N {
		<-begun
	}
	for i := range out.Runs {
		if err := h.retry(ctx, "complete", func() error {
			if err := complete(i); !errors.Is(err, pawl.ErrEnded) && !errors.Is(err, pawl.ErrStale) {
				return err
			}
			return nil
		}); err != nil {
			return nil, err
		}
		end, err := engine.Wait(ctx, id(i))
		if err != nil {
			return nil, err
		}
		if end.Status == workflow.RunCompleted {
			out.Ended++
		}
	}
	out.Told, out.Logged = h.report.Told, h.report.Logged
	return out, engine.Close(ctx)
}

// takeDescriptors opens files until there is no descriptor left.
func takeDescriptors() (out []*os.File) {
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return out
		}
		out = append(out, f)
	}
}

// Descriptors run out under hundreds of runs, most of them asleep: calls fail or
// wait, nothing is lost, and everything goes on when there are descriptors again.
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	for n := range harness.Figure(1, 1, 5) {
		runs := harness.Figure(100, 500, 500+n*375)
		trial, err := newTrial(fmt.Sprint(harness.Workspace(t), "/", n), work{}, nil)
		require.NoError(t, err)
		c, err := startChild(false)
		require.NoError(t, err)
		var d descriptors
		err = c.do(order{Do: "starve", Dir: trial.Dir, N: runs}, &d)
		_, ended := c.end()
		require.NoError(t, errors.Join(ended, err))
		require.Equal(t, d.Runs, d.Ended, "runs that completed")
		require.Positive(t, d.Hogged)
		require.Positive(t, len(d.Told)+len(d.Logged), "nobody lacked a descriptor")
		for _, e := range d.Told {
			require.False(t, e.Corrupt || e.Version || e.Locked, "%+v", e)
		}
		found, err := witness.Take(trial.Dir, false)
		require.NoError(t, err)
		require.Len(t, found, runs+10)
		t.Logf("RLIMIT_NOFILE 64: %d runs, %d descriptors taken, %d started without one, %d calls refused, %d lines logged, 0 violations",
			d.Runs, d.Hogged, d.Started, len(d.Told), len(d.Logged))
	}
}
