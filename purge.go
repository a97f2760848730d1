package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Purge forgets a run that has ended, with its children: their rows in the index,
// their records and their files. The id is free again afterwards. Nothing is
// forgotten if the run or one below it has not ended. After a crash some children may
// be gone and the run not: Purge continues from there. It waits for what the runs
// still have to tell each other. Blobs that only these runs refer to are left to
// CollectBlobs.
//
// Close overwrites what was forgotten. Until then copies stay in the log, until its next
// checkpoint after some 16 MB of commits, and in free pages of pawl.db, until they are used
// again. A definition that no run has any more and that is not published goes with later
// purges, or Close. Errors: ErrRunNotFound, ErrNotEnded, ErrInvalid (a child run; purge its
// root), the cause of ctx.
//
// No record of it is left. If it is called [As] somebody, or [Because] of something,
// the logger is told once it is done, at level Info: run, runs (how many with those
// below it), by, reason.
func (e *Engine) Purge(ctx context.Context, id workflow.RunID) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	if err := e.checkPurgeable(ctx, id); err != nil {
		return err
	}
	runs, release, err := e.reserveDescendants(ctx, id)
	if err != nil {
		return err
	}
	return e.callUntil(ctx, func() error {
		defer release()
		for _, id := range runs {
			if err := e.purgeRun(id); err != nil && !errors.Is(err, ErrRunNotFound) {
				return fmt.Errorf("purge run %q: %w", string(id), closedError(err))
			}
		}
		if act != (state.Act{}) {
			e.options.Logger.Info("pawl: run purged", "run", string(id), "runs", len(runs), "by", act.By, "reason", act.Reason)
		}
		return nil
	})
}

// checkPurgeable refuses a run that Purge does not take.
func (e *Engine) checkPurgeable(ctx context.Context, id workflow.RunID) error {
	h, err := e.dir.HeadUntil(ctx, id)
	switch {
	case errors.Is(err, ErrCorrupt): // a damaged run can be forgotten
		return nil
	case err != nil:
		return closedError(err)
	case !h.Status.Final():
		return fmt.Errorf("%w: run %q", ErrNotEnded, string(id))
	case h.Parent != "":
		return fmt.Errorf("%w: run %q is a child of %q: purge the run %q", ErrInvalid, string(id), string(h.Parent), string(h.Root))
	}
	return nil
}

// A PurgePreview says what Purge of a run would forget.
type PurgePreview struct {
	Run   workflow.RunID
	Runs  int   // how many, with those below it
	Bytes int64 // of their files; blobs and definitions are not counted
}

// PreviewPurge says what Purge of a run would forget now, and fails as Purge would. Nothing is
// changed.
func (e *Engine) PreviewPurge(ctx context.Context, id workflow.RunID) (PurgePreview, error) {
	out := PurgePreview{Run: id}
	if err := e.checkUsable(ctx); err != nil {
		return out, err
	}
	if err := e.checkPurgeable(ctx, id); err != nil {
		return out, err
	}
	runs, err := e.descendants(ctx, id)
	if err != nil {
		return out, err
	}
	out.Runs = len(runs)
	for _, id := range runs {
		size, err := e.dir.FileSize(ctx, id)
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrRunNotFound) {
			return out, closedError(err)
		}
		out.Bytes += size
	}
	return out, nil
}

// reserveDescendants returns an ended run with all runs below it, and keeps them from
// getting actors until release is called. It waits until no message is on its way that
// one of them is to get or that starts one of them: it would reach the run that has
// the id next.
//
// It is a loop because the answer may change while it waits: reserving takes time, in which a
// message that is on its way may start a further child. It ends when, with all runs reserved,
// nothing is on its way and the runs are the same.
func (e *Engine) reserveDescendants(ctx context.Context, root workflow.RunID) (runs []workflow.RunID, release func(), err error) {
	for {
		if runs, err = e.descendants(ctx, root); err != nil {
			return nil, nil, err
		}
		if release, err = e.reserveAll(ctx, runs); err != nil {
			return nil, nil, err
		}
		named := map[workflow.RunID]bool{}
		for _, id := range runs {
			named[id] = true
		}
		moved, yes := e.messenger.concernsRuns(named)
		if !yes {
			now, err := e.descendants(ctx, root)
			if err == nil && len(now) == len(runs) {
				return runs, release, nil
			}
			release() // a message has started one more
			continue
		}
		release()
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// descendants returns the runs below a run, the lowest first, and the run itself
// last.
func (e *Engine) descendants(ctx context.Context, root workflow.RunID) ([]workflow.RunID, error) {
	out := []workflow.RunID{root}
	for i := 0; i < len(out); i++ {
		for h, err := range e.dir.HeadsUntil(ctx, store.RunFilter{Parent: out[i]}) {
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

// reserveAll reserves all runs or none.
func (e *Engine) reserveAll(ctx context.Context, runs []workflow.RunID) (release func(), err error) {
	var held []func()
	release = func() {
		for _, r := range held {
			r()
		}
	}
	for i := len(runs) - 1; i >= 0; i-- { // the root first: nobody else reserves the others
		r, err := e.registry.reserveRun(ctx, runs[i])
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, r)
	}
	return release, nil
}

// purgeRun forgets one run, which is reserved.
//
// A failed purge may have been committed: readers are told to list the runs, rather than to
// believe either.
func (e *Engine) purgeRun(id workflow.RunID) error {
	h, damage := e.dir.Head(id)
	if damage == nil && !h.Status.Final() {
		return ErrNotEnded
	}
	if err := e.dir.Purge(id, onceKeyOf(id)); err != nil {
		e.watches.loseAll() // it may be gone all the same
		return err
	}
	if damage == nil {
		e.watches.tellPurge(&h, e.hook.Now())
	} else {
		e.watches.loseAll()
	}
	e.purges.Add(1)
	e.alarms.forgetRun(id)
	return nil
}

// dispatchEpoch returns the epoch of the tasks that are dispatched from now on. It
// changes with every purge, so that no key of a purged run fits a run that has its id
// later.
func (e *Engine) dispatchEpoch() workflow.Epoch {
	return e.dir.Epoch() + workflow.Epoch(2*e.purges.Load()) // odd, as every epoch is
}
