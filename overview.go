package pawl

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// An Overview is a run in numbers.
type Overview struct {
	workflow.Outcome
	Workflow string         `json:"workflow"` // name of the definition
	Revision int            `json:"revision"` // of its definition: 1, and one more for every patch
	Seq      int64          `json:"seq"`      // of the last record
	Alarm    time.Time      `json:"alarm,omitzero"`
	Live     int            `json:"live"`            // tokens that are not terminal
	Nodes    []NodeOverview `json:"nodes,omitzero"`  // at which tokens have been, in the order of the definition
	Groups   []Group        `json:"groups,omitzero"` // that gather, by id: the first MaxOverviewGroups
	Gather   int            `json:"gather"`          // groups that gather
}

// A NodeOverview counts the tokens that are at a node, or ended there.
type NodeOverview struct {
	Node   workflow.NodeID              `json:"node"`
	Tokens map[workflow.TokenStatus]int `json:"tokens"`
}

// MaxOverviewGroups bounds the groups of an Overview.
const MaxOverviewGroups = 100

// Overview returns a run in numbers: how many tokens are at each node, in which status, and how
// far its fan-outs are. A run that is awake answers from memory, between two commits, in some 0.1
// µs a token; for a run that is asleep the state is read, as by Inspect. Errors: ErrRunNotFound,
// ErrCorrupt, ErrClosed, the cause of ctx.
func (e *Engine) Overview(ctx context.Context, id workflow.RunID) (Overview, error) {
	var out Overview
	err := e.lookAt(ctx, id, nil, func(s *state.State, seq int64) { out = overviewOf(s, seq) })
	return out, err
}

// overviewOf counts the tokens of a state by node and status.
func overviewOf(s *state.State, seq int64) Overview {
	out := Overview{
		Outcome: decision.Outcome(s), Workflow: s.Graph.Definition.Name, Revision: s.Revision(), Seq: seq, Alarm: s.Alarm(), Live: s.LiveCount(),
	}
	// The counts are arrays by status, since a map for each node would cost more than the
	// tokens.
	counts := map[workflow.NodeID]*[workflow.Cancelled + 1]int{}
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		t := s.Token(id)
		of := counts[t.Node]
		if of == nil {
			of = new([workflow.Cancelled + 1]int)
			counts[t.Node] = of
		}
		of[t.Status]++
	}
	add := func(id workflow.NodeID) {
		of := counts[id]
		if of == nil {
			return
		}
		delete(counts, id)
		n := NodeOverview{Node: id, Tokens: map[workflow.TokenStatus]int{}}
		for status, k := range of {
			if k > 0 {
				n.Tokens[workflow.TokenStatus(status)] = k
			}
		}
		out.Nodes = append(out.Nodes, n)
	}
	for i := range s.Graph.Definition.Nodes {
		add(s.Graph.Definition.Nodes[i].ID)
	}
	// A token keeps the node at which it ended also when a patch has removed that.
	removed := []workflow.NodeID{} // by patches
	for id := range counts {
		removed = append(removed, id)
	}
	slices.Sort(removed)
	for _, id := range removed {
		add(id)
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g.Phase != workflow.Gathering {
			continue
		}
		if out.Gather++; out.Gather <= MaxOverviewGroups {
			out.Groups = append(out.Groups, viewGroup(g))
		}
	}
	return out
}

// lookAt calls at with the committed state of a run: in its actor, if it has one, else with what
// is read, which kept remembers for further looks unless it is nil.
//
// An actor answers between two messages, so that what at sees is committed and does not change
// meanwhile; at must not keep it. An actor that ends before it answers leaves a state that can
// be read.
func (e *Engine) lookAt(ctx context.Context, id workflow.RunID, kept *asleep, at func(s *state.State, seq int64)) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if kept != nil && kept.state != nil {
		at(kept.state, kept.seq)
		return nil
	}
	if a := e.registry.Hold(id); a != nil {
		err := a.Look(ctx, at)
		e.registry.Release(a)
		if !errors.Is(err, actor.ErrStopped) {
			return err
		}
	}
	h, s, err := e.dir.HeadAndState(ctx, id)
	if err != nil {
		return closedError(err)
	}
	if kept != nil {
		kept.state, kept.seq = s, h.Seq
	}
	at(s, h.Seq)
	return nil
}

// asleep is the state of a run without an actor, as it was read.
type asleep struct {
	state *state.State
	seq   int64
}

// A TokenFilter selects tokens of a run. The zero value selects all.
type TokenFilter struct {
	Node   workflow.NodeID        // at this node; "" for all
	Status []workflow.TokenStatus // in one of these; nil for all
	Group  workflow.GroupID       // in a branch of this group itself, not of one within; 0 for all
	After  workflow.TokenID       // with a higher id
}

func (f *TokenFilter) takesToken(t *state.Token) bool {
	return (f.Node == "" || t.Node == f.Node) && (f.Status == nil || slices.Contains(f.Status, t.Status)) && (f.Group == 0 || t.Scope.Group == f.Group)
}

// tokenPage is how many tokens are looked at between two turns of the run.
const tokenPage = 2000

// Tokens lists tokens of a run by id, page by page: for a run that is awake, each page is what
// its memory holds at that moment, so that a token may have moved on since. An error ends the
// list. Errors: as of Overview.
func (e *Engine) Tokens(ctx context.Context, id workflow.RunID, f TokenFilter) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		if f.After == math.MaxInt64 {
			return
		}
		var kept asleep
		for next, more := max(f.After, 0)+1, true; more; {
			var page []*state.Token
			var places []tokenPlace
			err := e.lookAt(ctx, id, &kept, func(s *state.State, _ int64) {
				for end := min(next+tokenPage, s.NextToken); next < end; next++ {
					if t := s.Token(next); f.takesToken(t) {
						page, places = append(page, t), append(places, placeOf(s, t))
					}
				}
				more = next < s.NextToken
			})
			if err != nil {
				yield(Token{}, err)
				return
			}
			views := make([]Token, len(page))
			for i, t := range page {
				views[i] = e.viewToken(id, t, places[i])
			}
			e.markTasks(views)
			for i := range views {
				if !yield(views[i], nil) {
					return
				}
			}
		}
	}
}
