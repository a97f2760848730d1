package state

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// An Item of the agenda is a token or a group that time alone will change.
type Item struct {
	At    time.Time
	Token workflow.TokenID // or, if 0,
	Group workflow.GroupID
}

// compareItems orders by time, then tokens by id, then groups by id: what comes
// of itself at an instant counts for the joins that time out at it.
func compareItems(a, b Item) int {
	if c := a.At.Compare(b.At); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Token, b.Token))
}

// An agenda is a binary heap of items. Items are never removed when they become stale: readers check each one against
// the state, and the owner drops stale ones from the top. Removing an item would need a search through the heap at
// every change of a token. Instead each change pushes what it has to, also if the same item is there already, and the
// heap is cleared when stale items and doubles are the greater part.
type agenda struct{ heap []Item }

// pushItem adds an item at the end, which rises above the items that are later.
func (a *agenda) pushItem(it Item) {
	a.heap = append(a.heap, it)
	for i := len(a.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if compareItems(a.heap[up], a.heap[i]) <= 0 {
			return
		}
		a.heap[up], a.heap[i] = a.heap[i], a.heap[up]
		i = up
	}
}

// popFirst removes the earliest item: the last one takes its place and sinks below the items that are earlier.
func (a *agenda) popFirst() {
	last := len(a.heap) - 1
	a.heap[0] = a.heap[last]
	a.heap = a.heap[:last]
	for i := 0; ; {
		least := i
		for _, c := range [...]int{2*i + 1, 2*i + 2} {
			if c < last && compareItems(a.heap[c], a.heap[least]) < 0 {
				least = c
			}
		}
		if least == i {
			return
		}
		a.heap[i], a.heap[least] = a.heap[least], a.heap[i]
		i = least
	}
}

// itemsUntil appends to out every item at or before t for which fresh holds, visiting no other part of the heap. A
// parent in the heap is never later than its children, so that the visit ends wherever an item is after t. The order
// of what it appends is that of the visit: the caller sorts.
func (a *agenda) itemsUntil(t time.Time, fresh func(Item) bool, out []Item) []Item {
	var visit func(i int)
	visit = func(i int) {
		if i >= len(a.heap) || a.heap[i].At.After(t) {
			return
		}
		if fresh(a.heap[i]) {
			out = append(out, a.heap[i])
		}
		visit(2*i + 1)
		visit(2*i + 2)
	}
	visit(0)
	return out
}

// firstFresh returns the earliest item for which fresh holds. It changes nothing, so that it may be asked of the base
// of an overlay. It does not descend below a fresh item, nor below one that is not earlier than the best so far.
func (a *agenda) firstFresh(fresh func(Item) bool) (Item, bool) {
	var best Item
	var found bool
	var visit func(i int)
	visit = func(i int) {
		if i >= len(a.heap) || (found && compareItems(a.heap[i], best) >= 0) {
			return
		}
		if fresh(a.heap[i]) {
			best, found = a.heap[i], true
			return
		}
		visit(2*i + 1)
		visit(2*i + 2)
	}
	visit(0)
	return best, found
}

// dropStale drops stale items: those at the top, and all of them when the heap has grown to more than twice what live
// says it need hold. So the heap is bounded by the run as it is, not by its history, and the cost of clearing is
// spread over the pushes before it.
func (a *agenda) dropStale(fresh func(Item) bool, live int) {
	for len(a.heap) > 0 && !fresh(a.heap[0]) {
		a.popFirst()
	}
	if len(a.heap) < 2*live+64 {
		return
	}
	// A sorted slice is a heap, so nothing has to be sifted.
	a.heap = slices.DeleteFunc(a.heap, func(it Item) bool { return !fresh(it) })
	slices.SortFunc(a.heap, compareItems)
	a.heap = slices.CompactFunc(a.heap, func(x, y Item) bool { return compareItems(x, y) == 0 })
}

// scheduleItem puts an item on the agenda, if it has an instant, and drops from the top of the agenda what has become
// stale. An overlay drops nothing: its agenda is small and short-lived, and that of its base is not its own.
func (s *State) scheduleItem(it Item) {
	if !it.At.IsZero() {
		s.agenda.pushItem(it)
	}
	if s.base == nil {
		s.agenda.dropStale(s.isFresh, s.live+int(s.NextGroup))
	}
}

// isFresh reports whether an item still tells when its token or group is due. An item of the base is judged by the
// overlay that asks: a timer that the plan has just cancelled no longer counts in it.
func (s *State) isFresh(it Item) bool {
	if it.Token != 0 {
		t := s.Token(it.Token)
		return t != nil && t.Live() && t.Alarm().Equal(it.At)
	}
	g := s.Group(it.Group)
	return g != nil && g.Phase == workflow.Gathering && g.Due.Equal(it.At)
}

// DueBy returns what is due at or before t, in order of time and id. An alarm makes all of it happen in this order:
// everything due by the alarm's instant, by (due, token). The planner checks each one again, since what comes before
// may have ended it.
func (s *State) DueBy(t time.Time) []Item {
	var out []Item
	for l := s; l != nil; l = l.base {
		out = l.agenda.itemsUntil(t, s.isFresh, out)
	}
	slices.SortFunc(out, compareItems)
	return slices.CompactFunc(out, func(a, b Item) bool { return compareItems(a, b) == 0 })
}

// NextDue returns the earliest instant at which time alone changes a token or a group; the zero time if nothing waits
// for time. The timeout of the run itself is not among them; Alarm adds it.
func (s *State) NextDue() time.Time {
	var at time.Time
	for l := s; l != nil; l = l.base {
		if len(l.agenda.heap) == 0 {
			continue // as in most turns
		}
		if it, ok := l.agenda.firstFresh(s.isFresh); ok && (at.IsZero() || it.At.Before(at)) {
			at = it.At
		}
	}
	return at
}

// Alarm returns the earliest instant at which time alone changes the run; the zero time if nothing in it waits for
// time, it is suspended, or it has ended. The actor arms one timer for it after every turn. A paused run has an
// alarm, since time goes on in it; a suspended one does nothing until somebody resumes or cancels it.
func (s *State) Alarm() time.Time {
	if s.Status.Final() || s.Status == workflow.RunSuspended {
		return time.Time{}
	}
	return timeout.Earliest(s.Due, s.NextDue())
}
