package pawl

import (
	"context"
	"time"

	"github.com/pawl-run/pawl/internal/purging"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Purge forgets a run that has ended, with its children: their rows in the index, their records and their files. The id is free
// again afterwards. Nothing is forgotten if the run or one below it has not ended. After a crash some children may be gone and
// the run not: Purge continues from there. It waits for messages between the runs that are not delivered yet. Blobs that only
// these runs refer to are left to CollectBlobs.
//
// Copies of what was forgotten stay in the logs and in free pages of pawl.db for some ten seconds, and are erased then, or by
// Close. A definition that no run has any more and that is not published goes with later
// purges, or Close. Errors: ErrRunNotFound, ErrNotEnded, ErrInvalid (a child run; purge its
// root), the cause of ctx.
//
// A purge leaves no record. If it is called [As] somebody, or [Because] of something, it is logged afterwards, at level Info:
// run, runs (how many, descendants included), by, reason.
func (e *Engine) Purge(ctx context.Context, id workflow.RunID) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	return e.purger.Purge(ctx, act, id)
}

// A PurgeReport says what Purge of a run would forget.
type PurgeReport struct {
	Run   workflow.RunID
	Runs  int   // how many, with those below it
	Bytes int64 // of their files; blobs and definitions are not counted
}

// DryRunPurge says what Purge of a run would forget now, and fails as Purge would. Nothing is
// changed.
func (e *Engine) DryRunPurge(ctx context.Context, id workflow.RunID) (PurgeReport, error) {
	out := PurgeReport{Run: id}
	if err := e.checkUsable(ctx); err != nil {
		return out, err
	}
	family, err := e.purger.Look(ctx, id)
	for i := range family {
		out.Runs++
		out.Bytes += family[i].FileSize()
	}
	return out, err
}

// dispatchEpoch returns the epoch of the tasks that are dispatched from now on. It changes with every purge, so that no key of a
// purged run fits a run that has its id later.
func (e *Engine) dispatchEpoch() state.Epoch {
	return e.dir.Epoch() + state.Epoch(2*e.purges.Load()) // odd, as every epoch is
}

// A Retention says how long runs are kept that have ended: the runs of a workflow, or the runs that ended in some way. A
// Retention with neither Age nor Keep keeps them for ever.
type Retention struct {
	Workflow string               // name of the definition; "" is any
	Status   []workflow.RunStatus // in which they ended, any of these; none is any
	Before   time.Time            // runs that ended before this instant go; zero is no bound
	Age      time.Duration        // since the end, after which a run goes; 0 is no bound
	Keep     int                  // so many that ended last stay, older ones go; 0 is no bound
}

// PurgeEnded purges runs that have ended, each as Purge does, with its children, and returns
// how many runs without a parent those were. The first rule that covers a run decides: it goes
// when it ended before the rule's instant, when it is older than the rule's age, or when as many as the rule keeps have ended after it.
// A run that no rule covers stays, and so does a run if one below it has not ended.
//
// It goes by the index of their ends, and purges some runs at a time, each with those below it, in one transaction: so
// purging costs less than running them did. The commits of other runs go on in between. Without numbers it looks at no run that is
// younger than all rules allow. It may be
// repeated, also after an error, at which it stops: that of Purge, ErrCorrupt of a damaged
// row, ErrInvalid of a rule with a negative number, or the cause of ctx.
func (e *Engine) PurgeEnded(ctx context.Context, rules ...Retention) (n int, err error) {
	act, err := e.actOf(ctx)
	if err != nil {
		return 0, err
	}
	all := make([]purging.Rule, len(rules))
	for i, r := range rules {
		all[i] = purging.Rule(r)
	}
	return e.purger.PurgeEnded(ctx, act, all)
}

// newPurger returns what purges runs of an engine.
func newPurger(e *Engine) *purging.Purger {
	return purging.New(purging.Options{
		Dir: e.dir, Roster: e.registry, Messages: e.runs.Messenger, Readers: e.watches, Until: e.callUntil, Outcomes: e.once, Now: e.hook.Now, Logger: e.options.Logger,
		Gone: func(id workflow.RunID) {
			e.purges.Add(1)
			e.runs.Forget(id)
		},
	})
}
