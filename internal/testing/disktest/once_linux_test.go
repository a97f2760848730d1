//go:build amd64 || arm64

package disktest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A filling fills a disk when an effect is made for the first time, and counts how often it is made.
type filling struct {
	made    atomic.Int64
	release chan func()
}

// charge is an effect with a receipt that needs room.
func (f *filling) charge(t *testing.T, dir string) (any, error) {
	if f.made.Add(1) == 1 {
		f.release <- harness.FillDisk(t, dir, 0)
	}
	return harness.RandomLetters(100 << 10), nil
}

// The disk is full when an effect has been made. Its outcome waits for room, as a result does, and the effect is made once:
// without Once, with it, and with it and further attempts.
func TestOnceOnAFullDisk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for name, retry := range map[string]*workflow.RetrySpec{
		"plain": nil, "once": nil,
		"once-6": {MaxAttempts: 6, InitialInterval: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			trial, h := mounted(t)
			f := &filling{release: make(chan func(), 1)}
			engine, err := h.open(ctx, pawl.Handlers{"charge": func(ctx context.Context, task pawl.Task) (any, error) {
				charge := func(context.Context) (any, error) { return f.charge(t, trial.Engine()) }
				if name == "plain" {
					return charge(ctx)
				}
				return task.Once(ctx, "order/"+name, charge)
			}})
			require.NoError(t, err)
			def := &workflow.Definition{Name: "pay", Start: "charge", Nodes: []workflow.Node{{ID: "charge", Task: "charge", Retry: retry}}}
			require.NoError(t, engine.Start(ctx, workflow.Run{ID: "r", Definition: def}, nil))
			release := <-f.release
			require.Contains(t, h.awaitLog(ctx, t, 0)[0], "the disk is full")
			release()
			out, err := engine.Wait(ctx, "r")
			require.NoError(t, err)
			require.NoError(t, out.Err())
			require.EqualValues(t, 1, f.made.Load(), "the effect was made as often")
			require.NoError(t, engine.Close(ctx))
		})
	}
}

// A caller that stops waiting leaves the outcome in the engine's hands: the next caller gets it, and makes no effect.
func TestOnceIsLeftOnAFullDisk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	trial, h := mounted(t)
	engine, err := h.open(ctx, nil)
	require.NoError(t, err)
	f := &filling{release: make(chan func(), 1)}
	charge := func(context.Context) (any, error) { return f.charge(t, trial.Engine()) }
	impatient, leave := context.WithCancelCause(ctx)
	left := make(chan error)
	go func() {
		_, err := engine.Once(impatient, "order", charge)
		left <- err
	}()
	release := <-f.release
	require.Contains(t, h.awaitLog(ctx, t, 0)[0], "the disk is full")
	gone := fmt.Errorf("the customer has gone")
	leave(gone)
	require.ErrorIs(t, <-left, gone)
	next := make(chan error)
	go func() {
		_, err := engine.Once(ctx, "order", charge)
		next <- err
	}()
	release()
	require.NoError(t, <-next)
	require.EqualValues(t, 1, f.made.Load())

	f = &filling{release: make(chan func(), 1)}
	closing := make(chan error)
	go func() { // nobody frees the disk: the engine closes all the same
		_, err := engine.Once(ctx, "other", charge)
		closing <- err
	}()
	release = <-f.release
	err = engine.Close(ctx)
	release()
	require.Error(t, <-closing)
	t.Logf("Close on a full disk: %v", err)
}
