package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/serving"
)

// results is what a pool needs of an engine.
// It is what *pawl.Engine has, so that tests can put a fake in its place.
type results interface {
	Complete(ctx context.Context, key pawl.Key, output any) error
	Fail(ctx context.Context, key pawl.Key, cause error) error
	Heartbeat(ctx context.Context, key pawl.Key, details any) error
	OpenBlob(ctx context.Context, ref blob.Ref) (io.ReadCloser, error)
	DeriveSecret(purpose string) ([]byte, error)
}

// A Pool hands the tasks of one engine to workers. It is the engine's Executor,
// or what a route of pawl.Handlers calls. Its methods may be called from any
// goroutine.
//
// mu guards everything below it but turns and refused. mu is never held while a result or a
// heartbeat goes to the engine, which may take long. queue is
// changed only under mu, and each change ends with deliverTasks. timer is one for all that is due;
// armed says when it fires, so that it is set anew only for something earlier.
type Pool struct {
	options Options
	ctx     context.Context // of in-process workers
	stop    context.CancelCauseFunc
	group   sync.WaitGroup // of in-process tasks, and of the servers

	mu       sync.Mutex
	queue    *queue
	owners   int64 // calls of Execute
	timer    *time.Timer
	armed    time.Time // when the timer fires; zero if it does not
	polls    map[*workerState]*poll
	locals   map[*workerState]*local
	turns    *remote.Turns   // of remote workers; has a lock of its own
	revoked  map[string]bool // ids of workers that are kept out
	engine   results
	tags     keyTags       // of the engine's directory
	attached chan struct{} // closed when there is an engine
	changed  chan struct{} // closed, and made anew, when a task is let go: for Drain
	servers  []*http.Server
	refused  refusalLog   // has a lock of its own
	bodies   *crowd.Crowd // pieces of those of requests; likewise
	closed   bool
}

// errStopped is why the tasks of in-process workers end at Close.
var errStopped = errors.New("the pool is closed")

// New returns a pool without workers. It fails with pawl.ErrInvalid.
func New(o Options) (*Pool, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Pool{
		options: o, queue: newQueue(o.Lease, o.Expiry, o.Types), polls: map[*workerState]*poll{}, revoked: map[string]bool{}, locals: map[*workerState]*local{},
		attached: make(chan struct{}), changed: make(chan struct{}), bodies: newBodies(o.MaxBody),
	}
	p.ctx, p.stop = context.WithCancelCause(context.Background())
	p.turns = remote.NewTurns(p.ctx, &p.group, errClosed)
	p.timer = time.AfterFunc(time.Hour, p.timerFired)
	p.timer.Stop()
	return p, nil
}

// Attach says which engine gets the results. Call it when the engine is open, and
// again for one that is opened later; until the first call results and remote workers wait.
func (p *Pool) Attach(e *pawl.Engine) { p.attachEngine(e) }

// observes is what an engine has that counts what a pool tells of itself.
type observes interface {
	ObserveFigure(figure string, read func() int64) error
}

// attachEngine is Attach for any engine. The secret of the tags is derived from the engine's
// directory: it is the same after a restart, so
// that workers keep the keys that they have.
func (p *Pool) attachEngine(e results) {
	secret, err := e.DeriveSecret(tagPurpose)
	if err != nil { // the engine is closed, and takes no results either
		secret = []byte(rand.Text())
	}
	p.mu.Lock()
	p.tags = secret
	if p.engine == nil {
		close(p.attached)
	}
	again := p.engine == e
	p.engine = e
	p.mu.Unlock()
	if o, ok := e.(observes); ok && !again {
		_ = o.ObserveFigure("seats.held", func() int64 { held, _, _ := p.countSeats(); return held }) // an engine that is closed has no metrics
		_ = o.ObserveFigure("seats.free", func() int64 { _, free, _ := p.countSeats(); return free })
		_ = o.ObserveFigure("leases.expired", func() int64 { _, _, expired := p.countSeats(); return expired })
	}
}

// countSeats returns how many tasks the workers hold, and would take besides, and how many leases have run out. It looks at each
// worker, but moves nothing on.
func (p *Pool) countSeats() (held, free, expired int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.queue.workers {
		held += int64(len(s.held))
		free += int64(s.freeCapacity())
	}
	return held, free, p.queue.expired
}

// Execute implements pawl.Executor: it puts the task into the queue and returns
// pawl.ErrPending. The task leaves the queue when ctx is cancelled, and does not come into it if that has happened.
//
// The engine calls it once for each dispatch, and again under the same key in its next life. owner
// tells these calls apart: the end of an earlier ctx must not withdraw the task of a later call.
func (p *Pool) Execute(ctx context.Context, t pawl.Task) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || ctx.Err() != nil {
		return nil, pawl.ErrPending // it is dispatched again when the engine is opened again, or is over
	}
	host := serving.Of(ctx)
	host.ReportWorker(string(t.Key), "") // before a worker has it
	p.owners++
	owner := p.owners
	p.queue.addTask(host, t, owner, time.Now())
	p.deliverTasks()
	context.AfterFunc(ctx, func() { p.withdrawTask(t.Key, owner) })
	return nil, pawl.ErrPending
}

// withdrawTask removes a task that is over, and tells an in-process worker so.
func (p *Pool) withdrawTask(k pawl.Key, owner int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.queue.withdrawTask(k, owner, time.Now())
	if l := p.locals[s]; l != nil {
		l.cancelTask(k)
	}
	p.deliverTasks()
}

// timerFired brings the queue to now.
// A timer that fires after Close, or late, does no harm: the queue is brought to now whenever it is
// looked at.
func (p *Pool) timerFired() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = time.Time{}
	if !p.closed {
		p.queue.advanceTo(time.Now())
		p.deliverTasks()
	}
}

// deliverTasks brings the tasks that the queue has handed out to the workers, and sets the
// timer to what is due next. It ends everything that changes the queue; the lock
// is held.
//
// The queue itself starts nothing and answers nobody; here its list of assignments becomes goroutines
// and answers. An assignment to a worker whose poll has ended stays with the worker as held: its next
// poll does not name it and gets it. The timer has a millisecond at least, so that a due time that is
// not quite reached does not spin.
func (p *Pool) deliverTasks() {
	for _, a := range p.queue.out {
		if l := p.locals[a.worker]; l != nil {
			p.startTask(l, a.item)
		} else if at := p.polls[a.worker]; at != nil {
			at.endPoll(a.item)
		}
	}
	clear(p.queue.out)
	p.queue.out = p.queue.out[:0]
	p.tellFreed()
	p.logUnserved()
	if next := p.queue.nextDue(); !next.IsZero() && !p.closed && (p.armed.IsZero() || next.Before(p.armed)) {
		p.armed = next
		p.timer.Reset(max(time.Until(next), time.Millisecond))
	}
}

// tellFreed tells Drain, and the turns of Once, of the tasks that were let go. The lock
// is held.
//
// A turn of Once must not outlive the hold on its task. changed is closed for whoever waits, and a new
// channel takes its place.
func (p *Pool) tellFreed() {
	if len(p.queue.freed) == 0 {
		return
	}
	for _, k := range p.queue.freed {
		p.turns.EndTurns(k)
	}
	p.queue.freed = p.queue.freed[:0]
	close(p.changed)
	p.changed = make(chan struct{})
}

// Drain stops handing tasks to the named workers, or to all without names, and waits
// until they hold none. Without names the workers are not told: they wait for
// the pool that comes after. A named worker is told to leave, and gets tasks again
// when it registers again. Errors: ErrUnknownWorker (one of the names; then none is
// drained), the cause of ctx.
//
// A worker may be forgotten while Drain waits for it; it then holds nothing, and
// counts as idle. When ctx ends, drained workers stay drained.
func (p *Pool) Drain(ctx context.Context, workers ...string) error {
	p.mu.Lock()
	if slices.ContainsFunc(workers, func(id string) bool { return p.queue.workers[id] == nil }) {
		p.mu.Unlock()
		return ErrUnknownWorker
	}
	for _, id := range workers {
		s := p.queue.workers[id]
		p.queue.drainWorker(s, time.Now())
		if at := p.polls[s]; at != nil {
			at.endPoll()
		}
	}
	p.queue.drained = p.queue.drained || len(workers) == 0
	p.deliverTasks()
	for p.hasBusyWorker(workers) {
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return late.Cause(ctx)
		}
		p.mu.Lock()
	}
	p.mu.Unlock()
	return nil
}

// hasBusyWorker says whether one of these workers, or any, holds a task. The lock is held.
func (p *Pool) hasBusyWorker(workers []string) bool {
	if len(workers) == 0 {
		for _, s := range p.queue.workers {
			if len(s.held) > 0 {
				return true
			}
		}
	}
	for _, id := range workers {
		if s := p.queue.workers[id]; s != nil && len(s.held) > 0 {
			return true
		}
	}
	return false
}

// Leave removes a worker; unlike after Revoke, it may register again. The tasks of a remote
// worker go back to the heads of their queues at once. The contexts of an in-process
// worker's tasks are cancelled, and each task goes back when its function has returned.
// It fails with ErrUnknownWorker.
func (p *Pool) Leave(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.queue.workers[id]
	if s == nil {
		return ErrUnknownWorker
	}
	p.removeWorker(s)
	return nil
}

// removeWorker removes a worker of either kind. The functions of a local one are interrupted, but its
// tasks stay with it until they return: another worker must not begin a task while the first still
// works on it, if that can be known. The lock is held.
func (p *Pool) removeWorker(s *workerState) {
	if l := p.locals[s]; l != nil {
		l.cancelAll()
	}
	if at := p.polls[s]; at != nil {
		at.endPoll()
	}
	p.queue.removeWorker(s, time.Now())
	if l := p.locals[s]; l != nil {
		p.forgetLocal(l)
	}
	p.deliverTasks()
}

// Close hands out nothing more, ends polls and servers, cancels the contexts of
// in-process workers, and waits until their functions have returned or ctx is
// done. Call Drain first to let them finish. ctx should have a deadline: Close also
// waits for requests in progress, up to an hour for a worker that sends a blob
// slowly. The engine may be closed before or after; it dispatches unfinished tasks
// again when it is opened again. Errors: the cause of ctx, joined with a
// *pawl.LeftBehindError that names the tasks whose functions still run.
//
// First nothing new begins, then polls return, so that Shutdown of the servers need not wait
// for them, and then Close waits for the goroutines. It may be called again, and then waits for
// those that are left.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed, p.queue.drained = true, true
	p.turns.Close()
	p.timer.Stop()
	p.stop(errStopped)
	for _, at := range p.polls {
		at.endPoll()
	}
	servers := p.servers
	p.mu.Unlock()
	var errs []error
	for _, s := range servers {
		if err := s.Shutdown(ctx); err != nil {
			errs = append(errs, err, s.Close())
		}
	}
	ended := make(chan struct{})
	go func() {
		p.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		errs = append(errs, late.Cause(ctx), p.leftBehind())
	}
	return errors.Join(errs...)
}
