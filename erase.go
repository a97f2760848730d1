package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

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
// Copies of what was forgotten stay in the logs and in free pages of pawl.db for some ten seconds, and are erased then, or by
// Close. A definition that no run has any more and that is not published goes with later
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
	d := doomed{root: id}
	p := purging{engine: e, act: act, waits: true}
	if err := p.purge(ctx, []*doomed{&d}); err != nil {
		return err
	}
	return d.err
}

// A PurgePreview says what Purge of a run would forget.
type PurgePreview struct {
	Run   workflow.RunID
	Runs  int   // how many, with those below it
	Bytes int64 // of their files; blobs and definitions are not counted
}

// DryRunPurge says what Purge of a run would forget now, and fails as Purge would. Nothing is
// changed.
func (e *Engine) DryRunPurge(ctx context.Context, id workflow.RunID) (PurgePreview, error) {
	out := PurgePreview{Run: id}
	if err := e.checkUsable(ctx); err != nil {
		return out, err
	}
	d := doomed{root: id}
	if err := e.lookAtDoomed(ctx, []*doomed{&d}); err != nil || d.err != nil {
		return out, errors.Join(err, d.err)
	}
	out.Runs = len(d.family)
	for i := range d.family {
		out.Bytes += d.family[i].FileSize()
	}
	return out, nil
}

const (
	// purgedTogether is how many runs without a parent are purged together: they are found with one turn at the lock of
	// commits, and deleted in one transaction, which is synced once.
	purgedTogether = 64
	// purgedOnce is how many runs one transaction deletes, with those below others. All other commits wait for it, some
	// milliseconds.
	purgedOnce = 64
)

// A purging is some runs without a parent, with all runs below them, that are purged together.
//
// All of them are reserved first: none gets an actor until it is gone. And no message may be on its way that one of them is to
// get, or that starts one more of them: it would reach the run that has the id next. A purging that waits does so for both. A
// purging that does not wait leaves out what it would have to wait for, since it has reserved many runs: two of them, in
// different orders, would wait for each other for ever.
type purging struct {
	engine *Engine
	act    state.Act
	waits  bool

	held map[workflow.RunID]func() // reserved runs, and what gives each back
	gone atomic.Int64              // how many of the runs without a parent are purged
}

// A doomed is a run that is to be purged, with what is below it.
type doomed struct {
	root   workflow.RunID
	is     func(h *store.Head) bool // whether the run is still the one that was meant; nil: any is
	family store.Family             // as it was found last
	err    error                    // why it stays
}

// errLeftOut says that a purging would have had to wait.
var errLeftOut = errors.New("it is to be purged by itself")

// purge purges what can be, and leaves with each of the others why it stays.
func (p *purging) purge(ctx context.Context, all []*doomed) error {
	p.held = map[workflow.RunID]func(){}
	if err := p.reserveAll(ctx, all); err != nil {
		p.releaseRuns()
		return err
	}
	return p.engine.callUntil(ctx, func() error {
		defer p.releaseRuns()
		return p.forgetFamilies(stillDoomed(all))
	})
}

// stillDoomed returns those that have no reason to stay.
func stillDoomed(all []*doomed) []*doomed {
	return slices.DeleteFunc(slices.Clone(all), func(d *doomed) bool { return d.err != nil })
}

// reserveAll reserves all runs. While it waits for a message, none is reserved: the message may be for one of them.
func (p *purging) reserveAll(ctx context.Context, all []*doomed) error {
	for {
		moved, err := p.reserveQuiet(ctx, all)
		if err != nil || moved == nil {
			return err
		}
		p.releaseRuns()
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reserveQuiet reserves all runs, unless a message is on its way that concerns one of them: then it returns what is closed when one
// has arrived.
//
// It is a loop because the answer may change while it waits: reserving takes time, in which a
// message that is on its way may start a further child. It ends when a look finds no run that was not reserved
// before it, while nothing was on its way.
func (p *purging) reserveQuiet(ctx context.Context, all []*doomed) (moved <-chan struct{}, err error) {
	if p.waits { // not for one that goes on
		if err := p.engine.lookAtDoomed(ctx, all); err != nil {
			return nil, err
		}
	}
	open := stillDoomed(all)
	for _, d := range open { // the first of each family: nobody else reserves the others
		if err := p.reserve(ctx, d, d.root); err != nil {
			return nil, err
		}
	}
	for open = stillDoomed(open); len(open) > 0; {
		if moved := p.findMoving(open); moved != nil {
			return moved, nil
		}
		open = stillDoomed(open)
		if err := p.engine.lookAtDoomed(ctx, open); err != nil {
			return nil, err
		}
		var grown []*doomed
		for _, d := range stillDoomed(open) {
			before := len(p.held)
			for i := range d.family {
				if err := p.reserve(ctx, d, d.family[i].Head.Run); err != nil {
					return nil, err
				}
			}
			if len(p.held) > before {
				grown = append(grown, d)
			}
		}
		open = stillDoomed(grown)
	}
	return nil, nil
}

// reserve reserves a run of a family, unless that was done.
func (p *purging) reserve(ctx context.Context, d *doomed, id workflow.RunID) (err error) {
	if p.held[id] != nil || d.err != nil {
		return nil
	}
	release := (func())(nil)
	if p.waits {
		release, err = p.engine.registry.Reserve(ctx, id)
	} else if release = p.engine.registry.TryReserve(id); release == nil {
		d.err = errLeftOut
	}
	if release != nil {
		p.held[id] = release
	}
	return err
}

// releaseRuns gives all runs back.
func (p *purging) releaseRuns() {
	for _, r := range p.held {
		r()
	}
	clear(p.held)
}

// findMoving leaves families out that a message on its way concerns. If they are to be waited for, it returns what is closed when one
// has arrived.
func (p *purging) findMoving(open []*doomed) (moved <-chan struct{}) {
	roots := map[workflow.RunID]bool{}
	for _, d := range open {
		roots[d.root] = true
	}
	concerned, moved := p.engine.messenger.ConcernedRoots(roots)
	if len(concerned) == 0 || p.waits {
		return moved
	}
	for _, d := range open {
		if concerned[d.root] {
			d.err = errLeftOut
		}
	}
	return nil
}

// lookAtDoomed finds runs that are to be purged with those below them, anew, and says of each why it stays, if it does.
func (e *Engine) lookAtDoomed(ctx context.Context, all []*doomed) error {
	roots := make([]workflow.RunID, len(all))
	for i, d := range all {
		roots[i] = d.root
	}
	families, err := e.dir.Families(ctx, roots)
	if err != nil {
		return closedError(err)
	}
	for i, d := range all {
		d.family = families[i]
		d.err = d.check()
	}
	return nil
}

// check says why a family that was found stays.
func (d *doomed) check() error {
	root := &d.family[0]
	h := &root.Head
	switch {
	case root.Err != nil && (d.is != nil || !errors.Is(root.Err, ErrCorrupt)):
		return closedError(root.Err)
	case root.Err != nil: // a damaged run can be forgotten, by who names it
	case d.is != nil && !d.is(h):
		return ErrRunNotFound // it was purged meanwhile, and the id is of another one
	case !h.Status.Final():
		return fmt.Errorf("%w: run %q", ErrNotEnded, string(h.Run))
	case h.Parent != "":
		return fmt.Errorf("%w: run %q is a child of %q: purge the run %q", ErrInvalid, string(h.Run), string(h.Parent), string(h.Root))
	}
	for i := range d.family[1:] {
		m := &d.family[1+i]
		if m.Err != nil {
			return closedError(m.Err)
		}
		if !m.Head.Status.Final() {
			return fmt.Errorf("%w: run %q, a child of %q", ErrNotEnded, string(m.Head.Run), string(m.Head.Parent))
		}
	}
	return nil
}

// forgetFamilies forgets families, which are reserved, some runs at a time.
func (p *purging) forgetFamilies(all []*doomed) error {
	runs, of := lowestFirst(all)
	for from := 0; from < len(runs); from += purgedOnce {
		to := min(from+purgedOnce, len(runs))
		if err := p.forgetSome(runs[from:to], of[from:to]); err != nil {
			return err
		}
	}
	for _, d := range all {
		if d.err != nil {
			continue
		}
		p.gone.Add(1)
		if p.act != (state.Act{}) {
			p.engine.options.Logger.Info("pawl: run purged", "run", string(d.root), "runs", len(d.family), "by", p.act.By, "reason", p.act.Reason)
		}
	}
	return nil
}

// lowestFirst returns the runs of some families in the order in which they are purged, and to which each belongs.
//
// Children come before the run above them: after a crash in between, that one is there still, by which alone they can be
// purged.
func lowestFirst(all []*doomed) (runs []store.Member, of []*doomed) {
	for _, d := range all {
		for _, m := range slices.Backward(d.family) {
			runs, of = append(runs, m), append(of, d)
		}
	}
	return runs, of
}

// forgetSome forgets runs in one transaction. of says to which family each belongs.
//
// A purge that failed may have been committed: readers are told to list the runs, rather than to
// believe either.
func (p *purging) forgetSome(runs []store.Member, of []*doomed) error {
	e := p.engine
	damaged := make([]bool, len(runs))
	for i := range runs {
		damaged[i] = runs[i].Err != nil
	}
	if err := e.dir.PurgeAll(runs, onceKeyOf); err != nil {
		e.watches.LoseAll()
		return closedError(err)
	}
	now, known := e.hook.Now(), true
	for i := range runs {
		m := &runs[i]
		if m.Err != nil && !errors.Is(m.Err, ErrRunNotFound) {
			of[i].err = fmt.Errorf("purge run %q: %w", string(m.Head.Run), closedError(m.Err))
		}
		if m.Err != nil || damaged[i] {
			known = false
		} else {
			e.watches.TellPurge(&m.Head, now)
		}
		e.purges.Add(1)
		e.alarms.Forget(m.Head.Run)
	}
	if !known {
		e.watches.LoseAll()
	}
	return nil
}

// dispatchEpoch returns the epoch of the tasks that are dispatched from now on. It
// changes with every purge, so that no key of a purged run fits a run that has its id
// later.
func (e *Engine) dispatchEpoch() workflow.Epoch {
	return e.dir.Epoch() + workflow.Epoch(2*e.purges.Load()) // odd, as every epoch is
}

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
