package state

import "github.com/pawl-run/pawl/workflow"

// PutGroup replaces a group. Its counters of live tokens stay as they are, and
// where it becomes fired, what encloses it no longer counts what is left in it.
func (s *State) PutGroup(g *Group) {
	old := s.Group(g.ID)
	c := *g
	if c.Live, c.Inner = 0, 0; old != nil {
		c.Live, c.Inner = old.Live, old.Inner
	} else {
		s.NextGroup = g.ID + 1
	}
	if old != nil && old.Phase != workflow.Fired && c.Phase == workflow.Fired && c.Live > 0 {
		s.disown(&c)
	}
	s.groups.put(c.ID, &c)
	s.schedule(Item{At: c.Due, Group: c.ID})
	s.sortGroup(old, &c)
	if d := one(c.Phase == workflow.Gathering) - one(old != nil && old.Phase == workflow.Gathering); d != 0 {
		s.enclose(c.Scope, d)
	}
	if c.Scope.Group == 0 || old == nil || old.present() != c.present() {
		s.show(&c)
	}
}

// enclose adds d gathering groups to the groups around sc, each of which its own
// branch forgets only when nothing is left in it.
func (s *State) enclose(sc workflow.Scope, d int) {
	for sc.Group != 0 {
		g := *s.Group(sc.Group)
		was := g.present()
		g.Inner += d
		s.groups.recount(g.ID, &g)
		if g.present() != was {
			s.show(&g)
		}
		sc = g.Scope
	}
}

// show puts a group into the list of the branch in which it began, or out of it.
func (s *State) show(g *Group) {
	if g.Scope.Group == 0 {
		s.rootGroup(g.ID, g.present())
		return
	}
	b := s.Branch(g.Scope)
	b.Groups = withID(b.Groups, g.ID, g.present())
	s.putBranch(g.Scope, b)
}

// disown takes g's live tokens out of the branches that enclose it, except for
// stragglers of fired groups within it, which are no longer counted there.
func (s *State) disown(g *Group) {
	n := 0
	for i := range g.Total {
		n += s.Branch(workflow.Scope{Group: g.ID, Branch: i}).Live
	}
	for sc := g.Scope; sc.Group != 0; {
		b := s.Branch(sc)
		b.Live -= n
		s.putBranch(sc, b)
		outer := s.Group(sc.Group)
		if outer.Phase == workflow.Fired {
			return
		}
		sc = outer.Scope
	}
}
