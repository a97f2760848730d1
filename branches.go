package pawl

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A BranchView is one branch of a group, as Branches lists it.
type BranchView struct {
	Group   workflow.GroupID  `json:"group"`
	Index   int               `json:"index"`            // counts from 0
	Path    string            `json:"path"`             // as of the tokens in it
	Token   workflow.TokenID  `json:"token"`            // its first one
	Status  string            `json:"status"`           // running (also before it has begun), arrived, ended (elsewhere, by choice) or failed
	Begun   bool              `json:"begun"`            // false of one that waits for its turn
	Live    int               `json:"live,omitzero"`    // live tokens in it and in the groups within it
	Failure *workflow.Failure `json:"failure,omitzero"` // of a branch that failed
	Item    any               `json:"item,omitzero"`    // the element that it was made for
	// The state and output that it has written itself, until its join has fired: nil if nothing.
	State  map[string]any `json:"state,omitzero"`
	Output map[string]any `json:"output,omitzero"`
}

// A BranchFilter selects branches of a run. The zero value selects all.
type BranchFilter struct {
	Group  workflow.GroupID // of this group; 0 for all groups
	Status string           // with this one; "" for all
}

// branchPage is how many branches are looked at between two turns of the run.
const branchPage = 500

// Branches lists the branches of a run's fan-outs with their statuses and the data that are
// theirs, by group and index, page by page as Tokens does: a branch may have moved on since. The
// values are of the JSON model: do not modify them. An error ends the list. Errors: as of Overview;
// ErrInvalid for a Status that there is not.
func (e *Engine) Branches(ctx context.Context, id workflow.RunID, f BranchFilter) iter.Seq2[BranchView, error] {
	return func(yield func(BranchView, error) bool) {
		if err := f.check(); err != nil {
			yield(BranchView{}, err)
			return
		}
		var kept asleep
		next := workflow.Scope{Group: max(f.Group, 1)}
		for more := true; more; {
			var page []BranchView
			err := e.lookAt(ctx, id, &kept, func(s *state.State, _ int64) { page, more = f.readPage(s, &next) })
			if err != nil {
				yield(BranchView{}, err)
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
		}
	}
}

// Branches lists the branches of the copy, as Engine.Branches lists those of a run. Values are those of the
// copy: do not modify them.
func (s *Simulation) Branches(f BranchFilter) iter.Seq2[BranchView, error] {
	return func(yield func(BranchView, error) bool) {
		err := f.check()
		if !s.isMade() {
			err = errNoSimulation
		}
		if err != nil {
			yield(BranchView{}, err)
			return
		}
		next := workflow.Scope{Group: max(f.Group, 1)}
		for more := true; more; {
			var page []BranchView
			page, more = f.readPage(s.state, &next)
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
		}
	}
}

// check refuses a status that no branch has, which would otherwise select nothing without a
// word.
func (f *BranchFilter) check() error {
	if f.Status == "" {
		return nil
	}
	if _, err := state.ParseBranchStatus(f.Status); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// readPage returns branches from next on, moves next behind them, and reports whether there may be more.
//
// With a group in the filter it ends behind that group's last branch; without one it goes on
// with the next group. A page is as many branches as are looked at, and not as many as fit: a
// run must not be held up by a filter that nothing fits.
func (f *BranchFilter) readPage(s *state.State, next *workflow.Scope) (page []BranchView, more bool) {
	for range branchPage {
		g := s.Group(next.Group)
		for g != nil && next.Branch >= g.Total && f.Group == 0 {
			*next = workflow.Scope{Group: next.Group + 1}
			g = s.Group(next.Group)
		}
		if g == nil || next.Branch >= g.Total {
			return page, false
		}
		if b := s.Branch(*next); f.Status == "" || b.Status.String() == f.Status {
			page = append(page, viewBranch(s, g, *next, b))
		}
		next.Branch++
	}
	return page, true
}

// viewBranch shows a branch. Its element may be a view of other data, and is made plain.
func viewBranch(s *state.State, g *state.Group, sc workflow.Scope, b state.Branch) BranchView {
	view := BranchView{
		Group: g.ID, Index: sc.Branch, Path: s.PathOf(sc), Token: g.TokenOf(sc.Branch),
		Status: b.Status.String(), Begun: sc.Branch < g.Started, Live: b.Live, Failure: b.Failure,
	}
	if items := s.BranchItems(g.ID); sc.Branch < len(items) {
		view.Item = value.Materialize(items[sc.Branch])
	}
	view.State, _ = s.OwnData(sc, workflow.SectionState).(map[string]any)
	view.Output, _ = s.OwnData(sc, workflow.SectionOutput).(map[string]any)
	return view
}

// A KeptSignal is an event that nobody has waited for yet, as Signals lists it.
type KeptSignal struct {
	Seq     int64     `json:"seq"` // counts the signals of the run, from 1
	Name    string    `json:"name"`
	ID      string    `json:"id,omitzero"`      // of the sender; "" without
	Payload any       `json:"payload,omitzero"` // a value of the JSON model: do not modify it
	Due     time.Time `json:"due,omitzero"`     // when it is lost; zero if never
}

// signalPage is how many signals are looked at between two turns of the run.
const signalPage = 1000

// Signals lists the signals that a run keeps because nobody has waited for them yet, oldest
// first, page by page as Tokens does: one may have been taken since. An error ends the list.
// Errors: as of Overview.
func (e *Engine) Signals(ctx context.Context, id workflow.RunID) iter.Seq2[KeptSignal, error] {
	return func(yield func(KeptSignal, error) bool) {
		var kept asleep
		for next, more := state.SignalID(1), true; more; {
			var page []KeptSignal
			err := e.lookAt(ctx, id, &kept, func(s *state.State, _ int64) {
				page, more = readSignals(s, &next)
			})
			if err != nil {
				yield(KeptSignal{}, err)
				return
			}
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
			}
		}
	}
}

// readSignals returns kept signals from next on, moves next behind them, and reports whether there may be more.
//
// Signals that were taken or lost keep their numbers, so that a page may be empty and more may
// come.
func readSignals(s *state.State, next *state.SignalID) (page []KeptSignal, more bool) {
	for end := min(*next+signalPage, s.NextSignal); *next < end; *next++ {
		if k := s.Signal(*next); k != nil && !k.Done {
			page = append(page, KeptSignal{Seq: int64(k.Seq), Name: k.Name, ID: k.ID, Payload: k.Payload, Due: k.Due})
		}
	}
	return page, *next < s.NextSignal
}

// Signals lists the signals that the copy keeps, as Engine.Signals lists those of a run. Values are those of the
// copy: do not modify them.
func (s *Simulation) Signals() iter.Seq[KeptSignal] {
	return func(yield func(KeptSignal) bool) {
		if !s.isMade() {
			return
		}
		for next, more := state.SignalID(1), true; more; {
			var page []KeptSignal
			page, more = readSignals(s.state, &next)
			for i := range page {
				if !yield(page[i]) {
					return
				}
			}
		}
	}
}
