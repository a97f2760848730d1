package replay

import (
	"errors"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An Explanation says why a run stands where it stands.
type Explanation = history.Explanation

// A FailedToken is a token that failed or timed out.
type FailedToken = history.FailedToken

// A FailedBelow is the token of a child run for which that failed.
type FailedBelow = history.FailedBelow

// A Wait is what one token waits for, or several that wait alike.
type Wait = history.Wait

// An Arrival is how a token came to its node.
type Arrival = history.Arrival

// MaxExplained bounds the waits and the failed tokens of an Explanation.
const MaxExplained = 200

// Why plays a recording and says what the run waits for, or why it failed. It takes time in
// proportion to the records; how tokens came to their nodes is planned again, for those that
// are named. If there are more than MaxExplained kinds of waits, the first of them are told.
//
// It reads the recording twice: the first time it only applies the records, and finds out which tokens
// are to be named; the second time addArrivals plans again the few records that made these tokens. To
// plan every record would cost more, mostly
// for tokens that have ended. came maps
// the tokens that are named to where their Arrival goes.
func Why(rec *Recording) (_ Explanation, err error) {
	defer rec.explainPanic(&err)
	p := newPlayer(rec)
	var last decision.Record
	rejected := rejections{}
	for r, err := range rec.eachRecord() {
		if err != nil {
			return Explanation{}, err
		}
		if err := p.applyRecord(&r); err != nil {
			return Explanation{}, err
		}
		rejected.noteErrors(p.state, r.Decisions)
		last = r
	}
	s := p.state
	x := Explanation{Run: s.Run, Workflow: s.Graph.Definition.Name, Status: s.Status, Seq: last.Seq, At: last.At, Failure: s.Failure}
	came := map[workflow.TokenID]**Arrival{}
	if s.Status.Final() {
		addFailed(&x, s)
		for i := range x.Failed {
			came[x.Failed[i].Token] = &x.Failed[i].Came
		}
	} else {
		addWaits(&x, s, rejected)
		for i := range x.Waits {
			came[x.Waits[i].Token] = &x.Waits[i].Came
		}
	}
	return x, addArrivals(rec, came)
}

// maxChains is for how many failed tokens of a run ExplainBelow looks into child runs.
const maxChains = 10

// ExplainBelow adds what failed in the child runs for which tokens failed, and in the child runs of those: the chain down to
// the first failure, of the first ten tokens. find opens the recording of a run, which is closed; where it says
// store.ErrRunNotFound, since a child was purged or is not in an export, the chain ends.
//
// It ends, since each child is another run, below the one before. In a child only the first failed
// token is followed, since the run that failed has mostly failed for it.
func ExplainBelow(x *Explanation, find func(workflow.RunID) (*Recording, error)) error {
	for i := range x.Failed[:min(len(x.Failed), maxChains)] {
		f := &x.Failed[i]
		f.Below = nil
		for child := f.Child; child != ""; {
			rec, err := find(child)
			if errors.Is(err, store.ErrRunNotFound) {
				break
			}
			if err != nil {
				return err
			}
			below, err := Why(rec)
			rec.Close()
			if err != nil {
				return err
			}
			child = ""
			if len(below.Failed) > 0 { // else it was not a token for which it failed
				first := &below.Failed[0]
				f.Below = append(f.Below, FailedBelow{Run: below.Run, Token: first.Token, Place: first.Place, Attempt: first.Attempt, Failure: first.Failure})
				child = first.Child
			}
		}
	}
	return nil
}

// addArrivals finds how tokens came to their nodes.
//
// A record is evolved on an overlay first, to see which tokens it makes; only if one of them is wanted
// it is planned, on the state before it. It returns as soon as all are found, so the records behind
// are not read.
func addArrivals(rec *Recording, wanted map[workflow.TokenID]**Arrival) error {
	p := newPlayer(rec)
	for r, err := range rec.eachRecord() {
		if err != nil {
			return err
		}
		if len(wanted) == 0 {
			return nil
		}
		p.begin(&r)
		ahead := p.state.Overlay()
		for _, d := range r.Decisions {
			decision.Evolve(ahead, d)
		}
		for id := p.state.NextToken; id < ahead.NextToken; id++ {
			if at := wanted[id]; at != nil {
				*at = arrivalOf(p.state, &r, ahead.Token(id))
				delete(wanted, id)
			}
		}
		if err := p.applyRecord(&r); err != nil {
			return err
		}
	}
	return nil
}

// arrivalOf plans a record again, on the state before it, and says how it made a token; nil if
// that grew from none.
//
// A planner that decides otherwise today gives reasons that may not fit; nothing checks that here,
// Check does.
func arrivalOf(s *state.State, r *decision.Record, t *state.Token) *Arrival {
	plan, routes, err := planSafely(s, r.Message, r.At, r.Planner)
	if err != nil || t.Parent == 0 {
		return nil
	}
	a := &Arrival{Seq: r.Seq, At: r.At, Message: messageText(s, r.Message)}
	for i := range routes {
		if routes[i].Token == t.Parent {
			a.From, a.Transitions = string(routes[i].Node), routes[i].Transitions
			if len(a.Transitions) > 0 {
				a.Tier, _ = tierOf(s.Graph, routes[i].Node, a.Transitions[0], routes[i].Caught != nil)
			}
		}
	}
	for _, n := range plan.Trace {
		if n.Token == t.Parent {
			a.Notes = append(a.Notes, n)
		}
	}
	if parent := s.Token(t.Parent); parent != nil {
		a.From = placeOf(s, parent)
	}
	return a
}

// addFailed adds the tokens of a failed run whose failure no transition caught.
//
// The failure of a token that a transition caught is part of a run that went on, and explains nothing.
// They come in the order of their ids, which is that of their making, and so mostly the cause before
// its consequences.
func addFailed(x *Explanation, s *state.State) {
	if s.Status != workflow.RunFailed && s.Status != workflow.RunTimedOut {
		return
	}
	heirs := map[workflow.TokenID][]*state.Token{}
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		t := s.Token(id)
		heirs[t.Parent] = append(heirs[t.Parent], t)
	}
	for id := workflow.TokenID(1); id < s.NextToken && len(x.Failed) < MaxExplained; id++ {
		t := s.Token(id)
		if t.Status != workflow.Failed && t.Status != workflow.TimedOut || wasCaught(s, t, heirs) {
			continue
		}
		f := FailedToken{Token: id, Place: placeOf(s, t), Attempt: t.Attempt, Failure: t.Failure}
		if n := s.Graph.Node(t.Node); n != nil && n.Kind == workflow.KindSubworkflow {
			f.Child = state.ChildID(s.Run, id, t.Attempt)
		}
		f.Try = commandsAfter(s, t, f.Child)
		x.Failed = append(x.Failed, f)
	}
}

// wasCaught reports whether the run went on after a failure: a transition caught it, or that of
// the fan-out around it, or the fan-out's join tolerated it. heirs are the tokens that grew from
// each token.
//
// A token with heirs was left by a transition for failures. Otherwise the groups around it are looked
// at from the inside out: a join that fired in spite of the failure tolerated it; and a group that
// failed puts its failure into a token at the node that fanned out, which may have been caught there.
func wasCaught(s *state.State, t *state.Token, heirs map[workflow.TokenID][]*state.Token) bool {
	if len(heirs[t.ID]) > 0 {
		return true
	}
	for sc := t.Scope; sc.Group != 0; {
		g := s.Group(sc.Group)
		if g.Phase == workflow.Fired {
			return true
		}
		for _, h := range heirs[g.Origin] { // the token that failed in the fan-out's stead
			if h.Node == g.Node && h.Scope == g.Scope && len(heirs[h.ID]) > 0 {
				return true
			}
		}
		sc = g.Scope
	}
	return false
}
