package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/workflow"
)

// Changes are the rows of a state that differ from what its store last kept. The rows are immutable and may be
// written while the state moves on. They are taken when the file of a run is to be written, which is rarer than a
// commit: a row that has changed ten times since is there once, as it is now.
type Changes struct {
	Facts     Facts
	Tokens    []*Token
	Groups    []*Group
	Branches  []BranchChange
	Items     map[workflow.GroupID][]any // of new groups
	Data      []DataChange               // in the order of writing
	Signals   []*KeptSignal
	Steps     []*Step
	Revisions []*Revision
}

// A BranchChange is the resolution of a branch.
type BranchChange struct {
	Scope   workflow.Scope
	Status  BranchStatus
	Failure *workflow.Failure
}

// changes collects what Changes will say. Only a state without base collects.
type changes struct {
	// Tokens, groups and signals are not here: their tables have a set of dirty ids each.
	branches  []workflow.Scope // resolved; one that was resolved anew is there twice
	newItems  map[workflow.GroupID]bool
	writes    []DataChange
	steps     map[workflow.NodeID]bool
	revisions []*Revision
	latest    map[string]int // scope and path of a DataSet: its place in writes
}

// addBranch notes that a branch is resolved. Counters of a branch are no change that a store would keep.
func (c *changes) addBranch(s *State, sc workflow.Scope) {
	if s.base != nil {
		return
	}
	c.branches = pace.Push(c.branches, sc)
}

// addItems notes that the elements of a group are new, or have become more.
func (c *changes) addItems(s *State, id workflow.GroupID) {
	if s.base != nil {
		return
	}
	if c.newItems == nil {
		c.newItems = map[workflow.GroupID]bool{}
	}
	c.newItems[id] = true
}

// addWrite records a write. An earlier set of the same path is superseded, so that a counter costs one row however
// often it is set. Writes keep their order, unlike rows: a set hides what was written below its path, and appended
// elements have numbers.
func (c *changes) addWrite(s *State, w DataChange) {
	if s.base != nil {
		return
	}
	switch key := w.Scope.String(); w.Kind {
	case DataSet:
		// The lengths of the names tell the path a, b from the path a/b.
		for _, p := range w.Path {
			key += fmt.Sprintf("/%d:%s", len(p), p)
		}
		if i, ok := c.latest[key]; ok {
			c.writes[i].Path, c.writes[i].Value = nil, nil // superseded
		}
		if c.latest == nil {
			c.latest = map[string]int{}
		}
		c.latest[key] = len(c.writes)
	// An element may lie in a list that an earlier set of the list, or of anything around it, began.
	case DataAppend:
		// The write that cleared the list must stay before the elements.
		for _, p := range w.Path {
			key += fmt.Sprintf("/%d:%s", len(p), p)
			delete(c.latest, key)
		}
	case DataDrop:
	}
	c.writes = append(c.writes, w)
}

// TakeChanges returns what has changed since the last call, or since the state began, and starts anew. Everything in
// it is sorted, so that the same changes make the same file. The rows are shared with the state; what the caller gets
// may be written by another goroutine, since a change to the state replaces rows and does not touch them.
func (s *State) TakeChanges() Changes {
	out := Changes{Facts: s.Facts, Items: map[workflow.GroupID][]any{}, Revisions: s.changes.revisions}
	for i, id := range s.tokens.dirty.takeRows() {
		pace.Each(i)
		out.Tokens = pace.Push(out.Tokens, s.tokens.getRow(id))
	}
	for _, id := range s.groups.dirty.takeRows() {
		out.Groups = append(out.Groups, s.groups.getRow(id))
	}
	for _, id := range s.signals.dirty.takeRows() {
		out.Signals = append(out.Signals, s.signals.getRow(id))
	}
	for _, id := range slices.Sorted(maps.Keys(s.changes.steps)) {
		out.Steps = append(out.Steps, s.steps[id])
	}
	for _, sc := range sortScopes(s.changes.branches) {
		pace.Each(len(out.Branches))
		b := s.Branch(sc)
		out.Branches = pace.Push(out.Branches, BranchChange{sc, b.Status, b.Failure})
	}
	for id := range s.changes.newItems {
		out.Items[id] = s.items[id]
	}
	// Superseded writes lost their path in addWrite, so that no place in the slice had to move.
	for _, w := range s.changes.writes {
		if w.Kind == DataDrop || w.Path != nil {
			out.Data = append(out.Data, w)
		}
	}
	s.changes = changes{}
	return out
}

// sortScopes sorts scopes in place and returns each once.
func sortScopes(scopes []workflow.Scope) []workflow.Scope {
	slices.SortFunc(scopes, compareScopes)
	return slices.Compact(scopes)
}

func compareScopes(a, b workflow.Scope) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Branch, b.Branch))
}

// sortLines sorts the lines of a restored state: tokens by the order in which they began to wait, groups by id. It
// also lines up the groups that drain: only after all tokens are restored is it known which groups hold stragglers.
// Restore puts tokens by id, and a token that began to wait first may have the higher id.
func (s *State) sortLines() {
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		s.lineUpDraining(s.Group(id))
	}
	for _, line := range s.waiting {
		slices.SortStableFunc(line, func(a, b spot) int { return cmp.Compare(a.order, b.order) })
	}
}

// Rows are a whole state as a store keeps it. A store reads them from the file of a run, and AllRows makes them of a
// state in memory. Counters and indexes are not in them: they follow from the rest.
type Rows struct {
	Facts    Facts
	Tokens   []*Token // dense, by id
	Groups   []*Group // dense, by id
	Branches []BranchChange
	Items    map[workflow.GroupID][]any
	Data     []DataChange  // parents before children, elements in order
	Signals  []*KeptSignal // by number, without those that nobody will ask for
	Steps    []*Step       // by node
}

// Restore returns the state that rows describe, as if every row were put into a new state. Counters are counted anew.
// It panics if the rows are not those of one state, as those of a damaged file may be: whoever reads a file recovers.
func Restore(g *compiled.Graph, rows Rows) *State {
	s := NewState(rows.Facts.Run, g)
	// Groups come first, since a token is counted in the group that it is in. An enclosing group has a lower id than
	// what is nested in it.
	for _, gr := range rows.Groups {
		c := *gr // rows may be those of another state
		s.PutGroup(&c)
	}
	for id, xs := range rows.Items {
		s.putItems(id, xs)
	}
	// A branch gets a row before any of its tokens is put. Without it, Branch would derive the branch from a first
	// token that is already in the table, and countToken would count that one twice.
	for _, t := range rows.Tokens {
		if t.Scope.Group != 0 && s.branchRow(t.Scope) == nil {
			s.checkBranch(t.Scope)
			s.putBranch(t.Scope, Branch{})
		}
	}
	// The status comes before the tokens too: what a token brings to a join is counted only in a branch that has
	// arrived.
	for _, b := range rows.Branches {
		s.checkBranch(b.Scope)
		c := s.Branch(b.Scope)
		c.Status, c.Failure = b.Status, b.Failure
		s.putBranch(b.Scope, c)
	}
	for _, t := range rows.Tokens {
		s.PutToken(t)
	}
	s.sortLines()
	for _, k := range rows.Signals {
		s.PutSignal(k)
	}
	for _, x := range rows.Steps {
		s.PutStep(x)
	}
	for _, w := range rows.Data {
		s.RestoreData(w)
	}
	// The facts come last, since the Put methods have moved NextToken, NextGroup and NextSignal. Facts that the store
	// knows already are no change.
	s.Facts = rows.Facts
	s.TakeChanges()
	s.TakeListings()
	return s
}

// checkBranch panics if there is no such branch. Rows of branches are dense: one that is far away, as a damaged file may
// name, would take memory for all before it.
func (s *State) checkBranch(sc workflow.Scope) {
	if g := s.Group(sc.Group); g == nil || sc.Branch < 0 || sc.Branch >= g.Total {
		panic(fmt.Sprintf("state: there is no branch %v", sc))
	}
}

// AllRows returns the whole state in its comparable form. Two states are alike if these are: rescue compares them
// when it checks a file against its journal. PutRevision makes a state with another graph of them. A run with patches
// has the revisions in its file only. s has no base.
func (s *State) AllRows() Rows {
	out := Rows{Facts: s.Facts, Items: map[workflow.GroupID][]any{}, Data: s.AllData()}
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		out.Tokens = append(out.Tokens, s.Token(id))
	}
	for id := SignalID(1); id < s.NextSignal; id++ {
		if k := s.signals.getRow(id); k != nil {
			out.Signals = append(out.Signals, k)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.steps)) {
		out.Steps = append(out.Steps, s.steps[id])
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		out.Groups = append(out.Groups, g)
		if xs := s.BranchItems(id); xs != nil {
			out.Items[id] = xs
		}
		for i := range g.Total {
			sc := workflow.Scope{Group: id, Branch: i}
			if b := s.Branch(sc); b.Status != BranchRunning {
				out.Branches = append(out.Branches, BranchChange{sc, b.Status, b.Failure})
			}
		}
	}
	return out
}
