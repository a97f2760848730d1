package natspool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/serving"
	"github.com/pawl-run/pawl/nats/internal/jet"
	"github.com/pawl-run/pawl/workflow"
)

// A Pool is the executor of one engine: it publishes tasks into a work queue of JetStream and
// commits what workers say that they came to. Its methods may be called from any goroutine.
//
// entries is the truth about what is out, in the memory of this process; the stream is a copy of it
// for the workers, and may have more (what is over and not removed yet) or less (what is to be
// published again). Three loops, begun by New and ended by stop, work on the difference: publishLoop
// on queues, removeLoop on removals, reapLoop on holders. wake and sweep have room for one note each,
// so that to leave one never blocks. mu guards what stands below it; no result and no heartbeat goes
// to the engine under it.
//
// A pool answers workers only while an engine is attached that can commit: an answer of another pool
// of the same name would come before that of the one that has the engine, and be taken for it. subs
// is not empty exactly then. An engine that has lost its log may not know that for a while: it asks the log before it refuses
// anything, and so does the pool.
type Pool struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	options Options
	names   names
	ctx     context.Context // of the loops
	stop    context.CancelFunc
	group   sync.WaitGroup // of the loops, of calls that are served, and of turns
	slots   chan struct{}  // of calls that are served
	turns   *remote.Turns
	wake    chan struct{} // there is something to publish
	sweep   chan struct{} // there is something to remove

	stream streamState
	again  <-chan time.Time // when publishLoop tries again to make the stream

	mu       sync.Mutex
	engine   engineCalls // attached; nil without an engine, or if it can do nothing more
	subs     []*nats.Subscription
	idle     bool // the engine can do nothing more: nothing is published, or removed
	entries  map[pawl.Key]*entry
	owners   int64
	queues   [classes][]pawl.Key // to be published
	removals []*entry            // over, and perhaps in the stream
	served   map[classQueue]bool // those that have their consumer
	closed   bool
}

// engineCalls is what a pool needs of an engine.
// It is what *pawl.Engine has, so that tests can put a fake in its place.
type engineCalls interface {
	remote.Results
	Heartbeat(ctx context.Context, key pawl.Key, details any) error
	AwaitFailure(ctx context.Context) error
}

// An entry is a task that is out. The pool's lock guards it.
// owner tells the calls of Execute for one key apart, as the engine dispatches a task again in its
// next life. holder and heard are what workers last said; an entry without a holder, or with one that
// has been silent for a lease, is published again. committing is above 0 while a result of it is with
// the engine: then withdraw removes no message, for the worker acknowledges it. Once answered is true
// it stays. copied says that the stream may have had the message already.
type entry struct {
	task       pawl.Task
	host       serving.Host
	owner      int64 // the call of Execute
	subject    string
	text       []byte
	holder     string // who was heard of last; "" for nobody
	heard      time.Time
	committing int  // results that are on their way to the engine
	answered   bool // a result is committed, or not wanted
	copied     bool // its message was published before, perhaps by another pool
	left       bool // its engine closes: the message is for the next one
}

// Bounds of a pool.
const (
	maxCalls      = 1024             // that are served at once
	maxBatch      = 256              // tasks that are published before the answers are read
	commitTimeout = 30 * time.Second // of a result
)

// New returns a pool over a connection, which stays the caller's; it makes the stream if it is
// missing. Connect with nats.MaxReconnects(-1). It fails with pawl.ErrInvalid for options that
// cannot be, or with what JetStream says.
//
// It answers no worker before Attach.
func New(ctx context.Context, conn *nats.Conn, o Options) (*Pool, error) {
	if conn == nil {
		return nil, fmt.Errorf("%w: natspool.New without a connection", pawl.ErrInvalid)
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncTimeout(2*jet.Timeout))
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	p := &Pool{
		conn: conn, js: js, options: o, names: names(o.Name), slots: make(chan struct{}, maxCalls), wake: make(chan struct{}, 1), sweep: make(chan struct{}, 1),
		entries: map[pawl.Key]*entry{}, served: map[classQueue]bool{}, stream: streamState{broken: map[string]sighting{}},
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	if err := p.openStream(ctx); err != nil {
		p.stop()
		return nil, err
	}
	p.turns = remote.NewTurns(p.ctx, &p.group, pawl.ErrClosed)
	p.group.Go(p.publishLoop)
	p.group.Go(p.removeLoop)
	p.group.Go(p.reapLoop)
	return p, nil
}

// Attach says which engine gets the results. It is called once the engine is open, and again for one that is opened later: from then on
// the pool answers workers, until the engine has failed, or is closed. Then it publishes nothing any more, and workers keep
// what they have until a pool answers them, of this process or of another one that has the engine now.
func (p *Pool) Attach(e *pawl.Engine) { p.attachEngine(e) }

// attachEngine is Attach for any engine.
func (p *Pool) attachEngine(e engineCalls) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.engine, p.idle = e, false
	if err := p.subscribeAll(); err != nil { // the connection is closed
		p.options.Logger.Error("natspool: workers cannot be answered", "pool", p.options.Name, "error", err)
	}
	signal(p.wake)
	signal(p.sweep)
	p.group.Go(func() { // until the engine can do nothing more
		_ = e.AwaitFailure(p.ctx) // whoever opened the engine is told
		p.detach(e)
	})
}

// detach lets go of an engine that can do nothing more, unless another one is attached already.
//
// Somebody else may have its directory: nothing of what this pool knows counts any more. Its entries stay until Close of the engine
// ends their contexts, for an engine that is opened later may have added some.
func (p *Pool) detach(e engineCalls) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine != e || p.closed {
		return
	}
	p.engine, p.idle, p.removals = nil, true, nil
	p.unsubscribe()
	for k := range p.entries {
		p.turns.EndTurns(k)
	}
}

// Execute implements pawl.Executor: it has the task published and returns pawl.ErrPending. A task
// that is larger than a message of NATS may be fails with limit_exceeded.
//
// It returns before the task is in the stream: the engine has committed the dispatch, and what is not
// published yet is published when the servers are there. Its size is checked here, since a message
// that is too large would be refused in each round for ever.
func (p *Pool) Execute(ctx context.Context, t pawl.Task) (any, error) {
	text, err := json.Marshal(remote.NewTaskMessage(t, p.options.Lease))
	if err != nil {
		return nil, fmt.Errorf("publish the task: %w", err)
	}
	if most := p.conn.MaxPayload(); most > 0 && int64(len(text)+copyHeaderBytes) > most {
		return nil, pawl.TaskError{Code: workflow.CodeLimit, Message: fmt.Sprintf(
			"the task has %d bytes, and a message of NATS at most %d: pass large inputs by reference, or raise max_payload", len(text), most)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, pawl.ErrPending // the engine dispatches it again in its next life
	}
	host := serving.Of(ctx)
	host.ReportWorker(string(t.Key), "")
	p.owners++
	e := &entry{task: t, host: host, owner: p.owners, subject: p.names.task(t.Type, classOf(t.Priority), t.Key), text: text, copied: host.WasDispatched(string(t.Key))}
	p.entries[t.Key] = e
	p.enqueue(t.Key)
	context.AfterFunc(ctx, func() { p.withdraw(t.Key, e.owner, errors.Is(context.Cause(ctx), pawl.ErrClosed)) })
	return nil, pawl.ErrPending
}

// Close stops publishing and taking results. Workers go on with what they hold and what is in the
// stream, and deliver when a pool is there again. Close the pool before its engine: workers are then told as
// soon as may be that nobody answers. It returns the cause of ctx if a commit lasts longer.
//
// The order: no further requests and results, then the loops end, and then the calls that are served
// are waited for, a commit among them. After closed is set, the ends of contexts withdraw nothing, so
// that workers keep what they have.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.turns.Close()
	p.unsubscribe()
	p.mu.Unlock()
	p.stop()
	ended := make(chan struct{})
	go func() { defer close(ended); p.group.Wait() }()
	select {
	case <-ended:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.engine, p.entries, p.removals, p.queues = nil, nil, nil, [classes][]pawl.Key{} // whoever keeps the pool keeps no engine
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enqueue has tasks published that are out. The lock is held.
//
// A key may be in a queue twice, and may be over when its turn comes: nextBatch skips what is not out,
// and the stream refuses a second copy.
func (p *Pool) enqueue(keys ...pawl.Key) {
	for _, k := range keys {
		if e := p.entries[k]; e != nil {
			c := classOf(e.task.Priority)
			p.queues[c] = append(p.queues[c], k)
		}
	}
	signal(p.wake)
}

// signal leaves a note in a channel with room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// withdraw forgets an attempt that is over. Unless its worker has just been answered, its
// message is removed and its holder told.
//
// The engine calls it by the end of the context of the dispatch, for every attempt that is over, so
// also after each result. While a result is being committed, or has been, the worker acknowledges the
// message itself. An attempt of an engine that closes is not over: its message stays for the next engine, which
// another process may have opened already.
func (p *Pool) withdraw(k pawl.Key, owner int64, closing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[k]
	if e == nil || e.owner != owner || p.closed {
		return
	}
	delete(p.entries, k)
	e.left = closing
	p.turns.EndTurns(k)
	if e.committing == 0 && !e.answered && !closing {
		p.remove(e)
	}
}

// remove has a message removed and its holder told. The lock is held.
//
// It is done by a loop and not here, since it takes a request to the servers and the lock is held.
func (p *Pool) remove(e *entry) {
	p.removals = append(p.removals, e)
	signal(p.sweep)
}

// outKeys returns what is out and held by nobody, by priority and in the order of dispatch.
//
// A task whose worker was heard of within a lease is left out. An entry that nobody has taken yet has the zero
// time in heard, and so is always in.
func (p *Pool) outKeys(now time.Time) []pawl.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*entry
	for _, e := range p.entries {
		if !e.answered && now.Sub(e.heard) > p.options.Lease {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.task.Priority, b.task.Priority), cmp.Compare(a.task.Order, b.task.Order))
	})
	keys := make([]pawl.Key, len(out))
	for i, e := range out {
		keys[i] = e.task.Key
	}
	return keys
}

// reapLoop forgets holders that are not heard of any more.
// Nothing else tells the engine that a worker has died; JetStream delivers its message to another one
// by itself.
func (p *Pool) reapLoop() {
	tick := time.NewTicker(p.options.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.reap(time.Now())
		case <-p.ctx.Done():
			return
		}
	}
}

// reap forgets the holders that were silent for longer than a lease at an instant, and ends their
// turns of Once.
func (p *Pool) reap(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, e := range p.entries {
		if e.holder != "" && now.Sub(e.heard) > p.options.Lease {
			e.holder = ""
			e.host.ReportWorker(string(k), "")
			p.turns.EndTurns(k)
		}
	}
}
