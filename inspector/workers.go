package inspector

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/timing"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// A workerRow is a worker of the pool.
//
// Heard is empty of workers within the process. Holds is how many tasks it holds, of how many it can.
type workerRow struct {
	ID        string
	InProcess bool
	Class     string
	Word      string
	Holds     string // 2 of 8
	Types     string
	Since     instant
	Heard     instant
	Results   string
	Failed    string // and what went wrong; "" if nothing did
}

// A heldRow is a task that a worker holds.
//
// Until is empty if the task is held without a lease.
type heldRow struct {
	Run    workflow.RunID
	Href   string
	Node   workflow.NodeID
	Type   string
	Worker string
	Since  instant
	Until  instant // its lease
}

// A missingRow is a type of tasks that wait and that no worker takes.
//
// It is what an operator looks for first: such tasks wait until a worker for them is started.
type missingRow struct {
	Type   string
	Queued int
	Since  instant // the oldest of them waits
}

// A workersBody is the page of the workers. Without a pool it only says so.
type workersBody struct {
	Pool    bool // the engine has one
	Now     instant
	Facts   []fact
	Workers []workerRow
	Missing []missingRow
	Types   []worker.TypeStatus
	Tenants []worker.TenantStatus
	Process []loadRow // what there is to do in this process, by type
	Others  string    // how many types are not listed of it; "" if all are
	Held    []heldRow

	// How many of each list are left out.
	MoreWorkers, MoreMissing, MoreTypes, MoreTenants, MoreHeld int
}

// shownRows bounds each list of the page of the workers. The first shownMissing types that no worker takes have a line of their own; the
// others have no worker in the list of types.
const (
	shownRows    = 200
	shownMissing = 5
)

// showWorkers says who performs the tasks now.
//
// No commit tells of what workers do, so the hub of this page looks every lookEvery.
func (s *server) showWorkers(p *page) error {
	status, ok, err := worker.StatusOf(s.engine)
	if err != nil {
		return err
	}
	b := workersBody{Pool: ok, Now: p.instantOf(p.now)}
	if ok {
		b.fillFrom(p, &status)
	}
	t, err := s.engine.Timings(timing.WithLoadOnly(p.r.Context()), history.TimingFilter{})
	if err != nil {
		return err
	}
	b.takeLoad(p, t.Load)
	p.markLive(true, false, 0)
	return p.showPage("workers.html", "Workers", "workers", b)
}

// takeLoad lists what there is to do in this process: the types first whose tasks have waited longest, then those that are performed for longest.
func (b *workersBody) takeLoad(p *page, load []history.TypeLoad) {
	slices.SortFunc(load, func(x, y history.TypeLoad) int {
		return cmp.Or(cmp.Compare(y.Oldest, x.Oldest), cmp.Compare(y.Longest, x.Longest), cmp.Compare(x.Task, y.Task))
	})
	if more := len(load) - shownRows; more > 0 {
		b.Others, load = groupDigits(more), load[:shownRows]
	}
	var now timesPanel
	now.addLoad(p, load)
	b.Process = now.Load
}

// fillFrom takes what the page shows of the status of a pool.
//
// Each list is cut to shownRows, and the page says how many more there are. The types come first whose tasks have waited longest.
func (b *workersBody) fillFrom(p *page, s *worker.Status) {
	b.Facts = []fact{
		{"workers", groupDigits(len(s.Workers))},
		{"tasks that workers hold", groupDigits(len(s.Active))},
		{"tasks that wait", groupDigits(s.Queued)},
		{"results taken", groupDigits(s.Processed)},
		{"of these, errors", groupDigits(s.Failed)},
		{"leases that ran out", groupDigits(s.Expired)},
	}
	if s.Queued > 0 {
		b.Facts = append(b.Facts, fact{"the oldest waits for", spanText(s.OldestQueued)})
	}
	if s.Draining {
		b.Facts = append(b.Facts, fact{"draining", "nothing is handed out any more"})
	}
	workers, more := firstRows(s.Workers)
	b.MoreWorkers = more
	for _, w := range workers {
		b.Workers = append(b.Workers, p.workerRowOf(&w))
	}
	types := slices.SortedFunc(slices.Values(s.Types), func(x, y worker.TypeStatus) int {
		return cmp.Or(cmp.Compare(y.OldestQueued, x.OldestQueued), cmp.Compare(y.Active, x.Active), cmp.Compare(x.Type, y.Type))
	})
	for _, t := range types {
		// Tasks of this type wait, and no worker takes them.
		if t.Queued > 0 && t.Workers == 0 {
			b.Missing = append(b.Missing, missingRow{t.Type, t.Queued, p.instantOf(p.now.Add(-t.OldestQueued))})
		}
	}
	if b.MoreMissing = max(0, len(b.Missing)-shownMissing); b.MoreMissing > 0 {
		b.Missing = b.Missing[:shownMissing]
	}
	b.Types, b.MoreTypes = firstRows(types)
	b.Tenants, b.MoreTenants = firstRows(s.Tenants)
	held, more := firstRows(s.Active)
	b.MoreHeld = more
	for _, a := range held {
		row := heldRow{Run: a.Run, Href: p.runLink(a.Run), Node: a.Node, Type: a.Type, Worker: a.Worker, Since: p.instantOf(p.now.Add(-a.Age))}
		if a.Lease > 0 {
			row.Until = p.instantOf(p.now.Add(a.Lease))
		}
		b.Held = append(b.Held, row)
	}
}

// firstRows returns what a list of the page has of rows, and how many it leaves out.
func firstRows[T any](rows []T) ([]T, int) {
	n := min(shownRows, len(rows))
	return rows[:n], len(rows) - n
}

// workerRowOf describes a worker. Ages are durations, which become instants by the instant of the page.
func (p *page) workerRowOf(w *worker.WorkerStatus) workerRow {
	row := workerRow{
		ID: w.ID, InProcess: w.InProcess, Holds: groupDigits(w.Active) + " of " + groupDigits(w.Capacity), Types: shortText(strings.Join(w.Types, ", "), 120),
		Since: p.instantOf(p.now.Add(-w.Age)), Heard: p.instantOf(p.now.Add(-w.Silent)), Results: groupDigits(w.Processed),
	}
	if w.InProcess {
		row.Heard = instant{} // it is not one that is heard of
	}
	switch {
	// The worst comes first: a worker that holds a task from before a restart, and has not registered again.
	case !w.Registered:
		row.Class, row.Word = "parked", "not registered again"
	case w.Draining:
		row.Class, row.Word = "cancelled", "draining"
	case w.Active > 0:
		row.Class, row.Word = "running", "at work"
	default:
		row.Class, row.Word = "waiting", "idle"
	}
	var wrong []string
	if w.Failed > 0 {
		wrong = append(wrong, groupDigits(w.Failed)+" failed")
	}
	if w.Expired > 0 {
		wrong = append(wrong, groupDigits(w.Expired)+" expired")
	}
	row.Failed = strings.Join(wrong, ", ")
	return row
}
