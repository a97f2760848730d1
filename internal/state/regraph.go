package state

import "github.com/pawl-run/pawl/workflow"

// A Revision is a definition that a patch made. The first revision is the
// definition that the run began with.
type Revision struct {
	Number   int // from 2
	Graph    *workflow.Graph
	Document any // the definition as a value
}

// Revision returns the number of the definition that the run has: 1, and one
// more for every patch.
func (s *State) Revision() int { return s.Patches + 1 }

// PutRevision replaces the definition of a run, and counts and finds anew what
// depends on it. On an overlay it must be the first change. It costs time in
// proportion to the run.
func (s *State) PutRevision(r Revision) {
	rows := s
	for rows.base != nil {
		rows = rows.base
	}
	fresh := Restore(r.Graph, rows.AllRows())
	fresh.Facts, fresh.Epoch = s.Facts, s.Epoch
	fresh.Patches, fresh.Definition = r.Number-1, r.Graph.Hash
	if s.base != nil {
		*s = *fresh.Overlay()
		return
	}
	fresh.tokens.dirty, fresh.groups.dirty, fresh.signals.dirty = s.tokens.dirty, s.groups.dirty, s.signals.dirty
	fresh.changes, fresh.listings = s.changes, s.listings
	for _, id := range fresh.LiveTokens() {
		fresh.markListingDirty(nil, fresh.Token(id)) // what the lists say of it may change
	}
	fresh.changes.revisions = append(fresh.changes.revisions, &r)
	*s = *fresh
}
