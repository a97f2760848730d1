package worker

import (
	"container/list"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/heap"
)

// A tenantState is what the queue knows of a tenant that has tasks in it. A task without a tenant
// belongs to the tenant "". A tenant is forgotten when nothing of the tenant waits or is held, and so
// is its turn: a tenant that comes back is the last one.
type tenantState struct {
	name  string
	limit int            // tasks that workers may hold at once; 0 is no bound
	held  int            // tasks that workers hold
	turn  int64          // grows whenever it gets its turn, and when it comes to have tasks that may be handed out
	waits []*tenantItems // by type
	ready int            // of these, those that may be handed out
}

// tenantItems are the tasks of one tenant that wait in the queue of one type.
// turn and place are set together or not at all, and only while items has something and the tenant is
// not full.
type tenantItems struct {
	tenant *tenantState
	kind   *typeQueue
	items  heap.Heap[*item]
	turn   *list.Element // in kind.turns; nil if the tenant is full, or nothing waits
	place  heap.Place    // in kind.tenants
}

// isFull says that workers hold as many tasks of the tenant as they may.
func (n *tenantState) isFull() bool { return n.limit > 0 && n.held >= n.limit }

// ensureTenant returns what the queue knows of a tenant, made if it knows nothing.
func (q *queue) ensureTenant(name string) *tenantState {
	n := q.tenants[name]
	if n == nil {
		n = &tenantState{name: name}
		q.tenants[name] = n
	}
	return n
}

// inType returns what the tenant has in a type queue, made if it has nothing there.
// It searches the list, as a tenant mostly has tasks of few types at a time.
func (n *tenantState) inType(l *typeQueue) *tenantItems {
	for _, w := range n.waits {
		if w.kind == l {
			return w
		}
	}
	w := &tenantItems{tenant: n, kind: l, items: heap.New((*item).startsBefore, func(i *item) *heap.Place { return &i.place })}
	n.waits = append(n.waits, w)
	return w
}

// changeTenant changes what waits or is held of the tenant and the type of a task, and returns the
// type queues in which something may be handed out that could not be before. Turns and limits of
// tenants move all their queues: those leave the heap before the change, since elements that
// change are not to be compared. While there is one tenant, without a limit, only the
// queue of the type moves.
func (q *queue) changeTenant(i *item, now time.Time, change func(w *tenantItems)) []*typeQueue {
	n := q.ensureTenant(i.task.Tenant)
	w := n.inType(q.ensureType(i.task.Type))
	moved := []*tenantItems{w}
	if len(q.tenants) > 1 || q.limited {
		moved = slices.Clone(n.waits)
	}
	for _, m := range moved {
		q.ready.Remove(m.kind)
	}
	change(w)
	queues := make([]*typeQueue, len(moved))
	for at, m := range moved {
		q.placeInType(m)
		q.refreshReady(m.kind, now)
		queues[at] = m.kind
	}
	n.waits = slices.DeleteFunc(n.waits, func(w *tenantItems) bool { return w.items.Len() == 0 })
	if len(n.waits) == 0 && n.held == 0 {
		delete(q.tenants, n.name)
	}
	return queues
}

// putItem lets a task wait, or finds its place again.
func (w *tenantItems) putItem(i *item) {
	if !i.place.In() {
		w.kind.queued++
	}
	w.items.Put(i)
}

// removeItem takes a task out if it waits.
func (w *tenantItems) removeItem(i *item) {
	if i.place.In() {
		w.kind.queued--
		w.items.Remove(i)
	}
}

// countHeld counts a task that a worker comes to hold, or ceases to.
func (w *tenantItems) countHeld(n int) {
	w.kind.held += n
	w.tenant.held += n
}

// placeInType puts a tenant that has changed among those that have turns at a type, or
// takes it out. A tenant that comes to have a task there is the last.
//
// A tenant that had nothing to hand out anywhere gets a new turn, behind all others; one that waits at
// another type keeps the turn that it has, since it has waited there.
func (q *queue) placeInType(w *tenantItems) {
	n, l := w.tenant, w.kind
	if w.items.Len() == 0 || n.isFull() {
		if w.turn != nil {
			l.turns.Remove(w.turn)
			l.tenants.Remove(w)
			w.turn = nil
			n.ready--
		}
		return
	}
	if w.turn == nil {
		if n.ready == 0 {
			q.turns++
			n.turn = q.turns
		}
		w.turn = l.turns.PushBack(w)
		n.ready++
	}
	l.tenants.Put(w)
}

// takeTurn makes a tenant the last one that waits, at a type and at all types together.
//
// For example, tenants a and b wait at a type, a first: after a task of a, b is first, and after one
// of b, a again.
func (q *queue) takeTurn(w *tenantItems) {
	q.turns++
	w.tenant.turn = q.turns
	if w.turn != nil {
		w.kind.turns.MoveToBack(w.turn)
	}
}

// startsBefore orders tenants by when they had their last turn at any type.
func (w *tenantItems) startsBefore(other *tenantItems) bool { return w.tenant.turn < other.tenant.turn }
