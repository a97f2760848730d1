package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A Retention says how long runs are kept that have ended: those of a workflow, those that
// ended in some way. One with neither Age nor Keep keeps them for ever.
type Retention struct {
	Workflow string               // name of the definition; "" is any
	Status   []workflow.RunStatus // in which they ended, any of these; none is any
	Age      time.Duration        // since the end, after which a run goes; 0 is no bound
	Keep     int                  // so many that ended last stay, older ones go; 0 is no bound
}

// ruleOf returns the first rule that covers a run, nil if none does.
func ruleOf(rules []Retention, run *store.EndedRun) *Retention {
	for i := range rules {
		r := &rules[i]
		if (r.Workflow == "" || r.Workflow == run.Workflow) && (len(r.Status) == 0 || slices.Contains(r.Status, run.Status)) {
			return r
		}
	}
	return nil
}

// PurgeEnded purges runs that have ended, each as Purge does, with its children, and returns
// how many runs without a parent those were. The first rule that covers a run decides: it goes
// when it is older than the rule's age, or when as many as the rule keeps have ended after it.
// A run that no rule covers stays, and so does one below which something has not ended.
//
// It purges one run after the other, by the index of their ends, and the commits of other
// runs go on in between. With ages alone it looks at no run that is
// younger than all of them. It may be
// repeated, also after an error, at which it stops: that of Purge, ErrCorrupt of a damaged
// row, ErrInvalid of a rule with a negative number, or the cause of ctx.
func (e *Engine) PurgeEnded(ctx context.Context, rules ...Retention) (n int, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return 0, err
	}
	if _, err := e.actOf(ctx); err != nil {
		return 0, err
	}
	now := time.Now()
	least, count := time.Duration(0), false
	for _, r := range rules {
		if r.Age < 0 || r.Keep < 0 {
			return 0, fmt.Errorf("%w: a retention of %v and %d runs: neither may be negative", ErrInvalid, r.Age, r.Keep)
		}
		count = count || r.Keep > 0
		if r.Age > 0 && (least == 0 || r.Age < least) {
			least = r.Age
		}
	}
	if least > 0 {
		n, err = e.purgeWhile(ctx, false, func(run *store.EndedRun) (purge, stop bool) {
			r := ruleOf(rules, run)
			return r != nil && r.Age > 0 && run.At.Before(now.Add(-r.Age)), !run.At.Before(now.Add(-least))
		})
	}
	if err != nil || !count {
		return n, err
	}
	ended := map[*Retention]int{}
	more, err := e.purgeWhile(ctx, true, func(run *store.EndedRun) (purge, stop bool) {
		r := ruleOf(rules, run)
		ended[r]++
		return r != nil && r.Keep > 0 && ended[r] > r.Keep, false
	})
	return n + more, err
}

// PurgeBefore purges the runs that ended before an instant, whatever they are: see
// PurgeEnded.
func (e *Engine) PurgeBefore(ctx context.Context, before time.Time) (n int, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return 0, err
	}
	if _, err := e.actOf(ctx); err != nil {
		return 0, err
	}
	return e.purgeWhile(ctx, false, func(run *store.EndedRun) (purge, stop bool) {
		return run.At.Before(before), !run.At.Before(before)
	})
}

// purgeWhile asks about runs that have ended, in the order of their ends or with newest in
// the opposite one, and purges those of which that says so, until it says to stop.
func (e *Engine) purgeWhile(ctx context.Context, newest bool, ask func(*store.EndedRun) (purge, stop bool)) (n int, err error) {
	for run, err := range listUntilDone(ctx, e.dir.Ended(newest)) {
		if err != nil {
			return n, err
		}
		purge, stop := ask(&run)
		if stop {
			break
		}
		if !purge {
			continue
		}
		switch err := e.purgeEnded(ctx, &run); {
		case err == nil:
			n++
		case !errors.Is(err, ErrNotEnded) && !errors.Is(err, ErrRunNotFound):
			return n, err
		}
	}
	return n, nil
}

// purgeEnded purges a run if its row, of which this is a part, is what was written.
func (e *Engine) purgeEnded(ctx context.Context, run *store.EndedRun) error {
	h, err := e.dir.Head(run.Run)
	if err != nil {
		return closedError(err)
	}
	if h.Workflow != run.Workflow || h.Status != run.Status || !h.EndedAt.Equal(run.At) {
		return ErrRunNotFound // it was purged meanwhile, and the id is of another one
	}
	return e.Purge(ctx, run.Run)
}
