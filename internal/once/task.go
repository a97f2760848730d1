package once

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// OwnKeys is how the keys begin that belong to tasks.
const OwnKeys = "pawl:"

// KeyOf returns how the keys of a run's tasks begin.
func KeyOf(run workflow.RunID) string { return OwnKeys + value.Hash(string(run)) + ":" }

// DoTask is Do for an attempt of a task, under a key of its own: the outcome goes with the run.
//
// A handler may outlive its run, since it is told to end and not ended. If the run was purged meanwhile, another may have its id,
// whose tasks have the same effect keys: nothing is read or kept for the attempt then, and DoTask fails with ErrRunNotFound.
func (t *Outcomes) DoTask(ctx context.Context, a taskkey.Attempt, effect string, f func(context.Context) (any, error)) (any, error) {
	return t.performOnce(ctx, keyed{KeyOf(a.Run) + value.Hash(effect), &a}, f)
}

// A keyed is a key, and whose it is.
type keyed struct {
	key string
	of  *taskkey.Attempt // nil for a key of the host
}

// Exclude calls purge, which purges runs, while no outcome of a task is kept.
func (t *Outcomes) Exclude(purge func() error) error {
	t.purging.Lock()
	defer t.purging.Unlock()
	return purge()
}

// checkRun says whether the run of an attempt is there, and is the one that dispatched it: if not, its error is ErrRunNotFound.
//
// Every purge begins another epoch, so that a run that began after the attempt was dispatched did so in a later one. Epochs of
// earlier lives of the engine are in no order, but come before those of this life: an attempt that was dispatched there is of a run
// that began there.
func (t *Outcomes) checkRun(ctx context.Context, k keyed) error {
	now := t.o.Epoch()
	if k.of == nil || now == k.of.Epoch || now == t.o.FirstEpoch { // nothing was purged meanwhile
		return nil
	}
	begun, err := t.findBegin(ctx, k.of.Run)
	if errors.Is(err, store.ErrRunNotFound) || err == nil && t.placeEpoch(begun) > t.placeEpoch(k.of.Epoch) {
		err = fmt.Errorf("%w: run %q was purged while its task was at work", store.ErrRunNotFound, string(k.of.Run))
	}
	return refusal.Closed(err)
}

// findBegin returns the epoch in which a run began. The records that a fork has of another run are not its own.
func (t *Outcomes) findBegin(ctx context.Context, run workflow.RunID) (state.Epoch, error) {
	h, err := t.o.Dir.HeadUntil(ctx, run)
	if err != nil {
		return 0, err
	}
	for r, err := range t.o.Dir.HistoryUntil(ctx, run, h.ForkedFrom.Record) {
		return r.Epoch, err
	}
	return t.o.Epoch(), nil // another run has come in between, which is not so long
}

// placeEpoch returns which epoch of this life one is, from 1; 0 for those of earlier lives. Epochs may pass zero.
func (t *Outcomes) placeEpoch(e state.Epoch) state.Epoch {
	if since := e - t.o.FirstEpoch; since <= t.o.Epoch()-t.o.FirstEpoch {
		return since + 1
	}
	return 0
}
