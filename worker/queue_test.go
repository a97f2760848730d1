package worker

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/rate"
	"github.com/pawl-run/pawl/internal/serving"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

const (
	testLease  = 60 * time.Second
	testExpiry = 300 * time.Second
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A model is the queue written down naively: every question is answered by
// looking at all tasks and all workers.
type model struct {
	*rapid.T
	q      *queue
	now    time.Time
	order  int64
	limit  map[string]pawl.TypeLimit
	rates  map[string]*rate.Bucket
	limits map[string]int            // of tenants, whose names these are
	passed map[turnOf]map[turnOf]int // how often one was handed a task while another waited

	tasks   map[pawl.Key]*modelTask
	workers map[string]*modelWorker
	done    map[pawl.Key]string
	added   int
	over    int // completed, withdrawn, or a claim that ran out
}

type modelTask struct {
	pawl.Task
	known, withdrawn, closing bool
	again                     bool // dispatched again while closing
	holder                    string
	until                     time.Time
}

type modelWorker struct {
	Registration
	joined, permanent, draining, leaving bool
	waits                                bool
}

func (w *modelWorker) takes(kind string) bool {
	return slices.Contains(w.Types, kind) || slices.Contains(w.Types, every)
}

func (m *model) held(by string) (n int) {
	for _, t := range m.tasks {
		if t.holder == by {
			n++
		}
	}
	return n
}

func (m *model) heldOf(kind string) (n int) {
	for _, t := range m.tasks {
		if t.holder != "" && t.Type == kind {
			n++
		}
	}
	return n
}

func (m *model) heldFor(tenant string) (n int) {
	for _, t := range m.tasks {
		if t.holder != "" && t.Tenant == tenant {
			n++
		}
	}
	return n
}

// may says that the limits let this task out now.
func (m *model) may(t *modelTask) bool {
	l := m.limit[t.Type]
	return (l.Concurrency == 0 || m.heldOf(t.Type) < l.Concurrency) && !m.rates[t.Type].NextEvent().After(m.now) && !m.isFull(t.Tenant)
}

func (m *model) isFull(tenant string) bool {
	return m.limits[tenant] > 0 && m.heldFor(tenant) >= m.limits[tenant]
}

// A turnOf is a tenant that waits at a type.
type turnOf struct{ tenant, kind string }

func (m *model) turns() map[turnOf]bool {
	waiting := map[turnOf]bool{}
	for _, t := range m.tasks {
		if t.holder == "" && !m.isFull(t.Tenant) {
			waiting[turnOf{t.Tenant, t.Type}] = true
		}
	}
	return waiting
}

// noteTurn says that no tenant is handed two tasks of a type while another waits for one.
func (m *model) noteTurn(t *modelTask) {
	of := turnOf{t.Tenant, t.Type}
	delete(m.passed, of)
	for at := range m.turns() {
		if at.kind == of.kind && at.tenant != of.tenant {
			if m.passed[at] == nil {
				m.passed[at] = map[turnOf]int{}
			}
			m.passed[at][of]++
			require.LessOrEqual(m, m.passed[at][of], 1, "%v had two turns before %v", of, at)
		}
	}
}

// forgetTurns starts anew with a run that waits no longer.
func (m *model) forgetTurns() {
	waiting := m.turns()
	for at := range m.passed {
		if !waiting[at] {
			delete(m.passed, at)
		}
	}
}

func (m *model) room(id string) bool {
	w := m.workers[id]
	return w != nil && w.joined && !w.draining && !w.leaving && m.held(id) < w.Capacity
}

func ahead(a, b *modelTask) bool {
	return a.Priority < b.Priority || a.Priority == b.Priority && a.Order < b.Order
}

// taken checks each assignment against the state before it, and notes it.
func (m *model) taken() {
	for _, a := range m.q.out {
		id, k := a.worker.id, a.item.task.Key
		t, w := m.tasks[k], m.workers[id]
		require.NotNil(m, t, "%s was handed out and is not there", k)
		require.Empty(m, t.holder, "%s is held by two", k)
		require.NotNil(m, w)
		require.True(m, m.room(id), "%s got more than its capacity leaves", id)
		require.True(m, w.takes(t.Type), "%s does not take %s", id, t.Type)
		require.True(m, w.permanent || w.waits, "%s did not ask", id)
		require.True(m, m.may(t), "the limits of %s and %q", t.Type, t.Tenant)
		for _, u := range m.tasks {
			if u.holder == "" && w.takes(u.Type) && m.may(u) && (len(m.limits) == 1 || u.Type == t.Type && u.Tenant == t.Tenant) {
				require.False(m, ahead(u, t), "%s was handed out before %s", k, u.Key)
			}
		}
		m.rates[t.Type].CountEvent(m.now)
		m.noteTurn(t)
		t.holder = id
		if !w.permanent {
			t.until = m.now.Add(testLease)
		}
		m.forgetTurns()
	}
	for _, a := range m.q.out {
		m.workers[a.worker.id].waits = false
	}
	m.q.out = nil
}

// let lets go of a task.
func (m *model) let(t *modelTask, requeue bool) {
	by := t.holder
	t.holder, t.closing, t.again, t.until = "", false, false, time.Time{}
	if !requeue || !t.known || t.withdrawn {
		delete(m.tasks, t.Key)
		m.over++
	}
	if w := m.workers[by]; w.leaving && m.held(by) == 0 {
		delete(m.workers, by)
	}
}

// tick lets what is due happen.
func (m *model) tick() {
	for _, t := range m.tasks {
		if t.holder != "" && !t.until.IsZero() && !t.closing && !t.until.After(m.now) {
			m.let(t, true)
		}
	}
	m.q.advanceTo(m.now)
	m.taken()
	for id := range m.workers { // forgotten for want of contact, when idle
		if m.q.workers[id] == nil {
			w := m.workers[id]
			require.False(m, w.permanent || w.waits || m.held(id) > 0, "%s was forgotten", id)
			delete(m.workers, id)
		}
	}
}

var (
	kinds = []string{"a", "b", "c"}
	ids   = []string{"ann", "bob", "cy", "dee"}
)

func (m *model) id() string { return rapid.SampledFrom(ids).Draw(m.T, "worker") }

func (m *model) key() pawl.Key {
	keys := slices.Sorted(maps.Keys(m.tasks))
	if len(keys) == 0 {
		m.Skip("no task")
	}
	return rapid.SampledFrom(keys).Draw(m.T, "key")
}

func (m *model) remote() *modelWorker {
	id := m.id()
	w := m.workers[id]
	if w == nil || w.permanent || w.leaving {
		m.Skip("no such remote worker")
	}
	return w
}

func (m *model) actions() map[string]func(*rapid.T) {
	all := map[string]func(){
		"add": m.add, "add more": m.add, "again": m.again, "withdraw": m.withdraw, "register": m.register, "ask": m.ask, "ask more": m.ask, "unask": m.unask,
		"hold": m.hold, "claim": m.claim, "begin": m.begin, "finish": m.finish, "release": m.release,
		"leave": m.leave, "drain": m.drain, "pass": m.pass,
	}
	actions := map[string]func(*rapid.T){"": func(*rapid.T) { m.check() }}
	for name, do := range all {
		actions[name] = func(t *rapid.T) {
			m.T = t
			m.tick()
			do()
			m.taken()
			m.forgetTurns()
		}
	}
	return actions
}

func (m *model) add() {
	m.order++
	t := pawl.Task{
		Key: pawl.Key(fmt.Sprintf("k%03d", m.order)), Order: m.order,
		Type: rapid.SampledFrom(kinds).Draw(m.T, "type"), Priority: rapid.IntRange(0, 2).Draw(m.T, "priority"),
		Tenant: m.tenant(),
	}
	m.tasks[t.Key] = &modelTask{Task: t, known: true}
	m.added++
	m.q.addTask(serving.Of(context.Background()), t, m.order, m.now)
}

func (m *model) tenant() string {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.limits))).Draw(m.T, "tenant")
}

// again: the engine was opened again and dispatches a key once more.
func (m *model) again() {
	t := m.tasks[m.key()]
	m.order++
	t.Order, t.known, t.withdrawn, t.again = m.order, true, false, t.closing
	if t.Type == "" {
		t.Type, t.Tenant = rapid.SampledFrom(kinds).Draw(m.T, "type"), m.tenant()
	}
	m.q.addTask(serving.Of(context.Background()), t.Task, t.Order, m.now)
}

func (m *model) withdraw() {
	t := m.tasks[m.key()]
	if rapid.IntRange(0, 9).Draw(m.T, "old") == 0 {
		m.q.withdrawTask(t.Key, t.Order-1, m.now) // of an earlier dispatch: nothing
		return
	}
	if !t.known {
		m.Skip("not dispatched")
	}
	if t.holder == "" {
		delete(m.tasks, t.Key)
		m.over++
	} else {
		t.withdrawn = true
	}
	m.q.withdrawTask(t.Key, t.Order, m.now)
}

func (m *model) register() {
	id := m.id()
	w := m.workers[id]
	permanent := id == "dee"
	if w == nil {
		w = &modelWorker{}
		m.workers[id] = w
	}
	r := Registration{ID: id, Capacity: rapid.IntRange(1, 3).Draw(m.T, "capacity")}
	for _, k := range append([]string{every}, kinds...) {
		if rapid.Bool().Draw(m.T, "takes "+k) {
			r.Types = append(r.Types, k)
		}
	}
	if r.Types == nil {
		r.Types = []string{every}
	}
	*w = modelWorker{Registration: r, joined: true, permanent: permanent}
	m.q.registerWorker(r, permanent, m.now)
}

func (m *model) ask() {
	w := m.remote()
	w.waits = m.room(w.ID)
	m.q.requestTasks(m.q.workers[w.ID], rapid.IntRange(1, 4).Draw(m.T, "n"), m.now)
}

func (m *model) unask() {
	w := m.remote()
	w.waits = false
	m.q.cancelRequest(m.q.workers[w.ID], m.now)
}

// meet is what hold and begin do for a worker that need not have registered.
func (m *model) meet(call func(string, pawl.Key, time.Time) keyState) (*modelTask, keyState) {
	id, k := rapid.SampledFrom(ids[:3]).Draw(m.T, "worker"), m.key()
	t := m.tasks[k]
	want := keyHeld
	switch {
	case t.holder == "":
		if m.workers[id] == nil {
			m.workers[id] = &modelWorker{Registration: Registration{ID: id}}
		}
		delete(m.passed, turnOf{t.Tenant, t.Type})
		t.holder = id
		m.workers[id].waits = m.workers[id].waits && m.room(id)
	case t.holder != id:
		want = keyHeldByOther
	}
	got := call(id, k, m.now)
	require.Equal(m, want, got)
	if want == keyHeld && !t.closing {
		t.until = m.now.Add(testLease)
	}
	return t, got
}

func (m *model) hold() { m.meet(m.q.holdKey) }

func (m *model) begin() {
	if t, got := m.meet(m.q.beginCompletion); got == keyHeld {
		t.closing = true
	}
}

func (m *model) finish() {
	t := m.tasks[m.key()]
	if !t.closing {
		m.Skip("not closing")
	}
	by := t.holder
	switch rapid.IntRange(0, 2).Draw(m.T, "how") {
	case 0:
		t.closing, t.again = false, false
		if !m.workers[by].permanent {
			t.until = m.now.Add(testLease)
		}
		m.q.undoCompletion(t.Key, m.now)
		return
	case 1:
		m.let(t, t.again)
		m.q.finishCompletion(by, t.Key, false, false, m.now)
		return
	}
	require.NotContains(m, m.done, t.Key, "%s is counted twice", t.Key)
	m.done[t.Key] = by
	m.let(t, false)
	m.q.finishCompletion(by, t.Key, true, false, m.now)
	require.Equal(m, keyCompleted, m.q.holdKey(by, t.Key, m.now), "a duplicate is answered")
	require.Equal(m, keyCompletedByOther, m.q.holdKey("else", t.Key, m.now))
}

func (m *model) claim() {
	m.order++
	w := m.remote()
	k := pawl.Key(fmt.Sprintf("k%03d", m.order))
	require.Equal(m, keyUnknown, m.q.holdKey(w.ID, k, m.now))
	m.tasks[k] = &modelTask{Task: pawl.Task{Key: k}, holder: w.ID, until: m.now.Add(testLease)}
	m.added++
	w.waits = w.waits && m.room(w.ID)
	m.q.claimKey(w.ID, k, m.now)
}

func (m *model) release() {
	t := m.tasks[m.key()]
	if t.holder == "" || t.closing {
		m.Skip("not held")
	}
	m.let(t, true)
	m.q.releaseTask(t.Key, m.now)
}

func (m *model) leave() {
	id := m.id()
	w := m.workers[id]
	if w == nil {
		m.Skip("no such worker")
	}
	w.leaving, w.waits = true, false
	if !w.permanent {
		for _, t := range m.tasks {
			if t.holder == id && !t.closing {
				m.let(t, true)
			}
		}
	}
	if m.held(id) == 0 {
		delete(m.workers, id)
	}
	m.q.removeWorker(m.q.workers[id], m.now)
}

func (m *model) drain() {
	id := m.id()
	w := m.workers[id]
	if w == nil {
		m.Skip("no such worker")
	}
	w.draining, w.waits = true, false
	m.q.drainWorker(m.q.workers[id], m.now)
}

func (m *model) pass() {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 90_000).Draw(m.T, "ms")) * time.Millisecond)
	if next := m.q.nextDue(); !next.IsZero() && rapid.Bool().Draw(m.T, "to what is due") && next.After(m.now) {
		m.now = next
	}
	m.tick()
}

// check compares the whole state, and says that nothing waits for nothing.
func (m *model) check() {
	require.Len(m, m.q.items, len(m.tasks), "no task is lost, none made up")
	require.Equal(m, m.added, len(m.tasks)+m.over)
	for k, t := range m.tasks {
		i := m.q.items[k]
		require.NotNil(m, i, "%s is lost", k)
		if t.holder == "" {
			require.Nil(m, i.holder)
			require.True(m, i.entry.Waits())
			require.False(m, i.lease.In())
			continue
		}
		require.Equal(m, t.holder, i.holder.id)
		require.Same(m, i, i.holder.held[k])
		require.False(m, i.entry.Waits())
		require.Equal(m, t.until.IsZero() || t.closing, !i.lease.In(), "%s has a lease that ends", k)
		require.True(m, t.closing || i.until.Equal(t.until))
	}
	require.Len(m, m.q.workers, len(m.workers))
	for id, w := range m.workers {
		s := m.q.workers[id]
		require.Len(m, s.held, m.held(id))
		require.Equal(m, w.waits || w.permanent && m.room(id), len(s.places) > 0, "%s waits", id)
		if len(s.places) == 0 {
			continue
		}
		for k, t := range m.tasks {
			waits := t.holder == "" && w.takes(t.Type) && m.room(id) && m.may(t)
			require.False(m, waits, "%s waits for nothing: %s could have it", k, id)
		}
	}
	waits := func(fits func(*modelTask) bool) (n int) {
		for _, t := range m.tasks {
			if t.holder == "" && fits(t) {
				n++
			}
		}
		return n
	}
	for n := range m.q.tasks.Tenants() {
		require.Equal(m, m.heldFor(n.Tenant), n.Out)
		require.True(m, n.Out > 0 || waits(func(t *modelTask) bool { return t.Tenant == n.Tenant }) > 0, "the tenant %q is not needed", n.Tenant)
	}
	for l := range m.q.tasks.Types() {
		require.Equal(m, m.heldOf(l.Type), l.Out)
		require.Equal(m, waits(func(t *modelTask) bool { return t.Type == l.Type }), l.Waiting)
		require.True(m, l.Out > 0 || l.Waiting > 0 || m.limit[l.Type].Rate > 0, "the queue of %q is not needed", l.Type)
	}
	for kind, waiting := range m.q.waiting {
		require.NotZero(m, waiting.Len(), "the list of %q is not needed", kind)
	}
}

// Every task is held by at most one worker, none is lost, what is handed out is
// always the first of its tenant that may be, tenants take turns and hold no more than they may, and
// nothing waits that somebody could take, whatever happens in whatever order.
func TestQueueIsTheModel(t *testing.T) {
	require.NoError(t, flag.Set("rapid.steps", "200")) // long enough for queues to grow
	defer func() { require.NoError(t, flag.Set("rapid.steps", "30")) }()
	checkQueue(t)
}

func checkQueue(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		limits := map[string]pawl.TypeLimit{}
		if rapid.Bool().Draw(t, "limited") {
			limits = map[string]pawl.TypeLimit{"a": {Concurrency: 1}, "b": {Rate: 0.1, Burst: 2}}
		}
		m := &model{
			T: t, q: newQueue(testLease, testExpiry, limits), now: epoch, limit: limits, rates: map[string]*rate.Bucket{},
			tasks: map[pawl.Key]*modelTask{}, workers: map[string]*modelWorker{}, done: map[pawl.Key]string{},
			limits: map[string]int{"": 0}, passed: map[turnOf]map[turnOf]int{},
		}
		if rapid.Bool().Draw(t, "tenants") {
			m.limits = map[string]int{"": 0, "acme": 0, "duo": 2, "solo": 1}
		}
		m.q.limitOf = func(t pawl.Task) int { return m.limits[t.Tenant] }
		for _, k := range append([]string{""}, kinds...) {
			b := rate.NewBucket(limits[k].Rate, limits[k].Burst)
			m.rates[k] = &b
		}
		t.Repeat(m.actions())
	})
}

// Lines that become ready at the same time hand out in the order of the queue.
func TestLinesThatBecomeReadyTogether(t *testing.T) {
	for range 20 { // whatever order a map has
		q := newQueue(testLease, testExpiry, map[string]pawl.TypeLimit{every: {Rate: 0.1}})
		s := q.registerWorker(Registration{ID: "ann", Types: []string{every}, Capacity: 9}, false, epoch)
		for i, kind := range []string{"a", "b", "c", "b", "c", "a"} {
			q.addTask(serving.Of(context.Background()), pawl.Task{Key: pawl.Key(fmt.Sprint(i)), Type: kind, Order: int64(i)}, 1, epoch)
		}
		q.requestTasks(s, 9, epoch)
		require.Len(t, q.out, 3)
		q.requestTasks(s, 1, epoch)
		require.Equal(t, epoch.Add(10*time.Second), q.nextDue())
		q.advanceTo(q.nextDue())
		require.Len(t, q.out, 4)
		require.Equal(t, pawl.Key("3"), q.out[3].item.task.Key)
	}
}
