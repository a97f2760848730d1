package decision

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// leave drops what a token has only while it is at its node.
func leave(t *state.Token) {
	t.Due, t.Beat, t.Input, t.Failure = never, never, nil, nil
	t.Holds, t.Held, t.Votes = "", false, nil
}

func evolveHold(s *state.State, d Decision) {
	switch d := d.(type) {
	case StartChild:
		t := *live(s, d.Token)
		t.Status, t.Attempt, t.Input, t.Due, t.Held = workflow.WaitingForChild, d.Attempt, d.Input, d.Due, false
		s.PutToken(&t)
	case EndChild:
		t := *live(s, d.Token)
		t.Status, t.Due = workflow.Pending, never
		s.PutToken(&t)
	case RequestApproval:
		t := *live(s, d.Token)
		t.Status, t.Attempt, t.Due, t.Votes = workflow.WaitingForApproval, d.Attempt, d.Due, nil
		t.Order, t.Held = s.NextPlace(), false
		s.PutToken(&t)
	case AddVote:
		t := *live(s, d.Token)
		t.Votes = append(slices.Clone(t.Votes), d.Vote)
		s.PutToken(&t)
	case DecideApproval:
		t := *live(s, d.Token)
		t.Status, t.Due = workflow.Pending, never
		s.PutToken(&t)
	case AwaitLock:
		t := *live(s, d.Token)
		t.Status, t.Input, t.Order, t.Held = workflow.WaitingForLock, d.Result, s.NextPlace(), false
		s.PutToken(&t)
	case TakeLock:
		if by := s.Holder(d.Lock); by != 0 {
			panic(fmt.Sprintf("decision: %v holds the lock %q that %v takes", by, d.Lock, d.Token))
		}
		t := *live(s, d.Token)
		t.Status, t.Input, t.Holds, t.Held = workflow.Pending, nil, d.Lock, false
		s.PutToken(&t)
	case HoldToken:
		t := *live(s, d.Token)
		t.Status, t.Input, t.Due, t.Beat = workflow.Pending, d.Result, never, never
		t.Held, t.Order = true, s.NextPlace()
		s.PutToken(&t)
	case AwaitJoin:
		t := *live(s, d.Token)
		t.Status, t.Via, t.Caught, t.Order = workflow.WaitingForJoin, d.Via, nil, s.NextPlace()
		s.PutToken(&t)
	case FireJoin:
		for _, id := range d.Tokens {
			complete(s, live(s, id))
		}
	case CancelTokens:
		cancel(s, Standing(s, d))
	default:
		misplaced(d)
	}
}

// Standing returns the tokens that d ends.
func Standing(s *state.State, d CancelTokens) []workflow.TokenID {
	return slices.DeleteFunc(s.TokensOf(d.Scope), func(id workflow.TokenID) bool {
		t := s.Token(id)
		return id == d.Except || t.Status == workflow.WaitingForSiblings || !slices.Contains(d.Nodes, t.Node)
	})
}

func evolveSignal(s *state.State, d Decision) {
	switch d := d.(type) {
	case AwaitEvent:
		t := *live(s, d.Token)
		t.Status, t.Attempt, t.Due, t.Beat = workflow.WaitingForEvent, d.Attempt, d.Due, d.Limit
		t.Input, t.Order, t.Held = d.Result, s.NextPlace(), false
		s.PutToken(&t)
	case KeepSignal:
		k := &state.KeptSignal{Seq: d.Seq, Name: d.Name, ID: d.ID, Due: d.Due, Done: d.Done}
		if !d.Done {
			k.Payload = d.Payload
		}
		if d.Done && d.ID == "" {
			s.NextSignal = d.Seq + 1 // nobody will ask for it
			return
		}
		s.PutSignal(k)
	case TakeSignal:
		t := *live(s, d.Token)
		if t.Status == workflow.WaitingForEvent {
			t.Status, t.Due, t.Beat = workflow.Pending, never, never
			s.PutToken(&t)
		}
		endSignal(s, d.Seq)
	case LoseSignal:
		endSignal(s, d.Seq)
	case RejectSignal: // tells only
	default:
		misplaced(d)
	}
}

// endSignal keeps no more of a signal than its id.
func endSignal(s *state.State, id state.SignalID) {
	old := s.Signal(id)
	if old == nil || old.Done {
		return
	}
	k := *old
	k.Payload, k.Done = nil, true
	s.PutSignal(&k)
}

func evolveOpen(s *state.State, d Decision) {
	switch d := d.(type) {
	case AddBranch:
		addBranch(s, d)
	case CloseGroup:
		g := *s.Group(d.Group)
		g.Open, g.Closed = false, true
		s.PutGroup(&g)
	case ArmGroup:
		g := *s.Group(d.Group)
		g.Due = d.Due
		s.PutGroup(&g)
	default:
		misplaced(d)
	}
}

func addBranch(s *state.State, d AddBranch) {
	g := *s.Group(d.Group)
	t := s.Graph.Transition(g.Spawns[0].Transition)
	last := len(g.Spawns) - 1
	g.Spawns = slices.Clone(g.Spawns)
	if g.Spawns[last].Transition == t.ID {
		g.Spawns[last].Count++
	} else {
		g.Spawns = append(g.Spawns, state.Spawn{Transition: t.ID, Count: 1})
	}
	g.Added = append(slices.Clone(g.Added), d.Token)
	g.Total++
	s.PutGroup(&g)
	if items := s.Items(g.ID); items != nil || t.Foreach != nil {
		for items = slices.Clone(items); len(items) < g.Total-1; {
			items = append(items, nil)
		}
		s.PutItems(g.ID, append(items, d.Item))
	}
	s.PutToken(&state.Token{
		ID: d.Token, Node: t.To, Parent: g.Origin, Counts: Traverse(s.Graph, g.Counts, t),
		Scope: workflow.Scope{Group: g.ID, Branch: g.Total - 1}, Caught: g.Caught,
	})
}

func evolveStep(s *state.State, d Decision) {
	switch d := d.(type) {
	case StartStep:
		x := s.Step(d.Node)
		x.Phase = state.StepStarted
		s.PutStep(&x)
	case EndStep:
		endStep(s, d)
	default:
		misplaced(d)
	}
}

func endStep(s *state.State, d EndStep) {
	x := s.Step(d.Node)
	x.Phase = state.StepDone
	n := s.Graph.Node(d.Node)
	if d.Skipped {
		x.Phase = state.StepSkipped
		if n.KeepsEnd {
			s.SetData(workflow.Scope{}, []string{workflow.SectionNodes, string(d.Node)}, map[string]any{"status": "skipped"})
		}
	}
	s.PutStep(&x)
	taken := d.Taken // in definition order, as what leaves the node
	for _, t := range n.Outgoing {
		y := s.Step(t.To)
		y.Resolved++
		switch {
		case d.All:
			y.Live++
		case len(taken) > 0 && taken[0] == t.ID:
			y.Live++
			taken = taken[1:]
		}
		s.PutStep(&y)
	}
}
