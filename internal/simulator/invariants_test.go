package simulator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// invariants checks what must hold between any two messages.
func invariants(s *workflow.State) error {
	for _, check := range []func(*workflow.State) error{counted, placed, bounded, once} {
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
func over(s *workflow.State) error {
	if s.Live() != 0 || !planning.Alarm(s).IsZero() || len(planning.Pending(s)) > 0 {
		return fmt.Errorf("the run is %v; %d tokens live, its alarm is %v, %v is pending", s.Status, s.Live(), planning.Alarm(s), planning.Pending(s))
	}
	return nil
}

// counted counts everything anew: tokens are conserved.
func counted(s *workflow.State) error {
	branches, groups, live := count(s)
	if s.Live() != live {
		return fmt.Errorf("%d tokens live, the state says %d", live, s.Live())
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g.Live != groups[id] {
			return fmt.Errorf("%v: %d tokens live, the state says %d", id, groups[id], g.Live)
		}
		resolved := map[workflow.BranchStatus]int{}
		for i := range g.Total {
			sc := workflow.Scope{Group: id, Branch: i}
			got, want := s.Branch(sc), cmp.Or(branches[sc], &workflow.Branch{})
			resolved[got.Status]++
			if got.Live != want.Live || got.Waiting != want.Waiting || !slices.Equal(got.Tokens, want.Tokens) || !slices.Equal(got.Groups, want.Groups) {
				return fmt.Errorf("branch %v: %+v, counted %+v", sc, got, *want)
			}
			first := s.Token(g.TokenOf(i))
			if tr, _ := g.SpawnOf(i); first == nil || first.Parent != g.Origin || tr == "" && i < g.Total-len(g.Added) {
				return fmt.Errorf("%+v is not branch %d of %+v", first, i, g)
			}
		}
		if g.Arrived != resolved[workflow.BranchArrived] || g.Ended != resolved[workflow.BranchEnded] || g.Failed != resolved[workflow.BranchFailed] {
			return fmt.Errorf("%v: %+v, counted %v", id, g, resolved)
		}
	}
	return nil
}

// count derives branches, the live tokens of groups, and all live tokens.
func count(s *workflow.State) (map[workflow.Scope]*workflow.Branch, map[workflow.GroupID]int, int) {
	branches, groups, live := map[workflow.Scope]*workflow.Branch{}, map[workflow.GroupID]int{}, 0
	at := func(sc workflow.Scope) *workflow.Branch {
		if branches[sc] == nil {
			branches[sc] = &workflow.Branch{}
		}
		return branches[sc]
	}
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		t := s.Token(id)
		if !t.Live() {
			continue
		}
		live++
		if t.Scope.Group != 0 {
			b := at(t.Scope)
			b.Tokens = append(b.Tokens, id)
			if t.Status == workflow.WaitingForSiblings {
				b.Waiting++
			}
		}
		gathers := true
		for sc := t.Scope; sc.Group != 0; sc = s.Group(sc.Group).Scope {
			groups[sc.Group]++
			if gathers {
				at(sc).Live++
			}
			gathers = gathers && s.Group(sc.Group).Phase != workflow.Fired
		}
	}
	inner := map[workflow.GroupID]bool{} // something in it gathers
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := s.Group(id); g.Phase == workflow.Gathering {
			for sc := g.Scope; sc.Group != 0; sc = s.Group(sc.Group).Scope {
				inner[sc.Group] = true
			}
		}
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := s.Group(id); g.Scope.Group != 0 && (g.Phase == workflow.Gathering || groups[id] > 0 || inner[id]) {
			b := at(g.Scope)
			b.Groups = append(b.Groups, id)
		}
	}
	return branches, groups, live
}

// placed checks that whatever lives has its place in the definition.
func placed(s *workflow.State) error {
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
func bounded(s *workflow.State) error {
	l := s.Graph.Limits
	if int(s.NextToken)-1 > l.Tokens || s.Live() > l.LiveTokens {
		return fmt.Errorf("%d tokens made and %d live, at most %d and %d may", s.NextToken-1, s.Live(), l.Tokens, l.LiveTokens)
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
func once(s *workflow.State) error {
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
func awaited(s *workflow.State) error {
	if s.Live() == 0 && s.OpenGroups() == 0 {
		return fmt.Errorf("the run is %v and nothing lives in it", s.Status)
	}
	comes := !planning.Alarm(s).IsZero() // something comes by itself, or can be made to come
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
		case workflow.WaitingForJoin:
		default:
			comes = true
		}
	}
	if !comes && s.OpenGroups() == 0 && s.Status == workflow.RunRunning {
		return fmt.Errorf("nothing can come any more: %+v", tokens(s))
	}
	return nil
}

func tokens(s *workflow.State) (out []string) {
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		out = append(out, fmt.Sprintf("%v at %s %v in %v", id, string(t.Node), t.Status, t.Scope))
	}
	return out
}

// grouped checks the groups of a running run.
func grouped(s *workflow.State) error {
	kept, holds := idle(s)
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g.Total == 0 {
			continue
		}
		if next := s.Token(g.TokenOf(min(g.Started, g.Total-1))); g.Started < g.Total && next.Live() && !next.Held && (g.Max == 0 || g.Running() < g.Max) {
			return fmt.Errorf("%v could begin in %+v", next, g)
		}
		if g.Phase != workflow.Gathering {
			continue
		}
		if g.Live == 0 && (!g.Open || g.Closed) && !holds[id] {
			return fmt.Errorf("%v gathers and nothing lives in it: %+v", id, g)
		}
		if outer := s.Group(g.Scope.Group); outer != nil && outer.Phase > workflow.Fired {
			return fmt.Errorf("%v gathers in %v, which is %v", id, outer.ID, outer.Phase)
		}
	}
	for _, d := range s.AllData() {
		if sc := d.Scope; sc.Group != 0 && !kept[sc] && len(s.TokensOf(sc)) == 0 {
			return fmt.Errorf("the data of %v outlive it: %+v", sc, s.Branch(sc))
		}
	}
	return nil
}

// idle returns the branches and groups in which a group is open, or held back by
// stragglers of an earlier occurrence: it may have nobody in it, and go on later.
func idle(s *workflow.State) (map[workflow.Scope]bool, map[workflow.GroupID]bool) {
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

// blocked reports whether stragglers of an earlier occurrence hold back a group.
func blocked(s *workflow.State, g *workflow.Group) bool {
	spec := s.Graph.Groups[g.Name]
	if spec == nil || spec.Sync == nil || spec.Sync.Remaining != workflow.RemainingBlock {
		return false
	}
	for id := workflow.GroupID(1); id < g.ID; id++ {
		before := s.Group(id)
		if before.Name == g.Name && before.Scope == g.Scope && before.Phase == workflow.Fired && before.Busy() {
			return true
		}
	}
	return false
}
