package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Purge forgets a run that has ended, with its children: their rows in the index,
// their records and their files. The id is free again afterwards. Nothing is
// forgotten if the run or one below it goes on. After a crash some children may
// be gone and the run not: Purge goes on from there. It waits for what the runs
// still have to tell each other. Blobs that only these runs refer to are left to
// CollectBlobs. Errors: ErrRunNotFound, ErrNotEnded, ErrInvalid (a child run; purge
// its root), the cause of ctx.
func (e *Engine) Purge(ctx context.Context, id workflow.RunID) error {
	if err := e.usable(ctx); err != nil {
		return err
	}
	h, err := e.dir.Head(id)
	if err != nil && !errors.Is(err, ErrCorrupt) { // what is damaged can be forgotten
		return closedError(err)
	}
	if err == nil && !h.Status.Final() {
		return fmt.Errorf("%w: run %q", ErrNotEnded, string(id))
	}
	if err == nil && h.Parent != "" {
		return fmt.Errorf("%w: run %q is a child of %q: purge the run %q", ErrInvalid, string(id), string(h.Parent), string(h.Root))
	}
	family, release, err := e.reserveFamily(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	for _, id := range family {
		if err := e.purge(id); err != nil && !errors.Is(err, ErrRunNotFound) {
			return fmt.Errorf("purge run %q: %w", string(id), closedError(err))
		}
	}
	return nil
}

// family returns the runs below a run, the lowest first, and the run itself.
func (e *Engine) family(ctx context.Context, root workflow.RunID) ([]workflow.RunID, error) {
	out := []workflow.RunID{root}
	for i := 0; i < len(out); i++ {
		for h, err := range e.dir.AllHeads(store.HeadFilter{Parent: out[i]}) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, closedError(err)
			}
			if !h.Status.Final() {
				return nil, fmt.Errorf("%w: run %q, a child of %q", ErrNotEnded, string(h.Run), string(h.Parent))
			}
			out = append(out, h.Run)
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out, nil
}

// purge forgets one run, which is reserved.
func (e *Engine) purge(id workflow.RunID) error {
	if h, err := e.dir.Head(id); err == nil && !h.Status.Final() {
		return ErrNotEnded
	}
	if err := e.dir.Purge(id, onceKeyOf(id)); err != nil {
		return err
	}
	e.purges.Add(1)
	e.alarms.forget(id)
	return nil
}

// epoch returns the epoch of what is dispatched from now on. It is another one
// after every purge, so that no key of a run that is gone fits one that has its
// id later.
func (e *Engine) epoch() workflow.Epoch {
	return e.dir.Epoch() + workflow.Epoch(2*e.purges.Load()) // odd, as every epoch is
}
