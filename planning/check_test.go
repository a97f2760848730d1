package planning_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/recount"
	"github.com/pawl-run/pawl/workflow"
)

// check fails unless what must hold after every message does.
func (p *player) check() {
	p.t.Helper()
	p.recount(p.state)
	if !p.state.Status.Final() {
		p.sound()
	}
	p.unmet.check(p)
	again := state.Restore(p.state.Graph, p.state.AllRows())
	p.same("All", again)
	p.store.apply(p.t, p.state.TakeChanges())
	p.same("TakeChanges", state.Restore(p.state.Graph, p.store.all()))
	for id, n := range p.fired {
		if n > 1 {
			p.t.Fatalf("%v fired %d times", id, n)
		}
	}
}

// same compares a restored state with the original.
func (p *player) same(how string, s *state.State) {
	p.t.Helper()
	if got, want := snapshot(s), snapshot(p.state); !bytes.Equal(got, want) {
		p.t.Fatalf("restored from %s:\n%s\nwant\n%s", how, got, want)
	}
	p.recount(s)
	if !s.NextDue().Equal(p.state.NextDue()) {
		p.t.Fatalf("restored from %s: due %v, want %v", how, s.NextDue(), p.state.NextDue())
	}
}

// holds checks the invariants of the state after a decision. They are checked of
// small runs only: each check looks at all of the state.
func (p *player) holds() error {
	const most = 200 // tokens
	if p.state.NextToken > most {
		return nil
	}
	return recount.Invariants(p.state)
}

// recount counts everything anew and compares.
func (p *player) recount(s *state.State) {
	p.t.Helper()
	if err := recount.Check(s); err != nil {
		p.t.Fatalf("%v", err)
	}
}

// sound checks that nothing of a running run is left over or stuck.
func (p *player) sound() {
	p.t.Helper()
	s := p.state
	if s.LiveCount() == 0 && s.OpenGroups() == 0 {
		p.t.Fatalf("the run is %v and nothing lives in it", s.Status)
	}
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		if t.Held && t.Status != workflow.Pending {
			p.t.Fatalf("%v is held and %v", id, t.Status)
		}
		waits := t.Status == workflow.WaitingForSiblings && s.Group(t.Scope.Group).Phase == workflow.Gathering
		unbegun := t.Held || t.Status == workflow.Pending && t.Scope.Branch >= s.Group(t.Scope.Group).Started
		if (t.Status == workflow.Pending || t.Status == workflow.WaitingForSiblings) && !waits && !unbegun {
			p.t.Fatalf("%v is stuck: %+v in %+v", id, t, s.Group(t.Scope.Group))
		}
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g.Total == 0 {
			continue
		}
		if next := s.Token(g.TokenOf(min(g.Started, g.Total-1))); g.Started < g.Total && next.Live() && (g.Max == 0 || g.RunningBranches() < g.Max) {
			p.t.Fatalf("%v could begin in %+v", next, g)
		}
		if g.Phase != workflow.Gathering {
			continue
		}
		if g.Live == 0 && !p.waits(g) {
			p.t.Fatalf("%v gathers and nothing lives in it: %+v", id, g)
		}
		if sc := g.Scope; sc.Group != 0 && s.Branch(sc).Status != state.BranchRunning {
			p.t.Fatalf("%v gathers in %v, a branch that is %v", id, sc, s.Branch(sc).Status)
		}
		if outer := s.Group(g.Scope.Group); outer != nil && outer.Phase > workflow.Fired {
			p.t.Fatalf("%v gathers in %v, which is %v", id, outer.ID, outer.Phase)
		}
	}
	for _, d := range s.AllData() {
		if sc := d.Scope; sc.Group != 0 && len(s.TokensInScope(sc)) == 0 {
			p.t.Fatalf("the data of %v outlive it: %+v", sc, s.Branch(sc))
		}
	}
}

// waits reports whether a group that gathers may do so with nothing alive in it:
// it waits to be closed, or for stragglers, or a group in it does.
func (p *player) waits(g *state.Group) bool {
	if g.Open || p.state.IsDraining(g.Name, g.Scope) {
		return true
	}
	for id := g.ID + 1; id < p.state.NextGroup; id++ {
		inner := p.state.Group(id)
		if inner.Scope.Group == g.ID && inner.Phase == workflow.Gathering && p.waits(inner) {
			return true
		}
	}
	return false
}

// rows are what a store keeps of a run: the model of its tables.
type rows struct {
	facts    state.Facts
	tokens   map[workflow.TokenID]*state.Token
	groups   map[workflow.GroupID]*state.Group
	branches map[workflow.Scope]state.BranchChange
	items    map[workflow.GroupID][]any
	data     []state.DataChange
	signals  map[state.SignalID]*state.KeptSignal
	steps    map[workflow.NodeID]*state.Step
}

func newRows() *rows {
	return &rows{
		tokens: map[workflow.TokenID]*state.Token{}, groups: map[workflow.GroupID]*state.Group{},
		branches: map[workflow.Scope]state.BranchChange{}, items: map[workflow.GroupID][]any{},
		signals: map[state.SignalID]*state.KeptSignal{}, steps: map[workflow.NodeID]*state.Step{},
	}
}

func (r *rows) apply(t failer, c state.Changes) {
	t.Helper()
	r.facts = c.Facts
	for _, x := range c.Tokens {
		r.tokens[x.ID] = x
	}
	for _, g := range c.Groups {
		r.groups[g.ID] = g
	}
	for _, b := range c.Branches {
		r.branches[b.Scope] = b
	}
	maps.Copy(r.items, c.Items)
	for _, k := range c.Signals {
		r.signals[k.Seq] = k
	}
	for _, x := range c.Steps {
		r.steps[x.Node] = x
	}
	for _, d := range c.Data {
		r.write(t, d)
	}
}

// write keeps one change of data: a set replaces what is at and below its path,
// an element must be the next one, a drop forgets a scope.
func (r *rows) write(t failer, d state.DataChange) {
	t.Helper()
	elements := 0
	r.data = slices.DeleteFunc(r.data, func(x state.DataChange) bool {
		switch below := x.Scope == d.Scope && len(x.Path) >= len(d.Path) && slices.Equal(x.Path[:len(d.Path)], d.Path); d.Kind {
		case state.DataSet:
			return below
		case state.DataDrop:
			return x.Scope == d.Scope
		case state.DataAppend:
			if below && len(x.Path) == len(d.Path) && x.Kind == state.DataAppend {
				elements++
			}
		}
		return false
	})
	if d.Kind == state.DataAppend && d.Index != elements {
		t.Fatalf("element %d of %v %v comes after %d others", d.Index, d.Scope, d.Path, elements)
	}
	if d.Kind != state.DataDrop {
		r.data = append(r.data, d)
	}
}

func (r *rows) all() state.Rows {
	out := state.Rows{Facts: r.facts, Items: r.items}
	for _, id := range slices.Sorted(maps.Keys(r.tokens)) {
		out.Tokens = append(out.Tokens, r.tokens[id])
	}
	for _, id := range slices.Sorted(maps.Keys(r.groups)) {
		out.Groups = append(out.Groups, r.groups[id])
	}
	for _, id := range slices.Sorted(maps.Keys(r.signals)) {
		out.Signals = append(out.Signals, r.signals[id])
	}
	for _, id := range slices.Sorted(maps.Keys(r.steps)) {
		out.Steps = append(out.Steps, r.steps[id])
	}
	for _, b := range r.branches {
		out.Branches = append(out.Branches, b)
	}
	out.Data = slices.SortedStableFunc(slices.Values(r.data), func(a, b state.DataChange) int {
		return strings.Compare(strings.Join(a.Path, "\x00"), strings.Join(b.Path, "\x00"))
	})
	return out
}
