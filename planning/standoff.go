package planning

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// mutualWait returns the first of the joins that wait for each other and for
// nothing else. The joins and what each waits for are a graph; such joins are a
// strongly connected part of it that no edge leaves.
//
// If join a waits for a token at join b, and b for one at a, neither would ever fire; by
// definition order a does, and the token that continues from there may then let b fire. A
// join that waits for anything else, such as a running task, is not in the graph, and whoever
// waits for it is not closed off.
func (p *planner) mutualWait(places []joinPlace) (joinPlace, bool) {
	// For each join that waits for nothing but other such joins in its own branch: the joins
	// that it waits for.
	waits := map[joinPlace]map[joinPlace]bool{}
	for _, at := range places {
		others := map[joinPlace]bool{}
		if p.eachBlocker(at, func(t *state.Token) bool {
			if t == nil || t.Status != workflow.WaitingForJoin || t.Scope != at.scope || p.s.Graph.Node(t.Node).Join != workflow.JoinSynchronize {
				return false
			}
			others[joinPlace{t.Node, t.Scope}] = true
			return true
		}) {
			waits[at] = others
		}
	}
	// The first join from which only joins in waits can be reached, where each of them waits
	// for it in turn. The order is that of places; the sets are only asked for their members.
	for _, at := range places {
		if waits[at] == nil {
			continue
		}
		reached, closed := reachedFrom(at, waits)
		if !closed {
			continue
		}
		mutual := true
		for other := range reached {
			back, _ := reachedFrom(other, waits)
			mutual = mutual && back[at]
		}
		if mutual {
			return at, true
		}
	}
	return joinPlace{}, false
}

// reachedFrom returns the joins that a join waits for, directly and through others, and
// whether all of them wait for nothing but joins. A join that is missing in waits waits for
// something else.
func reachedFrom(at joinPlace, waits map[joinPlace]map[joinPlace]bool) (map[joinPlace]bool, bool) {
	reached, work := map[joinPlace]bool{}, []joinPlace{at}
	for len(work) > 0 {
		next := work[len(work)-1]
		work = work[:len(work)-1]
		if waits[next] == nil {
			return reached, false
		}
		for other := range waits[next] {
			if !reached[other] {
				reached[other] = true
				work = append(work, other)
			}
		}
	}
	return reached, true
}

// onlyJoinsWait reports whether the run is deadlocked: every live token waits at a
// join that can never fire, or for one that waits there.
//
// Tokens that wait for siblings, and those of branches that have not begun, cannot move by
// themselves: only a token at one of the joins could let them. A timer, an open group, a task
// that is out or a held token may still move the run.
func (p *planner) onlyJoinsWait() bool {
	s := p.s
	joins := s.CountByStatus(workflow.WaitingForJoin)
	stuck := joins + s.CountByStatus(workflow.WaitingForSiblings) + s.CountByStatus(workflow.Pending) - s.HeldTokens()
	return joins > 0 && s.LiveCount() == stuck && s.OpenGroups() == 0 && s.NextDue().IsZero()
}

// deadlockFailure is the failure of a run in which only joins wait. It names the first ten of
// the tokens, so that its message stays short.
func (p *planner) deadlockFailure() workflow.Failure {
	const most = 10
	var where []string
	for _, id := range p.s.LiveTokens() {
		if t := p.s.Token(id); t.Status == workflow.WaitingForJoin {
			if len(where) == most {
				where = append(where, "...")
				break
			}
			where = append(where, fmt.Sprintf("%v at %q by %q", id, string(t.Node), string(t.Via)))
		}
	}
	return workflow.Failure{
		Code: workflow.CodeDeadlock, Permanent: true,
		Message: "only joins that can never fire are left: " + strings.Join(where, ", "),
	}
}
