package recount

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// Invariants checks what always holds of the tokens, groups and branches of a
// state, as the comments above their types in package state list it, after every
// decision. It returns the first violation.
func Invariants(s *state.State) error {
	if err := checkRun(s); err != nil {
		return err
	}
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		if err := checkToken(s, id); err != nil {
			return err
		}
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g == nil || g.ID != id {
			return fmt.Errorf("%v is %+v", id, g)
		}
		if err := checkGroup(g); err != nil {
			return err
		}
		if err := checkBranches(s, g); err != nil {
			return err
		}
	}
	return nil
}

// checkRun compares what the state counts of all tokens and groups with them.
func checkRun(s *state.State) error {
	if s.Status.Final() && s.LiveCount() != 0 {
		return fmt.Errorf("the run is %v, and %d tokens live", s.Status, s.LiveCount())
	}
	held, open, live := 0, 0, map[workflow.TokenStatus]int{}
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		if t := s.Token(id); t != nil && t.Live() {
			live[t.Status]++
			if t.Held {
				held++
			}
		}
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := s.Group(id); g.Phase == workflow.Gathering && g.Open {
			open++
		}
	}
	if s.HeldTokens() != held || s.OpenGroups() != open {
		return fmt.Errorf("%d tokens are held and %d groups open, the state says %d and %d", held, open, s.HeldTokens(), s.OpenGroups())
	}
	var reserved amount.Sums
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		reserved = reserved.Plus(state.BudgetOf(s.Token(id)))
	}
	if !slices.Equal(s.Reserved(), reserved) {
		return fmt.Errorf("the attempts that run have set aside %v, the state says %v", reserved, s.Reserved())
	}
	for status, n := range live {
		if s.CountByStatus(status) != n {
			return fmt.Errorf("%d tokens are %v, the state says %d", n, status, s.CountByStatus(status))
		}
	}
	return nil
}

// checkToken checks what is written above state.Token.
func checkToken(s *state.State, id workflow.TokenID) error {
	t := s.Token(id)
	if t == nil || t.ID != id {
		return fmt.Errorf("%v is %+v", id, t)
	}
	g := s.Group(t.Scope.Group)
	waitsAtJoin := t.Status == workflow.WaitingForSiblings || t.Status == workflow.WaitingForJoin
	ended := !t.Live()
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{t.Parent >= id, "it is not younger than its parent"},
		{t.Scope.Group != 0 && (g == nil || t.Scope.Branch < 0 || t.Scope.Branch >= g.Total), "it is in a branch that does not exist"},
		{ended && (!t.Due.IsZero() || !t.Beat.IsZero() || t.Order != 0), "it has ended and waits"},
		{ended && (t.Input != nil || t.Source != nil || t.Holds != "" || t.Held || t.Votes != nil || t.Memory != nil), "it has ended and keeps what only a live token has"},
		{t.Held && t.Status != workflow.Pending, "it is held and not pending"},
		{waitsAtJoin && t.Via == "", "it waits at a join and has come by no transition"},
		{t.Holds != "" && s.LockHolder(t.Holds) != id, "it holds a lock that another token holds"},
		{t.Base > t.Attempt, "more of its attempts are forgiven than were made"},
	} {
		if rule.broken {
			return fmt.Errorf("%s: %+v", rule.text, t)
		}
	}
	return nil
}

// checkGroup checks what is written above state.Group.
func checkGroup(g *state.Group) error {
	spawned := 0
	for _, sp := range g.Spawns {
		spawned += sp.Count
	}
	gathers := g.Phase == workflow.Gathering
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{spawned != g.Total, "its spawns are not its branches"},
		{g.Started < 0 || g.Started > g.Total, "more branches have begun than there are"},
		{g.UnresolvedBranches() < 0, "more branches are resolved than there are"},
		{g.Open && g.Closed, "it is open and closed"},
		{!gathers && !g.Due.IsZero(), "it is decided and has a timeout"},
		{g.Phase == workflow.Broken && g.Live > 0, "it has failed and holds live tokens"},
		{g.Scope.Group >= g.ID, "it is not younger than the group around it"},
		{g.Total > len(g.Added) && g.Origin >= g.First, "its branches are not younger than its origin"},
	} {
		if rule.broken {
			return fmt.Errorf("%s: %+v", rule.text, g)
		}
	}
	return nil
}

// checkBranches checks what is written above state.Branch, for those of a group.
func checkBranches(s *state.State, g *state.Group) error {
	unstarted, bytes := 0, 0
	for i := range g.Total {
		b := s.Branch(workflow.Scope{Group: g.ID, Branch: i})
		if b.Status == state.BranchArrived {
			bytes += waitingBytes(s, b)
		}
		if b.Status != state.BranchRunning && i >= g.Started {
			unstarted++
		}
		for _, rule := range []struct {
			broken bool
			text   string
		}{
			{(b.Failure != nil) != (b.Status == state.BranchFailed), "it has a failure or has failed, not both"},
			{b.Waiting > b.Live && g.Phase != workflow.Fired, "more tokens wait in it than live"},
			{b.Status == state.BranchFailed && (b.Tokens.Len() > 0 || b.Live > 0), "it has failed and holds live tokens"},
		} {
			if rule.broken {
				return fmt.Errorf("branch %d of %v: %s: %+v", i, g.ID, rule.text, b)
			}
		}
	}
	if g.Unstarted != unstarted {
		return fmt.Errorf("%v: %d branches are resolved and have not begun, the group says %d", g.ID, unstarted, g.Unstarted)
	}
	if g.Bytes != bytes {
		return fmt.Errorf("%v: %d bytes wait in the branches that have arrived, the group says %d", g.ID, bytes, g.Bytes)
	}
	return nil
}

// waitingBytes counts what the tokens of a branch bring to its join.
func waitingBytes(s *state.State, b state.Branch) (n int) {
	for id := range b.Tokens.All() {
		if t := s.Token(id); t.Status == workflow.WaitingForSiblings && t.Source != nil {
			n += value.Size(t.Source)
		}
	}
	return n
}
