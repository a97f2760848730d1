package state

import (
	"maps"
	"slices"

	"github.com/pawl-run/pawl/workflow"
)

// inLists reports whether a token is in the lists of all runs: it waits for
// people or for an operator.
func inLists(t *Token) bool {
	return t != nil && (t.Status == workflow.WaitingForApproval || t.Status == workflow.WaitingForOperator)
}

// markListingDirty remembers a token whose place in the lists of all runs changes. The lists of approvals and dead
// letters are kept outside the run, so that they are answered without loading every run. Only the state itself
// collects: an overlay may never be committed.
func (s *State) markListingDirty(old, t *Token) {
	if s.base != nil || !inLists(old) && !inLists(t) {
		return
	}
	if s.listings == nil {
		s.listings = map[workflow.TokenID]bool{}
	}
	s.listings[t.ID] = true
}

// TakeListings returns the tokens that since the last call have begun or ceased
// to wait for people or for an operator, or that changed meanwhile, sorted.
func (s *State) TakeListings() []workflow.TokenID {
	out := slices.Sorted(maps.Keys(s.listings))
	s.listings = nil
	return out
}
