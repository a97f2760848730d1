package simulator

import (
	"fmt"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/recount"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// invariants checks what must hold between any two messages.
func invariants(s *state.State) error {
	for _, check := range []func(*state.State) error{recount.Check, placed, bounded, once} {
		if err := check(s); err != nil {
			return err
		}
	}
	if s.Status.Final() {
		return over(s)
	}
	if err := awaited(s); err != nil {
		return err
	}
	return grouped(s)
}

// over checks a run that has ended: nothing lives, nothing is due.
func over(s *state.State) error {
	if s.LiveCount() != 0 || !s.Alarm().IsZero() || len(planning.Pending(s)) > 0 {
		return fmt.Errorf("the run is %v; %d tokens live, its alarm is %v, %v is pending", s.Status, s.LiveCount(), s.Alarm(), planning.Pending(s))
	}
	return nil
}

// placed checks that whatever lives has its place in the definition.
func placed(s *state.State) error {
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		if s.Graph.Node(t.Node) == nil {
			return fmt.Errorf("%v stands at node %q, which is none", id, string(t.Node))
		}
		if t.Via != "" && s.Graph.Transitions[t.Via] == nil {
			return fmt.Errorf("%v waits by transition %q, which is none", id, string(t.Via))
		}
	}
	return nil
}

// bounded checks the limits of a definition.
func bounded(s *state.State) error {
	l := s.Graph.Limits
	if int(s.NextToken)-1 > l.Tokens || s.LiveCount() > l.LiveTokens {
		return fmt.Errorf("%d tokens made and %d live, at most %d and %d may", s.NextToken-1, s.LiveCount(), l.Tokens, l.LiveTokens)
	}
	for _, most := range s.MetaLimits() {
		if out, _ := s.Reserved().Named(most.Name); s.Patches == 0 && out.Compare(most) > 0 {
			return fmt.Errorf("%v of %s is set aside, at most %v may", out, most.Name, most)
		}
	}
	for _, id := range s.LiveTokens() {
		for tr, n := range s.Token(id).Counts {
			if t := s.Graph.Transitions[tr]; t != nil && t.Loop != nil && s.Patches == 0 && n > t.Loop.MaxIterations {
				return fmt.Errorf("%v has taken %q %d times, at most %d", id, string(tr), n, t.Loop.MaxIterations)
			}
		}
	}
	return nil
}

// once checks that every node of a dag has run once at most.
func once(s *state.State) error {
	if s.Graph.Definition.Mode != workflow.ModeDAG {
		return nil
	}
	seen := map[workflow.NodeID]workflow.TokenID{}
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		n := s.Token(id).Node
		if seen[n] != 0 {
			return fmt.Errorf("node %q of a dag has the tokens %v and %v", string(n), seen[n], id)
		}
		seen[n] = id
	}
	return nil
}

// awaited checks that nothing of a running run is left over or stuck.
func awaited(s *state.State) error {
	if s.LiveCount() == 0 && s.OpenGroups() == 0 {
		return fmt.Errorf("the run is %v and nothing lives in it", s.Status)
	}
	comes := !s.Alarm().IsZero() // something comes by itself, or can be made to come
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		if t.Held && t.Status != workflow.Pending {
			return fmt.Errorf("%v is held and %v", id, t.Status)
		}
		g := s.Group(t.Scope.Group)
		switch t.Status {
		case workflow.WaitingForSiblings:
			if g == nil || g.Phase != workflow.Gathering {
				return fmt.Errorf("%v waits at a join that is over: %+v in %+v", id, t, g)
			}
		case workflow.Pending:
			if !t.Held && (g == nil || t.Scope.Branch < g.Started) {
				return fmt.Errorf("%v is stuck: %+v in %+v", id, t, g)
			}
			comes = comes || t.Held
		case workflow.WaitingForJoin, workflow.WaitingForBudget: // another gives room
		default:
			comes = true
		}
	}
	if !comes && s.OpenGroups() == 0 && s.Status == workflow.RunRunning {
		return fmt.Errorf("nothing can come any more: %+v", tokens(s))
	}
	return nil
}

func tokens(s *state.State) (out []string) {
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		out = append(out, fmt.Sprintf("%v at %s %v in %v", id, string(t.Node), t.Status, t.Scope))
	}
	return out
}

// grouped checks the groups of a running run.
func grouped(s *state.State) error {
	kept, holds := idle(s)
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g.Total == 0 {
			continue
		}
		if next := s.Token(g.TokenOf(min(g.Started, g.Total-1))); g.Started < g.Total && next.Live() && !next.Held && (g.Max == 0 || g.RunningBranches() < g.Max) {
			return fmt.Errorf("%v could begin in %+v", next, g)
		}
		if g.Phase != workflow.Gathering {
			continue
		}
		if g.Live == 0 && (!g.Open || g.Closed) && !holds[id] {
			return fmt.Errorf("%v gathers and nothing lives in it: %+v", id, g)
		}
		if sc := g.Scope; sc.Group != 0 && s.Branch(sc).Status != state.BranchRunning {
			return fmt.Errorf("%v gathers in %v, a branch that is %v", id, sc, s.Branch(sc).Status)
		}
		if outer := s.Group(g.Scope.Group); outer != nil && outer.Phase > workflow.Fired {
			return fmt.Errorf("%v gathers in %v, which is %v", id, outer.ID, outer.Phase)
		}
	}
	for _, d := range s.AllData() {
		if sc := d.Scope; sc.Group != 0 && !kept[sc] && len(s.TokensInScope(sc)) == 0 {
			return fmt.Errorf("the data of %v outlive it: %+v", sc, s.Branch(sc))
		}
	}
	return nil
}

// idle returns the branches and groups in which a group is open, or held back by
// stragglers of another occurrence: it may have nobody in it, and go on later.
func idle(s *state.State) (map[workflow.Scope]bool, map[workflow.GroupID]bool) {
	scopes, groups := map[workflow.Scope]bool{}, map[workflow.GroupID]bool{}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		held := blocked(s, g)
		if g.Phase != workflow.Gathering || !held && (!g.Open || g.Closed) {
			continue
		}
		groups[id] = groups[id] || held
		for sc := g.Scope; sc.Group != 0; sc = s.Group(sc.Group).Scope {
			scopes[sc], groups[sc.Group] = true, true
		}
	}
	return scopes, groups
}

// blocked reports whether stragglers of an occurrence that fired before hold back a
// group, also of one that began after it.
func blocked(s *state.State, g *state.Group) bool {
	spec := s.Graph.Groups[g.Name]
	if spec == nil || spec.Sync == nil || spec.Sync.Remaining != workflow.RemainingBlock {
		return false
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		before := s.Group(id)
		if before.Name == g.Name && before.Scope == g.Scope && before.Phase == workflow.Fired && before.Busy() {
			return true
		}
	}
	return false
}
