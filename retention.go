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

// A Retention says how long runs are kept that have ended: the runs of a workflow, or the runs that ended in some way. A
// Retention with neither Age nor Keep keeps them for ever.
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
// A run that no rule covers stays, and so does a run if one below it has not ended.
//
// It goes by the index of their ends, and purges some runs at a time, each with those below it, in one transaction: so
// purging costs less than running them did. The commits of other runs go on in between. With ages alone it looks at no run that is
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

// PurgeBefore purges all runs that ended before an instant: see PurgeEnded.
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
// the opposite one, and purges those for which ask says so, until ask says to stop.
func (e *Engine) purgeWhile(ctx context.Context, newest bool, ask func(*store.EndedRun) (purge, stop bool)) (n int, err error) {
	var chosen []store.EndedRun
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
		if chosen = append(chosen, run); len(chosen) < purgedTogether {
			continue
		}
		more, err := e.purgeChosen(ctx, chosen)
		if n, chosen = n+more, chosen[:0]; err != nil {
			return n, err
		}
	}
	more, err := e.purgeChosen(ctx, chosen)
	return n + more, err
}

// purgeChosen purges some runs together, if their rows still say what chosen says; and then, one after the other, those that
// had to be left out, because something goes on in them or below. It returns how many were purged, and why the first of the
// others stays, if that is an error.
func (e *Engine) purgeChosen(ctx context.Context, chosen []store.EndedRun) (n int, err error) {
	if len(chosen) == 0 {
		return 0, nil
	}
	act, err := e.actOf(ctx)
	if err != nil {
		return 0, err
	}
	all := make([]*doomed, len(chosen))
	for i, run := range chosen {
		all[i] = &doomed{root: run.Run, is: func(h *store.Head) bool {
			return h.Workflow == run.Workflow && h.Status == run.Status && h.EndedAt.Equal(run.At)
		}}
	}
	purge := func(waits bool, some []*doomed) error {
		p := purging{engine: e, act: act, waits: waits}
		err := p.purge(ctx, some)
		n += int(p.gone.Load())
		return err
	}
	if err := purge(false, all); err != nil {
		return n, err
	}
	for _, d := range all {
		if errors.Is(d.err, errLeftOut) {
			d.err = nil
			if err := purge(true, []*doomed{d}); err != nil {
				return n, err
			}
		}
		if d.err != nil && !errors.Is(d.err, ErrNotEnded) && !errors.Is(d.err, ErrRunNotFound) {
			return n, d.err
		}
	}
	return n, nil
}
