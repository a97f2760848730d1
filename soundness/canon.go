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
type form struct {
	s      *state.State
	keeps  func(section, field string) bool // data that can change where tokens go
	tokens map[workflow.Scope][]string
	groups map[workflow.Scope][]*state.Group
	data   map[workflow.Scope][]string
}

// formOf returns the form of a state.
func formOf(s *state.State, keeps func(section, field string) bool) string {
	return newForm(s, keeps).runText()
}

func newForm(s *state.State, keeps func(section, field string) bool) *form {
	f := &form{s: s, keeps: keeps, tokens: map[workflow.Scope][]string{}, groups: map[workflow.Scope][]*state.Group{}, data: map[workflow.Scope][]string{}}
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		f.tokens[t.Scope] = append(f.tokens[t.Scope], tokenForm(t))
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := s.Group(id); g.Phase == workflow.Gathering || g.Busy() {
			f.groups[g.Scope] = append(f.groups[g.Scope], g)
		}
	}
	for _, d := range s.AllData() {
		if len(d.Path) > 0 && !keeps(d.Path[0], strings.Join(d.Path[1:min(len(d.Path), 2)], "")) {
			continue
		}
		f.data[d.Scope] = append(f.data[d.Scope], fmt.Sprintf("%q=%s", d.Path, value.Encode(d.Value)))
	}
	return f
}

// tokenForm is what a token may do next.
func tokenForm(t *state.Token) string {
	text := fmt.Sprintf("%s %v %s", t.Node, t.Status, t.Via)
	for _, id := range slices.Sorted(maps.Keys(t.Counts)) {
		text += fmt.Sprintf(" %s*%d", id, t.Counts[id])
	}
	if t.Attempt > 1 {
		text += fmt.Sprintf(" attempt %d", t.Attempt)
	}
	if t.Caught != nil {
		text += " caught " + t.Caught.Code
	}
	if t.Source != nil {
		text += " source " + string(value.Encode(t.Source))
	}
	for _, v := range t.Votes {
		text += fmt.Sprint(" vote ", v.Approved)
	}
	if t.Status == workflow.Pending {
		text += fmt.Sprint(" held ", t.Held)
	}
	return text
}

// runText is the form of the whole run.
func (f *form) runText() string {
	text := fmt.Sprintf("%v", f.s.Status)
	if f.s.Failure != nil {
		text += " " + f.s.Failure.Code
	}
	if f.s.Deferred != nil {
		text += " deferred"
	}
	for _, n := range f.s.AllRows().Steps {
		text += fmt.Sprintf(" %s:%d:%d:%d", n.Node, n.Phase, n.Resolved, n.Live)
	}
	for _, k := range f.s.AllRows().Signals {
		if !k.Done {
			text += " kept " + k.Name
		}
	}
	return text + f.scopeText(workflow.Scope{})
}

// scopeText is the form of a branch with what is nested in it.
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
func (f *form) groupText(g *state.Group) string {
	text := fmt.Sprintf("%s@%s %v max=%d open=%t closed=%t started=%d due=%t", g.Name, g.Node, g.Phase, g.Max, g.Open, g.Closed, g.Started, !g.Due.IsZero())
	if g.Caught != nil {
		text += " caught " + g.Caught.Code
	}
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
