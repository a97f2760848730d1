package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A Selection chooses the runs or tokens that DoAll acts on. Exactly one of Runs, DeadLetters and Approvals is set; an empty
// filter selects all, and its Limit bounds how many the call acts on.
type Selection struct {
	Runs        *RunFilter        // those that have not ended: for Cancel, Pause, Resume, Signal, Patch, CancelNodes
	DeadLetters *DeadLetterFilter // for Retry and Skip
	Approvals   *ApprovalFilter   // for Vote

	After  Target // it goes on behind this one, the Cursor of a Report; without one, behind the After of the filter
	DryRun bool   // they are counted, and nothing is changed
}

// A Report is the result of DoAll: each run or token takes the act in full, or not at all. Found is the sum of Changed, Left and
// all refusals; after a dry run it is how many fit or are damaged, which are refused, and the others are 0.
type Report struct {
	Applied bool      `json:"applied"`          // false: it was a dry run, and nothing was changed
	Found   int       `json:"found"`            // that were looked at
	Changed int       `json:"changed"`          // that took it
	Left    int       `json:"left"`             // that are as they were: they had ended or waited no longer, or there was nothing to change
	Refused []Refusal `json:"refused,omitzero"` // those that did not take it, the first 1,000 of them

	Targets []Target `json:"targets,omitzero"` // of a dry run: the first five, on which Simulate can try the act

	// Cursor is the last run or token that was looked at, or Selection.After if none was, if there may be more: the same call
	// goes on with Selection.After = Cursor. It is the zero value when all were.
	Cursor Target `json:"cursor,omitzero"`
}

// A Refusal says why one of many did not take an act.
type Refusal struct {
	Run   workflow.RunID   `json:"run"`
	Token workflow.TokenID `json:"token,omitzero"` // 0 of a run
	Err   error            `json:"-"`
	Why   string           `json:"error"` // Err as a text
}

const (
	maxTargets = 5                // that a Report has
	oneActTime = 30 * time.Second // that DoAll waits for one act
)

// DoAll does an act to all runs or tokens that a selection chooses, one after the other, and reports the results. The oldest come
// first, or the newest runs if their filter says Newest and has a Limit. DoAll passes each once: runs that start behind it are left
// out, and a dead letter that is parked again is not retried twice. A Patch of many runs has no Base: it applies to the present
// revision of each. DoAll sets the token of the act, and its Parked.
//
// An error that concerns one run or token is in the report, and the others are acted on. An error that concerns all of
// them ends the call, with a report of what was done until then: ErrInvalid (also a *WhereError of the filter), ErrClosed,
// ErrNoSpace, ErrFailed, ErrFenced, ErrUnknown, ErrMaintenance, ErrRemote, ErrRunNotFound (the run after which it goes on was
// purged), *EffortError, that of ctx. When ctx ends, the act that is under way is finished, for at most 30 s. To repeat the call, from
// the Cursor of the report or from the beginning, is safe if to repeat the act is.
func (e *Engine) DoAll(ctx context.Context, s Selection, a Act) (Report, error) {
	out := Report{Applied: !s.DryRun}
	if err := e.checkUsable(ctx); err != nil {
		return out, err
	}
	if _, err := e.actOf(ctx); err != nil {
		return out, err
	}
	a, err := s.checkAct(a)
	if err != nil {
		return out, err
	}
	list, limit := e.listSelected(ctx, s)
	out.Cursor = list.after
	for one, err := range list.all {
		if limit > 0 && out.Found == limit {
			return out, nil // an error is of what was not asked for: the call that goes on is told it
		}
		if effort := (*EffortError)(nil); errors.As(err, &effort) {
			out.Cursor = Target{Run: effort.Run, Token: effort.Token}
		}
		if err != nil {
			return out, err
		}
		var changed bool
		if err = one.damage; err == nil && !s.DryRun {
			changed, err = e.doOne(ctx, one.at, a)
		}
		if err := out.addResult(one.at, changed, err); err != nil {
			return out, fmt.Errorf("run %q: %w", string(one.at.Run), err)
		}
	}
	out.Cursor = Target{}
	return out, nil
}

// checkAct returns an act as it is done to each of the selected.
func (s *Selection) checkAct(a Act) (Act, error) {
	filters := len(slices.DeleteFunc([]bool{s.Runs != nil, s.DeadLetters != nil, s.Approvals != nil}, func(there bool) bool { return !there }))
	if filters != 1 {
		return nil, fmt.Errorf("%w: a selection has one of Runs, DeadLetters and Approvals, not %d", ErrInvalid, filters)
	}
	fits := false
	switch p := a.(type) {
	case Retry, Skip:
		fits = s.DeadLetters != nil
	case Vote:
		fits = s.Approvals != nil
	case Cancel, Pause, Resume, Signal, CancelNodes:
		fits = s.Runs != nil
	case Patch:
		fits = s.Runs != nil
		if p.Base != 0 || p.Of == nil && len(p.Ops) == 0 {
			return nil, fmt.Errorf("%w: a patch of many runs has operations and no base: it is for the revision that each of them has", ErrInvalid)
		}
		if p.Of == nil {
			a = Patch{Of: func(*workflow.Definition) []any { return p.Ops }}
		}
	}
	if !fits {
		return nil, fmt.Errorf("%w: %T is not done to all that this selects", ErrInvalid, a)
	}
	return a, nil
}

// selected is one of a selection.
type selected struct {
	at     Target
	damage error // nobody knows whether what is damaged fits the filter, so nothing is done to it
}

// A selectedList lists a selection.
type selectedList struct {
	after Target // it begins behind this one
	all   iter.Seq2[selected, error]
}

// listSelected lists what a selection chooses, and returns its limit. The list looks for one more than the limit, whose presence says
// whether there is a cursor.
func (e *Engine) listSelected(ctx context.Context, s Selection) (list selectedList, limit int) {
	switch {
	case s.DeadLetters != nil:
		f := *s.DeadLetters
		limit, f.Limit = f.Limit, 0
		if s.After.Run != "" {
			f.After, f.AfterToken = s.After.Run, s.After.Token
		}
		return selectedList{Target{Run: f.After, Token: f.AfterToken}, listUntilDone(ctx, e.dir.DeadLetters(ctx, store.DeadLetterFilter(f)), func(l store.DeadLetter) selected {
			return selected{Target{Run: l.Run, Token: l.Token, Parked: true}, l.Damage}
		})}, limit
	case s.Approvals != nil:
		f := *s.Approvals
		limit, f.Limit = f.Limit, 0
		if s.After.Run != "" {
			f.After, f.AfterToken = s.After.Run, s.After.Token
		}
		return selectedList{Target{Run: f.After, Token: f.AfterToken}, listUntilDone(ctx, e.dir.Approvals(ctx, store.ApprovalFilter(f)), func(a store.Approval) selected {
			return selected{Target{Run: a.Run, Token: a.Token}, a.Damage}
		})}, limit
	}
	f := *s.Runs
	limit, f.Limit = f.Limit, 0
	if s.After.Run != "" {
		f.After = s.After.Run
	}
	if limit <= 0 { // also if it goes on from a Cursor, so that both calls go the same way
		f.Newest = false // parents before their children, which would end them in another way
	}
	list.after = Target{Run: f.After}
	if f.Status = unendedOf(f.Status); len(f.Status) == 0 {
		list.all = func(yield func(selected, error) bool) {
			if err := checkWhere(f.Where); err != nil {
				yield(selected{}, err)
			}
		}
		return list, limit
	}
	list.all = listUntilDone(ctx, e.listRuns(ctx, f), func(r listedRun) selected { return selected{Target{Run: r.Run}, r.damage} })
	return list, limit
}

// doOne does the act to one of many, whether or not ctx ends meanwhile, and reports whether it has changed anything.
func (e *Engine) doOne(ctx context.Context, at Target, a Act) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), oneActTime)
	defer cancel()
	switch of := a.(type) {
	case Retry:
		of.Target = at
		a = of
	case Skip:
		of.Target = at
		a = of
	case Vote:
		of.Target = at
		a = of
	}
	d, err := e.performAct(ctx, at.Run, a)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrUnknown, err) // it may be committed all the same
	}
	return err == nil && !d.idle, err
}

// addResult counts what has come of one run or token. It returns an error that concerns all of them.
func (r *Report) addResult(at Target, changed bool, err error) error {
	switch {
	case err == nil && changed:
		r.Changed++
	case err == nil && !r.Applied:
		if len(r.Targets) < maxTargets {
			r.Targets = append(r.Targets, at)
		}
	case err == nil, refusal.Of(err).Gone, at.Token != 0 && errors.Is(err, ErrNotLive):
		r.Left++ // somebody else was first
	case refusal.ConcernsAll(err):
		return err
	case r.Applied && len(r.Refused) < limits.MaxRefusals:
		r.Refused = append(r.Refused, Refusal{at.Run, at.Token, err, err.Error()})
	}
	r.Found++
	r.Cursor = Target{Run: at.Run, Token: at.Token}
	return nil
}

// unendedOf returns those statuses of a filter that a run has before it ends. A filter without statuses has all.
func unendedOf(wanted []workflow.RunStatus) (out []workflow.RunStatus) {
	for s := workflow.RunCreated; !s.Final(); s++ {
		if len(wanted) == 0 || slices.Contains(wanted, s) {
			out = append(out, s)
		}
	}
	return out
}
