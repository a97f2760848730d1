package natspool

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/nats/internal/jet"
	"github.com/pawl-run/pawl/timeout"
)

// A Worker performs tasks of an engine on any machine. Conn must be set, and should have been
// connected with nats.MaxReconnects(-1). Run is called once.
type Worker struct {
	Conn     *nats.Conn
	Name     string       // Options.Name of the pool; "tasks" by default
	ID       string       // shown by Inspect; a random text by default. No two that run at once may have the same
	Types    []string     // what it takes; the types of the handlers by default, without "*"
	Capacity int          // how many tasks at once; 1 by default
	Blobs    blob.Store   // for Task.Put and Task.Open: what the engine has in pawl.Options.Blobs; without one they fail with pawl.ErrInvalid
	Logger   *slog.Logger // gets what Run cannot return; slog.Default() by default
}

// workerBackoff is the pause after a call that failed.
var workerBackoff = timeout.Backoff{First: 50 * time.Millisecond, Max: 2 * time.Second}

// Bounds of a worker.
const (
	pullWait    = 5 * time.Second // of one request for a task
	callTimeout = 8 * time.Second // of one request to the pool, which may have been lost
	claimWait   = 2 * time.Second // of the question whether a task that comes again is still wanted
)

// The errors of a request: errOver and errNotMine end the task's function,
// errInvalid says that the message would never be taken, and errBusy that the
// same request may succeed later.
var (
	errDropped  = errors.New("the task is no longer wanted from this worker")
	errBusy     = errors.New("the engine's pool is not there")
	errInvalid  = errors.New("the pool does not take it")
	errNotMine  = errors.New("another worker holds the task")
	errOver     = errors.New("the attempt is over")
	errNoWorker = fmt.Errorf("%w: natspool.Worker needs Conn and at least one type", pawl.ErrInvalid)
)

// Run performs tasks until ctx is done: up to Capacity at once, each in its goroutine. It renews
// their leases, and delivers each result until the pool has committed it, over and over
// where NATS or the engine is away; the task is held for as long. When ctx is done the tasks'
// contexts are cancelled, what they were at is given back, and Run returns nil once all functions have
// returned. It fails with pawl.ErrInvalid, or with nats.ErrConnectionClosed when the connection
// is closed.
//
// The notices of drops are subscribed to before the first task is taken. Pullers end first and tasks
// after them, so that no task begins when Run waits for the last one.
func (w *Worker) Run(ctx context.Context, h pawl.Handlers) error {
	l, err := w.newLoop(h)
	if err != nil {
		return err
	}
	drops, err := w.Conn.Subscribe(l.names.drop(), l.dropTask)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", l.names.drop(), err)
	}
	defer func() { _ = drops.Unsubscribe() }() // the connection may be closed
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for _, p := range l.newPullers() {
		l.group.Go(func() {
			if err := p.pullTasks(ctx); err != nil {
				stop(err)
			}
		})
	}
	l.group.Wait()
	l.tasks.Wait()
	if err := context.Cause(ctx); errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	return nil
}

// A workerLoop is one call of Run.
//
// room has as many places as the capacity, and one note in it for each task. held has the cancel
// function of each, until its result is delivered; mu guards it alone. types, names and handlers do
// not change.
type workerLoop struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	names    names
	id       string
	types    []string
	handlers pawl.Handlers
	log      *slog.Logger
	blobs    blob.Store
	group    sync.WaitGroup // the pullers
	gate     classGate      // of the pullers
	tasks    sync.WaitGroup
	room     chan struct{} // holds as many as there are tasks

	mu   sync.Mutex
	held map[pawl.Key]context.CancelCauseFunc
}

// newLoop checks the worker's fields and fills in the defaults. It connects to nothing.
func (w *Worker) newLoop(h pawl.Handlers) (*workerLoop, error) {
	types := w.Types
	if types == nil {
		types = slices.DeleteFunc(slices.Sorted(maps.Keys(h)), func(t string) bool { return t == "*" })
	}
	if w.Conn == nil || len(types) == 0 {
		return nil, errNoWorker
	}
	if err := h.Check(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(w.Conn)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	l := &workerLoop{
		conn: w.Conn, js: js, names: names(w.Name), id: w.ID, types: types, handlers: h, log: w.Logger, blobs: w.Blobs,
		room: make(chan struct{}, max(w.Capacity, 1)), held: map[pawl.Key]context.CancelCauseFunc{},
	}
	if w.Name == "" {
		l.names = defaultName
	}
	if !jet.IsName(string(l.names)) {
		return nil, fmt.Errorf("%w: natspool.Worker.Name is %q: it is that of the pool", pawl.ErrInvalid, w.Name)
	}
	if l.id == "" {
		l.id = rand.Text()
	}
	if l.log == nil {
		l.log = slog.Default()
	}
	return l, nil
}

// startTask performs a delivered task in a goroutine of its own.
//
// It never waits: the puller that calls it asks for the next task. A message that nobody can read
// would come again for ever, so it is terminated; one for which there is no room goes to another
// worker.
func (l *workerLoop) startTask(ctx context.Context, m jetstream.Msg) {
	t, lease, err := readTask(m.Data())
	if err != nil {
		l.log.Error("natspool: a message is no task", "worker", l.id, "subject", m.Subject(), "error", err)
		_ = m.Term() // the engine publishes what is still out
		return
	}
	select {
	case l.room <- struct{}{}:
	default:
		_ = m.Nak() // or the lease runs out
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[t.Key] != nil { // the lease ran out here, and it came again: it is at work
		<-l.room
		return
	}
	mine, cancel := context.WithCancelCause(ctx)
	l.held[t.Key] = cancel
	held := &heldTask{loop: l, task: t, message: m, lease: lease, cancel: cancel}
	l.tasks.Go(func() {
		defer l.taskEnded(t.Key)
		defer cancel(nil)
		held.perform(ctx, mine)
	})
}

// taskEnded gives the place of a task back.
func (l *workerLoop) taskEnded(k pawl.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, k)
	<-l.room
}

// readTask reads a delivered message: the task, and for how long it is held without a sign of life.
func readTask(data []byte) (pawl.Task, time.Duration, error) {
	var m remote.TaskMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return pawl.Task{}, 0, err
	}
	lease, err := time.ParseDuration(m.Lease)
	if err != nil {
		return pawl.Task{}, 0, err
	}
	t, err := m.ToTask()
	return t, lease, err
}

// dropTask cancels a task that the pool says is no longer wanted.
//
// All workers get each notice; a key that is not held here is somebody else's.
func (l *workerLoop) dropTask(m *nats.Msg) {
	var d dropMessage
	if json.Unmarshal(m.Data, &d) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if cancel := l.held[d.Key]; cancel != nil {
		cancel(errDropped)
	}
}
