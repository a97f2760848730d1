package recount

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// checkIncident compares the incident that a state tells with what its tokens wait for: the other way
// round, from where tokens are to where they may come.
func checkIncident(s *state.State) error {
	if s.Failure != nil || s.Status.Final() || s.Graph.Definition.Mode == workflow.ModeDAG {
		return nil
	}
	got, want := s.FailureOrIncident(), unmetJoins(s)
	if len(want) == 0 && got == nil || got != nil && want[got.Node] != "" && strings.Contains(got.Message, "lacks "+want[got.Node]+",") {
		return nil
	}
	told := "none"
	if got != nil {
		told = fmt.Sprintf("%q, of which %s", got.Node, got.Message)
	}
	return fmt.Errorf("the joins %v can no longer be met, the state says %s", want, told)
}

// unmetJoins returns the nodes at whose join: all tokens wait for what nothing can bring, with the
// first transition of each that is lacking.
func unmetJoins(s *state.State) map[workflow.NodeID]string {
	type place struct {
		by workflow.TransitionID
		in workflow.Scope
	}
	waits, at, places := map[place]bool{}, map[workflow.NodeID]bool{}, map[joinAt]bool{}
	var queue []workflow.NodeID
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		if t.Status == workflow.WaitingForJoin && s.Graph.Node(t.Node).Join == workflow.JoinAll {
			waits[place{t.Via, t.Scope}], places[joinAt{t.Node, t.Scope}] = true, true
			continue
		}
		at[t.Node] = true
		queue = append(queue, t.Node)
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := s.Group(id); g.Phase == workflow.Gathering {
			at[g.Node] = true
			queue = append(queue, g.Node)
		}
	}
	reached := map[workflow.NodeID]bool{}
	for len(queue) > 0 {
		n := queue[0]
		if queue = queue[1:]; reached[n] {
			continue
		}
		reached[n] = true
		for _, tr := range s.Graph.Node(n).Outgoing {
			queue = append(queue, tr.To)
		}
	}
	out := map[workflow.NodeID]string{}
	for _, n := range s.Graph.Nodes {
		for _, tr := range n.Incoming {
			for p := range places {
				if p.node == n.ID && out[n.ID] == "" && !at[n.ID] && !reached[tr.From] && !waits[place{tr.ID, p.scope}] {
					out[n.ID] = string(tr.ID)
				}
			}
		}
	}
	return out
}

type joinAt struct {
	node  workflow.NodeID
	scope workflow.Scope
}
