package state

import "github.com/pawl-run/pawl/workflow"

// A Revision is a definition that a patch made. The first revision is the definition that the run began with. The
// file of a run keeps all of them, so that a record is understood with the definition that it was planned with.
type Revision struct {
	Number   int // from 2
	Graph    *workflow.Graph
	Document any // the definition as a value
}

// Revision returns the number of the definition that the run has: 1, and one
// more for every patch.
func (s *State) Revision() int { return s.Patches + 1 }

// PutRevision replaces the definition of a run, and counts and finds anew what depends on it. On an overlay it must
// be the first change. It costs time in proportion to the run. Which lines a token waits in, which counters are kept
// at all, whether stragglers of a group block: that follows from the definition. So the rows are restored with the
// new one. The base of an overlay is left alone: the overlay gets a base of its own.
func (s *State) PutRevision(r Revision) {
	rows := s
	for rows.base != nil {
		rows = rows.base
	}
	fresh := Restore(r.Graph, rows.AllRows())
	fresh.Facts, fresh.Epoch, fresh.Rules = s.Facts, s.Epoch, s.Rules
	fresh.Patches, fresh.Definition = r.Number-1, r.Graph.Hash
	if s.base != nil {
		*s = *fresh.Overlay()
		return
	}
	// The restored state takes all of its rows for stored. The store lacks the rows that it lacked before, and the
	// revision.
	fresh.tokens.dirty, fresh.groups.dirty, fresh.signals.dirty = s.tokens.dirty, s.groups.dirty, s.signals.dirty
	fresh.changes, fresh.listings = s.changes, s.listings
	for _, id := range fresh.LiveTokens() {
		fresh.markListingDirty(nil, fresh.Token(id)) // what the lists say of it may change
	}
	fresh.changes.revisions = append(fresh.changes.revisions, &r)
	*s = *fresh
}
