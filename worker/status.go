package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A Status is the state of a pool. Counts are since New; JSON has
// durations in nanoseconds.
type Status struct {
	Workers      []WorkerStatus `json:"workers"` // by id
	Queued       int            `json:"queued"`
	OldestQueued time.Duration  `json:"oldestQueuedNs"`   // how long
	Types        []TypeStatus   `json:"types"`            // by name; those with something to say
	Tenants      []TenantStatus `json:"tenants,omitzero"` // by turn, the next one first; none while no task has a tenant
	Active       []ActiveStatus `json:"active"`           // the oldest first
	Processed    int64          `json:"processed"`        // results taken
	Failed       int64          `json:"failed"`           // how many of these are errors
	Expired      int64          `json:"expired"`          // leases that ran out
	Draining     bool           `json:"draining"`         // nothing is handed out any more
}

// A WorkerStatus is the state of a worker.
type WorkerStatus struct {
	ID         string        `json:"id"`
	Types      []string      `json:"types"`
	Capacity   int           `json:"capacity"`
	Active     int           `json:"active"` // tasks that it holds
	InProcess  bool          `json:"inProcess"`
	Registered bool          `json:"registered"` // false: it holds a task from before a restart, and has not registered again
	Waiting    bool          `json:"waiting"`    // it asks for a task
	Draining   bool          `json:"draining"`
	Age        time.Duration `json:"ageNs"`    // since it registered
	Silent     time.Duration `json:"silentNs"` // since its last contact
	Processed  int64         `json:"processed"`
	Failed     int64         `json:"failed"`
	Expired    int64         `json:"expired"`
}

// A TypeStatus is the state of the tasks of one type.
type TypeStatus struct {
	Type         string        `json:"type"`
	Queued       int           `json:"queued"`
	OldestQueued time.Duration `json:"oldestQueuedNs"` // how long
	Active       int           `json:"active"`
	Workers      int           `json:"workers"` // that take the type; at 0 its tasks wait
}

// A TenantStatus is the state of the tasks of one tenant.
type TenantStatus struct {
	Tenant string `json:"tenant"` // "" of tasks without one
	Queued int    `json:"queued"`
	Active int    `json:"active"`
	Limit  int    `json:"limit,omitzero"` // how many workers may hold at once; 0 is no bound
}

// An ActiveStatus is a task that a worker holds.
type ActiveStatus struct {
	Key    pawl.Key        `json:"-"` // the engine's; GET /v1/status shows none
	Run    workflow.RunID  `json:"run"`
	Node   workflow.NodeID `json:"node"`
	Type   string          `json:"type"`
	Worker string          `json:"worker"`
	Age    time.Duration   `json:"ageNs"`   // time since it was handed out
	Lease  time.Duration   `json:"leaseNs"` // time left; 0 if it does not expire
}

// Status returns the state of the pool. It looks at every task and every worker.
// It first ends the leases that have run out.
func (p *Pool) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.queue.advanceTo(now)
	p.deliverTasks()
	return p.queue.statusAt(now)
}

// StatusOf returns the status of the pool that performs the tasks of an engine: its executor must be a Pool, or have the
// method Status of one. ok is false for any other executor and a nil engine. It fails with pawl.ErrClosed.
func StatusOf(e *pawl.Engine) (s Status, ok bool, err error) {
	if e == nil {
		return Status{}, false, nil
	}
	x, err := e.Executor()
	if err != nil {
		return Status{}, false, err
	}
	if pool, ok := x.(interface{ Status() Status }); ok {
		return pool.Status(), true, nil
	}
	return Status{}, false, nil
}

// statusAt returns how the queue stands. The maps are ranged over in any order, and each list is
// sorted after that.
func (q *queue) statusAt(now time.Time) Status {
	s := Status{
		Workers: []WorkerStatus{}, Types: []TypeStatus{}, Active: []ActiveStatus{},
		Processed: q.processed, Failed: q.failed, Expired: q.expired, Draining: q.drained,
	}
	queued := map[string]int{}           // by tenant
	oldest := map[string]time.Duration{} // by type
	for _, i := range q.items {
		if i.holder == nil {
			s.Queued++
			queued[i.task.Tenant]++
			oldest[i.task.Type] = max(oldest[i.task.Type], now.Sub(i.since))
			s.OldestQueued = max(s.OldestQueued, now.Sub(i.since))
			continue
		}
		a := ActiveStatus{Key: i.task.Key, Run: i.task.Run, Node: i.task.Node, Type: i.task.Type, Worker: i.holder.id, Age: now.Sub(i.since)}
		if i.lease.In() {
			a.Lease = i.until.Sub(now)
		}
		s.Active = append(s.Active, a)
	}
	slices.SortFunc(s.Active, func(a, b ActiveStatus) int {
		return cmp.Or(cmp.Compare(b.Age, a.Age), cmp.Compare(a.Key, b.Key))
	})
	for t := range q.tasks.Types() {
		if t.Waiting > 0 || t.Out > 0 {
			s.Types = append(s.Types, TypeStatus{Type: t.Type, Queued: t.Waiting, OldestQueued: oldest[t.Type], Active: t.Out, Workers: q.takers[t.Type] + q.takers[every]})
		}
	}
	slices.SortFunc(s.Types, func(a, b TypeStatus) int { return cmp.Compare(a.Type, b.Type) })
	s.Tenants = q.tenantStatuses(queued)
	for _, t := range q.workers {
		s.Workers = append(s.Workers, WorkerStatus{
			ID: t.id, Types: slices.Clone(t.types), Capacity: t.capacity, Active: len(t.held),
			InProcess: t.permanent, Registered: t.joined, Waiting: len(t.places) > 0, Draining: t.draining || t.leaving,
			Age: now.Sub(t.since), Silent: now.Sub(t.seen), Processed: t.processed, Failed: t.failed, Expired: t.expired,
		})
	}
	slices.SortFunc(s.Workers, func(a, b WorkerStatus) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// tenantStatuses returns how the tasks of tenants stand; queued has the number of those that are queued.
//
// Where only tasks without a tenant are queued or held, it returns nil: such a pool has no tenants to
// tell of.
func (q *queue) tenantStatuses(queued map[string]int) (out []TenantStatus) {
	turns := map[string]int64{}
	for n := range q.tasks.Tenants() {
		out = append(out, TenantStatus{n.Tenant, queued[n.Tenant], n.Out, n.Bound})
		turns[n.Tenant] = n.Turn
	}
	if len(out) == 1 && out[0].Tenant == "" {
		return nil
	}
	slices.SortFunc(out, func(a, b TenantStatus) int {
		return cmp.Or(cmp.Compare(turns[a.Tenant], turns[b.Tenant]), cmp.Compare(a.Tenant, b.Tenant))
	})
	return out
}
