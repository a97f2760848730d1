package soundness

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A form is the text of a state in which like branches are in one order, whichever order they
// have, and which has neither ids nor instants: two states with one form go on alike.
//
// Without it, three like branches that wait would make six orders of answers, and n branches n!
// of them; with it a state is one point of the search whichever branch came first. Two rules
// make this right. Data that the planner may look at before it decides must be in the form:
// node, status, counters of loops, attempt, votes. All other data must be left out, or else the
// search would never see the same state twice: ids grow, and so does time.
//
// The lists are filled once by newForm; scopeText sorts them in place, so that a form is used
// for one state and by one goroutine.
type form struct {
	s      *state.State
	keeps  func(section, field string) bool  // data that can change where tokens go
	tokens map[workflow.Scope][]string       // of each scope its live tokens, a text each
	groups map[workflow.Scope][]*state.Group // those that still gather or have branches at work, by the scope in which their fan-out stands
	data   map[workflow.Scope][]string       // the fields that keeps lets through, as path=value
}

// formOf returns the form of a state.
//
// keepState uses it as the key under which a state is known, together with the kept part of the
// input, and moveBetween to recognise a state of the search in a run that it replays.
func formOf(s *state.State, keeps func(section, field string) bool) string {
	return newForm(s, keeps).runText()
}

// newForm sorts what a state has by scope: the live tokens, the groups that may still change
// something, and the data that may decide where a token goes.
func newForm(s *state.State, keeps func(section, field string) bool) *form {
	f := &form{s: s, keeps: keeps, tokens: map[workflow.Scope][]string{}, groups: map[workflow.Scope][]*state.Group{}, data: map[workflow.Scope][]string{}}
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		f.tokens[t.Scope] = append(f.tokens[t.Scope], tokenForm(t))
	}
	// Groups that are done cannot change what happens next, and are left out, unless branches
	// of theirs are at work still: stragglers.
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := s.Group(id); g.Phase == workflow.Gathering || g.Busy() {
			f.groups[g.Scope] = append(f.groups[g.Scope], g)
		}
	}
	// The first part of a path is a section or a name, and the second the field; data below is
	// part of its field.
	for _, d := range s.AllData() {
		if len(d.Path) > 0 && !keeps(d.Path[0], strings.Join(d.Path[1:min(len(d.Path), 2)], "")) {
			continue
		}
		f.data[d.Scope] = append(f.data[d.Scope], fmt.Sprintf("%q=%s", d.Path, value.Encode(d.Value)))
	}
	return f
}

// tokenForm is what a token may do next.
//
// The id of the token is left out, and so are the instants of its waits. Via, the transition by
// which it came, is there: at a join of tokens it says which of the places it fills.
func tokenForm(t *state.Token) string {
	text := fmt.Sprintf("%s %v %s", t.Node, t.Status, t.Via)
	// Map order is random, and the text is a key: the counts are sorted by transition.
	for _, id := range slices.Sorted(maps.Keys(t.Counts)) {
		text += fmt.Sprintf(" %s*%d", id, t.Counts[id])
	}
	// The first attempt is the rule and is not written, which keeps the texts short; a second
	// attempt must be told apart, for retries are used up some time.
	if t.Attempt > 1 {
		text += fmt.Sprintf(" attempt %d", t.Attempt)
	}
	if t.Caught != nil {
		text += " caught " + t.Caught.Code
	}
	if t.Source != nil {
		text += " source " + string(value.Encode(t.Source))
	}
	// The names of voters do not matter in a search that makes them up, and are not written;
	// how many votes there are, and for what, decides the quorum.
	for _, v := range t.Votes {
		text += fmt.Sprint(" vote ", v.Approved)
	}
	if t.Status == workflow.Pending {
		text += fmt.Sprint(" held ", t.Held)
	}
	return text
}

// runText is the form of the whole run.
//
// After the status and the failure come the steps of a dag and the signals that are kept,
// which are in no scope; then all that is in scopes, from the run's own down into the
// branches.
func (f *form) runText() string {
	text := fmt.Sprintf("%v", f.s.Status)
	if f.s.Failure != nil {
		text += " " + f.s.Failure.Code
	}
	if f.s.Deferred != nil {
		text += " deferred"
	}
	// A dag decides by how many of the ways into a node are resolved, and how many of these are
	// live.
	for _, n := range f.s.AllRows().Steps {
		text += fmt.Sprintf(" %s:%d:%d:%d", n.Node, n.Phase, n.Resolved, n.Live)
	}
	// A signal that a token has taken is done, and has no more effect.
	for _, k := range f.s.AllRows().Signals {
		if !k.Done {
			text += " kept " + k.Name
		}
	}
	return text + f.scopeText(workflow.Scope{})
}

// scopeText is the form of a branch with what is nested in it.
//
// The form of a group has in it that of each of its branches, and the branches have the groups
// that were fanned out in them: the text is a tree, as deep as the fan-outs are nested. A state
// has no cycle of scopes, so that this ends.
func (f *form) scopeText(sc workflow.Scope) string {
	slices.Sort(f.tokens[sc])
	slices.Sort(f.data[sc])
	text := fmt.Sprintf("{%s|%s", strings.Join(f.tokens[sc], ","), strings.Join(f.data[sc], ","))
	var groups []string
	for _, g := range f.groups[sc] {
		groups = append(groups, f.groupText(g))
	}
	slices.Sort(groups)
	return text + "|" + strings.Join(groups, ",") + "}"
}

// groupText is the form of a group: its branches in the order of their forms.
//
// The branches are sorted by their texts, and that is the heart of it: of three like branches,
// [done, waits, waits] and [waits, done, waits] have the same text. Every difference between
// them must be in their texts before they are sorted, above all their element, if an
// expression looks at it.
func (f *form) groupText(g *state.Group) string {
	text := fmt.Sprintf("%s@%s %v max=%d open=%t closed=%t started=%d due=%t", g.Name, g.Node, g.Phase, g.Max, g.Open, g.Closed, g.Started, !g.Due.IsZero())
	if g.Caught != nil {
		text += " caught " + g.Caught.Code
	}
	// The elements are looked up once for the group; a fan-out without a collection has none.
	items := f.s.BranchItems(g.ID)
	branches := make([]string, g.Total)
	for i := range branches {
		sc := workflow.Scope{Group: g.ID, Branch: i}
		spawn, _ := g.SpawnOf(i)
		branches[i] = fmt.Sprintf("%s %v", spawn, f.s.Branch(sc).Status)
		if i < len(items) && f.keeps("item", "") {
			branches[i] += " " + string(value.Encode(items[i]))
		}
		branches[i] += f.scopeText(sc)
	}
	slices.Sort(branches)
	return text + "[" + strings.Join(branches, ",") + "]"
}
