// Package recount counts anew, from its tokens, what a state keeps counts of, for
// the tests that check a state after every message. It is slow and simple where
// package state is quick.
package recount

import (
	"cmp"
	"fmt"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Check counts the live tokens of a state, of its groups and of their branches, and
// the branches that have arrived, ended or failed, and compares: tokens are
// conserved, and every branch has the place that its group says. It returns the
// first difference. Between any two messages the Invariants hold as well.
func Check(s *state.State) error {
	if err := Invariants(s); err != nil {
		return err
	}
	if err := checkIncident(s); err != nil {
		return err
	}
	branches, groups, live := recountTokens(s)
	if s.LiveCount() != live {
		return fmt.Errorf("%d tokens live, the state says %d", live, s.LiveCount())
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g.Max > 0 && g.RunningBranches() > g.Max {
			return fmt.Errorf("%v: %d branches run, at most %d may", id, g.RunningBranches(), g.Max)
		}
		if g.Live != groups[id] {
			return fmt.Errorf("%v: %d tokens live, the state says %d", id, groups[id], g.Live)
		}
		resolved := map[state.BranchStatus]int{}
		for i := range g.Total {
			sc := workflow.Scope{Group: id, Branch: i}
			got, want := s.Branch(sc), cmp.Or(branches[sc], &state.Branch{})
			resolved[got.Status]++
			if got.Live != want.Live || got.Waiting != want.Waiting || !got.Tokens.Equal(want.Tokens) || !got.Groups.Equal(want.Groups) {
				return fmt.Errorf("branch %v: %+v, counted %+v", sc, got, *want)
			}
			first := s.Token(g.TokenOf(i))
			if tr, _ := g.SpawnOf(i); first == nil || first.Parent != g.Origin || tr == "" && i < g.Total-len(g.Added) {
				return fmt.Errorf("%+v is not branch %d of %+v", first, i, g)
			}
		}
		if g.Arrived != resolved[state.BranchArrived] || g.Ended != resolved[state.BranchEnded] || g.Failed != resolved[state.BranchFailed] {
			return fmt.Errorf("%v: %+v, counted %v", id, g, resolved)
		}
	}
	return nil
}

// recountTokens derives branches, the live tokens of groups, and all live tokens.
func recountTokens(s *state.State) (map[workflow.Scope]*state.Branch, map[workflow.GroupID]int, int) {
	branches, groups, live := map[workflow.Scope]*state.Branch{}, map[workflow.GroupID]int{}, 0
	at := func(sc workflow.Scope) *state.Branch {
		if branches[sc] == nil {
			branches[sc] = &state.Branch{}
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
			b.Tokens = b.Tokens.Put(id, true)
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
			b.Groups = b.Groups.Put(id, true)
		}
	}
	return branches, groups, live
}
