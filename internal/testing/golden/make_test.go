package golden

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// The environment that makes the test binary write a directory.
const (
	makeDir  = "PAWL_GOLDEN_DIR"  // where
	makeKill = "PAWL_GOLDEN_KILL" // a failpoint at which it kills itself in the end
)

// TestMake is the process that writes a golden directory; without its
// environment it does nothing. Its time is virtual, so that what waits for long
// waits still and what is filed has been idle.
func TestMake(t *testing.T) {
	dir := os.Getenv(makeDir)
	if dir == "" {
		t.Skip("it is for the process that writes a directory")
	}
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		e, err := pawl.Open(testhook.With(t.Context(), hook), dir, pawl.Options{Executor: hand{making: true}})
		require.NoError(t, err)
		require.NoError(t, fill(t.Context(), e))
		if point := os.Getenv(makeKill); point != "" {
			hook.OnHit(func(name string) {
				if name == point {
					harness.KillProcess()
				}
			})
			require.NoError(t, begin(t.Context(), e, stories[:1], "-last"))
			synctest.Wait()
			t.Fatal("nothing has killed this process")
		}
		require.NoError(t, e.Close(t.Context()))
	})
}

// write has a process write a directory, and be killed at a failpoint, if it is
// not "".
func write(t *testing.T, dir, kill string) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestMake$")
	cmd.Env = harness.Environment(makeDir+"="+dir, makeKill+"="+kill)
	out, err := cmd.CombinedOutput()
	if kill == "" {
		require.NoError(t, err, "%s", out)
		return
	}
	require.True(t, harness.Killed(err), "%v: %s", err, out)
}

// fill makes all runs, early ones and late ones.
func fill(ctx context.Context, e *pawl.Engine) error {
	all, err := definitions()
	if err != nil {
		return err
	}
	for _, d := range all {
		if _, err := e.Publish(ctx, d); err != nil {
			return err
		}
	}
	if _, err := e.Once(ctx, "paid/1", func(context.Context) (any, error) { return object{"receipt": odd}, nil }); err != nil {
		return err
	}
	if err := begin(ctx, e, stories[:1], "-purged"); err != nil {
		return err
	}
	if err := begin(ctx, e, stories, ""); err != nil {
		return err
	}
	pass(time.Minute) // all of them are idle, and filed
	if err := errors.Join(e.Purge(ctx, "done-purged"), makeAll(ctx, e, "")); err != nil {
		return err
	}
	if err := begin(ctx, e, stories, "-late"); err != nil {
		return err
	}
	pass(6 * time.Second) // what is retried or times out does so; nothing is idle for long enough
	if err := makeAll(ctx, e, "-late"); err != nil {
		return err
	}
	synctest.Wait()
	return nil
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func begin(ctx context.Context, e *pawl.Engine, of []story, suffix string) error {
	ref, err := file(ctx, e)
	if err != nil {
		return err
	}
	for _, s := range of {
		in := object{"file": ref}
		for k, v := range s.input {
			in[k] = v
		}
		if err := e.Start(ctx, workflow.Run{ID: workflow.RunID(s.name + suffix), Workflow: s.name, Labels: map[string]string{"story": s.name}}, in); err != nil {
			return err
		}
	}
	return nil
}

func makeAll(ctx context.Context, e *pawl.Engine, suffix string) error {
	for _, s := range stories {
		if s.made == nil {
			continue
		}
		if err := s.made(ctx, e, workflow.RunID(s.name+suffix)); err != nil {
			return err
		}
	}
	return nil
}
