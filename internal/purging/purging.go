// Package purging forgets runs that have ended, with all runs below them, alone or many in one transaction.
package purging

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/once"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A Directory is the engine directory as a purge sees it; *store.Dir is one.
type Directory interface {
	Families(ctx context.Context, roots []workflow.RunID) ([]store.Family, error)
	FamiliesOf(ctx context.Context, roots []store.EndedRun) ([]store.Family, error)
	PurgeAll(runs []store.Member, onceKeyOf func(workflow.RunID) string) error
	DropUnusedDefinitions()
	Ended(newest bool) iter.Seq2[store.EndedRun, error]
}

// A Roster says which runs may have an actor; *roster.Roster is one.
type Roster interface {
	Reserve(ctx context.Context, id workflow.RunID) (release func(), err error) // waits until the run has none
	TryReserve(id workflow.RunID) (release func())                              // nil if that takes waiting
}

// Messages are those between parents and children; *roster.Messenger has them.
type Messages interface {
	// ConcernedRoots returns for which of some families a message is on its way, and what is closed when one has arrived.
	ConcernedRoots(roots map[workflow.RunID]bool) (concerned map[workflow.RunID]bool, moved <-chan struct{})
}

// Readers are told of what is purged; *watching.Hub has them.
type Readers interface {
	TellPurge(h *store.Head, at time.Time)
	LoseAll()
}

// Outcomes are those of tasks, which go with their runs; *once.Outcomes has them.
type Outcomes interface {
	Exclude(purge func() error) error // calls purge while none is kept
}

// Options say what a Purger purges from. All fields are needed.
type Options struct {
	Dir      Directory
	Roster   Roster
	Messages Messages
	Readers  Readers
	Until    func(ctx context.Context, commit func() error) error // calls commit, and returns when that does, or ctx is done
	Outcomes Outcomes
	Gone     func(workflow.RunID) // a run was purged, or perhaps was; it is called within Outcomes.Exclude
	Now      func() time.Time
	Logger   *slog.Logger
}

// A Purger purges runs of an engine.
type Purger struct{ o Options }

// New returns a purger.
func New(o Options) *Purger { return &Purger{o} }

// Purge purges a run without a parent that has ended, with those below it, and waits for what goes on there.
func (p *Purger) Purge(ctx context.Context, act state.Act, id workflow.RunID) error {
	d := doomed{root: id}
	all := purging{Purger: p, act: act, waits: true}
	if err := all.purgeFamilies(ctx, []*doomed{&d}); err != nil {
		return err
	}
	p.o.Dir.DropUnusedDefinitions()
	return d.err
}

// Look returns what Purge would forget now, the run first, and fails as Purge would.
func (p *Purger) Look(ctx context.Context, id workflow.RunID) (store.Family, error) {
	d := doomed{root: id}
	if err := p.lookAtDoomed(ctx, []*doomed{&d}); err != nil || d.err != nil {
		return nil, errors.Join(err, d.err)
	}
	return d.family, nil
}

// A Rule says how long runs are kept that have ended, see pawl.Retention.
type Rule struct {
	Workflow string               // name of the definition; "" is any
	Status   []workflow.RunStatus // in which they ended, any of these; none is any
	Before   time.Time            // runs that ended before it go; zero is no bound
	Age      time.Duration        // since the end, after which a run goes; 0 is no bound
	Keep     int                  // so many that ended last stay; 0 is no bound
}

// untilInstant returns the instant before which runs must have ended to go, whatever their number; zero if all may stay.
func (r *Rule) untilInstant(now time.Time) time.Time {
	if old := now.Add(-r.Age); r.Age > 0 && old.After(r.Before) {
		return old
	}
	return r.Before
}

// ruleOf returns the first rule that covers a run, nil if none does.
func ruleOf(rules []Rule, run *store.EndedRun) *Rule {
	for i := range rules {
		r := &rules[i]
		if (r.Workflow == "" || r.Workflow == run.Workflow) && (len(r.Status) == 0 || slices.Contains(r.Status, run.Status)) {
			return r
		}
	}
	return nil
}

// PurgeEnded purges runs that have ended as the first rule says that covers them, and returns how many without a parent those were.
func (p *Purger) PurgeEnded(ctx context.Context, act state.Act, rules []Rule) (n int, err error) {
	defer func() {
		if n > 0 {
			p.o.Dir.DropUnusedDefinitions() // once for all of them
		}
	}()
	now := time.Now()
	last, count := time.Time{}, false
	for i := range rules {
		r := &rules[i]
		if r.Age < 0 || r.Keep < 0 {
			return 0, fmt.Errorf("%w: a retention of %v and %d runs: neither may be negative", refusal.ErrInvalid, r.Age, r.Keep)
		}
		count = count || r.Keep > 0
		if until := r.untilInstant(now); until.After(last) {
			last = until
		}
	}
	if !last.IsZero() {
		n, err = p.purgeWhile(ctx, act, false, func(run *store.EndedRun) (purge, stop bool) {
			r := ruleOf(rules, run)
			return r != nil && run.At.Before(r.untilInstant(now)), !run.At.Before(last)
		})
	}
	if err != nil || !count {
		return n, err
	}
	ended := map[*Rule]int{}
	more, err := p.purgeWhile(ctx, act, true, func(run *store.EndedRun) (purge, stop bool) {
		r := ruleOf(rules, run)
		ended[r]++
		return r != nil && r.Keep > 0 && ended[r] > r.Keep, false
	})
	return n + more, err
}

// purgeWhile asks about runs that have ended, in the order of their ends or with newest in
// the opposite one, and purges those for which ask says so, until ask says to stop.
func (p *Purger) purgeWhile(ctx context.Context, act state.Act, newest bool, ask func(*store.EndedRun) (purge, stop bool)) (n int, err error) {
	var chosen []store.EndedRun
	for run, err := range p.o.Dir.Ended(newest) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return n, refusal.Closed(err)
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
		more, err := p.purgeChosen(ctx, act, chosen)
		if n, chosen = n+more, chosen[:0]; err != nil {
			return n, err
		}
	}
	more, err := p.purgeChosen(ctx, act, chosen)
	return n + more, err
}

// purgeChosen purges some runs together, if their rows still say what chosen says; and then, one after the other, those that
// had to be left out, because something goes on in them or below. It returns how many were purged, and why the first of the
// others stays, if that is an error.
func (p *Purger) purgeChosen(ctx context.Context, act state.Act, chosen []store.EndedRun) (n int, err error) {
	if len(chosen) == 0 {
		return 0, nil
	}
	all := make([]*doomed, len(chosen))
	for i := range chosen {
		all[i] = &doomed{root: chosen[i].Run, found: &chosen[i]}
	}
	purge := func(waits bool, some []*doomed) error {
		together := purging{Purger: p, act: act, waits: waits}
		err := together.purgeFamilies(ctx, some)
		n += int(together.gone.Load())
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
		if d.err != nil && !errors.Is(d.err, store.ErrNotEnded) && !errors.Is(d.err, store.ErrRunNotFound) {
			return n, d.err
		}
	}
	return n, nil
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
	*Purger
	act   state.Act
	waits bool

	held map[workflow.RunID]func() // reserved runs, and what gives each back
	gone atomic.Int64              // how many of the runs without a parent are purged
}

// A doomed is a run that is to be purged, with what is below it.
type doomed struct {
	root   workflow.RunID
	found  *store.EndedRun // what the run has to be still; nil: anything
	family store.Family    // as it was found last
	err    error           // why it stays
}

// errLeftOut says that a purging would have had to wait.
var errLeftOut = errors.New("it is to be purged by itself")

// purgeFamilies purges what can be, and leaves with each of the others why it stays.
func (p *purging) purgeFamilies(ctx context.Context, all []*doomed) error {
	p.held = map[workflow.RunID]func(){}
	if err := p.reserveAll(ctx, all); err != nil {
		p.releaseRuns()
		return err
	}
	return p.o.Until(ctx, func() error {
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
			return late.Cause(ctx)
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
		if err := p.lookAtDoomed(ctx, all); err != nil {
			return nil, err
		}
	}
	open := stillDoomed(all)
	for _, d := range open { // the first of each family: nobody else reserves the others
		if err := p.reserveRun(ctx, d, d.root); err != nil {
			return nil, err
		}
	}
	for open = stillDoomed(open); len(open) > 0; {
		if moved := p.findMoving(open); moved != nil {
			return moved, nil
		}
		open = stillDoomed(open)
		if err := p.lookAtDoomed(ctx, open); err != nil {
			return nil, err
		}
		var grown []*doomed
		for _, d := range stillDoomed(open) {
			before := len(p.held)
			for i := range d.family {
				if err := p.reserveRun(ctx, d, d.family[i].Head.Run); err != nil {
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

// reserveRun reserves a run of a family, unless that was done.
func (p *purging) reserveRun(ctx context.Context, d *doomed, id workflow.RunID) (err error) {
	if p.held[id] != nil || d.err != nil {
		return nil
	}
	release := (func())(nil)
	if p.waits {
		release, err = p.o.Roster.Reserve(ctx, id)
	} else if release = p.o.Roster.TryReserve(id); release == nil {
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
	concerned, moved := p.o.Messages.ConcernedRoots(roots)
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
func (p *Purger) lookAtDoomed(ctx context.Context, all []*doomed) error {
	families, err := p.findFamilies(ctx, all)
	if err != nil {
		return refusal.Closed(err)
	}
	for i, d := range all {
		d.family = families[i]
		d.err = d.checkFamily()
	}
	return nil
}

// findFamilies finds runs that were all named, or all found.
func (p *Purger) findFamilies(ctx context.Context, all []*doomed) ([]store.Family, error) {
	named, found := make([]workflow.RunID, 0, len(all)), make([]store.EndedRun, 0, len(all))
	for _, d := range all {
		if d.found != nil {
			found = append(found, *d.found)
		} else {
			named = append(named, d.root)
		}
	}
	if len(found) > 0 {
		return p.o.Dir.FamiliesOf(ctx, found)
	}
	return p.o.Dir.Families(ctx, named)
}

// isFoundAgain reports whether a run is still the one that was found, if it was.
func (d *doomed) isFoundAgain(h *store.Head) bool {
	f := d.found
	return f == nil || h.Workflow == f.Workflow && h.Status == f.Status && h.EndedAt.Equal(f.At)
}

// checkFamily says why a family that was found stays.
func (d *doomed) checkFamily() error {
	root := &d.family[0]
	h := &root.Head
	switch {
	case root.Err != nil && (d.found != nil || !errors.Is(root.Err, store.ErrCorrupt)):
		return refusal.Closed(root.Err)
	case root.Err != nil: // a damaged run can be forgotten by its name
	case !d.isFoundAgain(h):
		return store.ErrRunNotFound // it was purged meanwhile, and the id is of another one
	case !h.Status.Final():
		return fmt.Errorf("%w: run %q", store.ErrNotEnded, string(h.Run))
	case h.Parent != "":
		return fmt.Errorf("%w: run %q is a child of %q: purge the run %q", refusal.ErrInvalid, string(h.Run), string(h.Parent), string(h.Root))
	}
	for i := range d.family[1:] {
		m := &d.family[1+i]
		if m.Err != nil {
			return refusal.Closed(m.Err)
		}
		if !m.Head.Status.Final() {
			return fmt.Errorf("%w: run %q, a child of %q", store.ErrNotEnded, string(m.Head.Run), string(m.Head.Parent))
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
			p.o.Logger.Info("pawl: run purged", "run", string(d.root), "runs", len(d.family), "by", p.act.By, "reason", p.act.Reason)
		}
	}
	return nil
}

// lowestFirst returns the runs of some families in the order in which they are purged, and to which each belongs.
//
// Children come before the run above them: after a crash in between, that one is there still, by which alone they can be
// purged.
func lowestFirst(all []*doomed) (runs []store.Member, of []*doomed) {
	n := 0
	for _, d := range all {
		n += len(d.family)
	}
	runs, of = make([]store.Member, 0, n), make([]*doomed, 0, n)
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
	damaged := make([]bool, len(runs))
	for i := range runs {
		damaged[i] = runs[i].Err != nil
	}
	err := p.o.Outcomes.Exclude(func() error {
		err := p.o.Dir.PurgeAll(runs, once.KeyOf)
		for i := range runs {
			p.o.Gone(runs[i].Head.Run)
		}
		return err
	})
	if err != nil {
		p.o.Readers.LoseAll()
		return refusal.Closed(err)
	}
	now, known := p.o.Now(), true
	for i := range runs {
		m := &runs[i]
		if m.Err != nil { // ErrRunNotFound says that the run that was found is gone by another's doing
			of[i].err = fmt.Errorf("purge run %q: %w", string(m.Head.Run), refusal.Closed(m.Err))
		}
		if m.Err != nil || damaged[i] {
			known = false
		} else {
			p.o.Readers.TellPurge(&m.Head, now)
		}
	}
	if !known {
		p.o.Readers.LoseAll()
	}
	return nil
}
