package tracing

import (
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/idset"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A book has the waits of a run, and knows those in each branch: the end of a join looks at the waits in its group alone, as a
// run may have a hundred thousand waits, and as many joins.
type book struct {
	stays  map[place]stay
	inside map[workflow.Scope]inside // by branch; nothing of a branch in which nothing waits
	filled map[workflow.GroupID]int  // how many branches of a group are in inside; nothing of one without
}

// An inside is what waits in a branch: tokens, and groups that wait or in which something does.
type inside struct {
	tokens idset.Set[workflow.TokenID]
	groups idset.Set[workflow.GroupID]
}

func newBook() *book {
	return &book{stays: map[place]stay{}, inside: map[workflow.Scope]inside{}, filled: map[workflow.GroupID]int{}}
}

// putStay adds a wait.
func (b *book) putStay(s *state.State, at place, st stay) {
	b.stays[at] = st
	b.listPlace(s, st.scope, at)
}

// takeStay takes a wait out.
func (b *book) takeStay(s *state.State, at place, st stay) {
	delete(b.stays, at)
	b.listPlace(s, st.scope, at)
}

// listPlace lists a place in its branch if something waits there, else it takes it off the list. The groups around it follow,
// the inner ones first, as long as one of them comes or goes with that.
func (b *book) listPlace(s *state.State, sc workflow.Scope, at place) {
	for sc.Group != 0 {
		_, in := b.stays[at]
		in = in || b.filled[at.group] > 0
		x, was := b.inside[sc]
		if at.token != 0 {
			x.tokens = x.tokens.Put(at.token, in)
		} else {
			x.groups = x.groups.Put(at.group, in)
		}
		is := x.tokens.Len()+x.groups.Len() > 0
		switch {
		case is:
			b.inside[sc] = x
		case was:
			delete(b.inside, sc)
		}
		if is == was {
			return
		}
		if is {
			b.filled[sc.Group]++
		} else if b.filled[sc.Group]--; b.filled[sc.Group] == 0 {
			delete(b.filled, sc.Group)
		}
		g := s.Group(sc.Group)
		if g == nil {
			return // it is of a run that had the id before
		}
		at, sc = place{group: sc.Group}, g.Scope
	}
}

// visitEnds calls visit with the places of waits that decisions may have ended without an event about each, and with the time.
func (b *book) visitEnds(s *state.State, records []decision.Record, visit func(at place, to time.Time)) {
	for i := range records {
		r := &records[i]
		look := func(at place) { visit(at, r.At) }
		for _, d := range r.Decisions {
			switch d := d.(type) {
			case decision.FireJoin:
				for _, id := range d.Tokens {
					look(place{token: id})
				}
			case decision.FireGroup:
				if d.Cancel {
					b.visitGroup(s, d.Group, look)
				}
			case decision.FailGroup:
				b.visitGroup(s, d.Group, look)
			case decision.AbandonGroup:
				look(place{group: d.Group})
			case decision.FailBranch:
				b.visitBranch(s, d.Scope, look)
			case decision.CancelTokens:
				b.visitBranch(s, d.Scope, look)
			case decision.PatchRun:
				b.visitBranch(s, workflow.Scope{}, look)
			default:
			}
		}
	}
}

// visitGroup calls visit with the places of waits in the branches of a group.
func (b *book) visitGroup(s *state.State, id workflow.GroupID, visit func(place)) {
	if g := s.Group(id); g != nil && b.filled[id] > 0 {
		for i := range g.Total {
			b.visitBranch(s, workflow.Scope{Group: id, Branch: i}, visit)
		}
	}
}

// visitBranch calls visit with the places of waits in a branch and in the groups within it; the zero scope stands for all waits.
func (b *book) visitBranch(s *state.State, sc workflow.Scope, visit func(place)) {
	if sc.Group == 0 {
		for at := range b.stays {
			visit(at)
		}
		return
	}
	x := b.inside[sc] // visit may change the book, and sets do not change
	for id := range x.tokens.All() {
		visit(place{token: id})
	}
	for id := range x.groups.All() {
		visit(place{group: id})
		b.visitGroup(s, id, visit)
	}
}
