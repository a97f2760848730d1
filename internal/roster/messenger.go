package roster

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/fair"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A Messenger carries messages between parent and child runs. The messages
// that concern one child are delivered one after another, in the order in which
// they came, so that a cancel never overtakes a start. A delivery that fails in a
// way that may pass is tried again until the engine closes; messages that a close
// or a crash leaves undelivered are sent anew when the runs wake, since they follow
// from the state of the runs. Without messages there is no goroutine.
type Messenger struct {
	o MessengerOptions

	mu      sync.Mutex
	queues  map[workflow.RunID]*childQueue
	ready   fair.Queue[string, workflow.RunID] // children whose first message may be delivered now, by root run
	running int
	cancels atomic.Int64  // that wait or are under way, of all children
	closed  bool          // takes no message: the engine closes, or maintains
	moved   chan struct{} // closed when a delivery ends, if somebody waits for that
	group   sync.WaitGroup
}

// A childQueue holds the messages that concern one child.
type childQueue struct {
	list    []Message
	begun   bool          // the first message is under way, or was, and is tried again
	cancels int           // of the list
	wait    time.Duration // before the first message is tried again
}

// A Message is one of four: the child as its parent wants it, the cancel of
// the child, the end of the child for its parent or, with none of them set, the
// child's question whether its parent still wants it.
type Message struct {
	Want   *actor.Child
	Cancel bool
	Parent workflow.Parent // of the last two
	Ended  *state.ChildEnded
}

// Runs are the runs of an engine as a messenger sees them.
type Runs interface {
	// Head returns the row of a run.
	Head(id workflow.RunID) (store.Head, error)
	// Graph returns a compiled definition by its hash.
	Graph(hash string) (*compiled.Graph, error)
	// Reported returns the sums of what a run, which has ended, and all below it have reported.
	Reported(id workflow.RunID) (amount.Sums, error)
	// Ask delivers a message to a run and waits until the answer is committed.
	Ask(id workflow.RunID, m state.Message) error
	// StartChild begins a child run of a definition, and returns when that is committed.
	StartChild(d *actor.Child, g *compiled.Graph) error
	// TellApart warns that a parent and its child cannot speak now; it does nothing while the engine closes.
	TellApart(child workflow.RunID, err error)
	// Storable returns a text as a record can hold it.
	Storable(text string) string
}

// MessengerOptions say for whom a messenger works, and how.
type MessengerOptions struct {
	Runs   Runs
	Most   int  // deliveries at once
	Closed bool // it takes no message
	Hook   *testhook.Hook
}

// NewMessenger returns a messenger without messages.
func NewMessenger(o MessengerOptions) *Messenger {
	return &Messenger{o: o, queues: map[workflow.RunID]*childQueue{}, closed: o.Closed}
}

// Enqueue takes a message that concerns a child. It returns at once. With Options.Maintenance it is
// left to the next Open, as one that a crash leaves undelivered.
func (c *Messenger) Enqueue(child workflow.RunID, x Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	q := c.queues[child]
	if q == nil {
		q = &childQueue{}
		c.queues[child] = q
		defer c.startDelivery(child)
	}
	waiting := len(q.list)
	if q.begun {
		waiting--
	}
	for ; waiting > 0 && q.list[len(q.list)-1].replacedBy(x); waiting-- {
		c.dropLast(q)
	}
	q.list = append(q.list, x)
	if x.Cancel {
		q.cancels++
		c.cancels.Add(1)
	}
}

// dropLast drops the last message of a child. The caller holds the lock.
func (c *Messenger) dropLast(q *childQueue) {
	last := len(q.list) - 1
	if q.list[last].Cancel {
		q.cancels--
		c.cancels.Add(-1)
	}
	q.list = q.list[:last]
}

// IsUnwanted reports whether a run is to be cancelled, or one of the runs above it, which the runs between them do not know
// yet: a cancel goes down from run to run. The ids of all runs below a run begin with its id.
func (c *Messenger) IsUnwanted(run workflow.RunID) bool {
	_, rest, isChild := strings.Cut(string(run), "/")
	if !isChild || c.cancels.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for isChild {
		_, rest, isChild = strings.Cut(rest, "/")
		above := run
		if isChild {
			above = run[:len(run)-len(rest)-1]
		}
		if q := c.queues[above]; q != nil && q.cancels > 0 {
			return true
		}
	}
	return false
}

// replacedBy reports whether y, coming right after x, makes x needless: it says the same anew, or the child is cancelled before it
// began, or was told.
func (x Message) replacedBy(y Message) bool {
	if x.Want != nil && y.Cancel {
		return true
	}
	return x.Cancel == y.Cancel && (x.Want == nil) == (y.Want == nil) && (x.Ended == nil) == (y.Ended == nil)
}

// startDelivery lets the first message of a child be delivered. The caller holds the
// lock.
func (c *Messenger) startDelivery(child workflow.RunID) {
	c.ready.Push(rootPrefix(child), child)
	if c.running < c.o.Most {
		c.running++
		c.group.Go(c.deliverMessages)
	}
}

// rootPrefix returns the id of a run's root, with which the ids of all runs below that
// root begin: an id given by a caller holds no slash.
func rootPrefix(run workflow.RunID) string {
	root, _, _ := strings.Cut(string(run), "/")
	return root
}

// deliverMessages delivers messages until none is ready.
func (c *Messenger) deliverMessages() {
	for {
		child, x, ok := c.nextMessage()
		if !ok {
			return
		}
		err := c.deliverMessage(child, x)
		if err != nil {
			c.o.Runs.TellApart(child, err)
		}
		c.messageDone(child, err)
	}
}

func (c *Messenger) nextMessage() (workflow.RunID, Message, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	child, ok := c.ready.Pop()
	if c.closed || !ok {
		c.running--
		return "", Message{}, false
	}
	q := c.queues[child]
	q.begun = true
	return child, q.list[0], true
}

// messageBackoff is the pause between two deliveries of a message.
var messageBackoff = timeout.Backoff{First: 10 * time.Millisecond, Max: time.Second}

// messageDone lets the next message of a child be delivered, or the same one again
// after a pause if err is not nil.
func (c *Messenger) messageDone(child workflow.RunID, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signalMoved()
	q := c.queues[child]
	if c.closed {
		return
	}
	if err != nil {
		q.wait = messageBackoff.Next(q.wait)
		time.AfterFunc(q.wait, func() { c.retryDelivery(child) })
		return
	}
	if q.list[0].Cancel {
		q.cancels--
		c.cancels.Add(-1)
	}
	if q.list, q.wait, q.begun = q.list[1:], 0, false; len(q.list) == 0 {
		delete(c.queues, child)
		return
	}
	c.startDelivery(child)
}

func (c *Messenger) retryDelivery(child workflow.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.startDelivery(child)
	}
}

// ConcernedRoots returns those of some runs without a parent that a message concerns, waiting or under way: its child
// or its parent is that run, or below it. If there are any, moved is closed when a delivery ends.
func (c *Messenger) ConcernedRoots(roots map[workflow.RunID]bool) (concerned map[workflow.RunID]bool, moved <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil
	}
	concerned = map[workflow.RunID]bool{}
	note := func(id workflow.RunID) {
		if root := workflow.RunID(rootPrefix(id)); roots[root] {
			concerned[root] = true
		}
	}
	for child, q := range c.queues {
		note(child)
		for _, x := range q.list {
			note(x.Parent.Run)
			if x.Want != nil {
				note(x.Want.Parent.Run)
			}
		}
	}
	if len(concerned) == 0 {
		return nil, nil
	}
	if c.moved == nil {
		c.moved = make(chan struct{})
	}
	return concerned, c.moved
}

// signalMoved tells those who wait that a delivery has ended. The caller holds the
// lock.
func (c *Messenger) signalMoved() {
	if c.moved != nil {
		close(c.moved)
		c.moved = nil
	}
}

// Close ends the messenger and waits for deliveries that are under way: the
// context of the engine is done by then.
func (c *Messenger) Close() {
	c.mu.Lock()
	c.closed = true
	c.signalMoved()
	c.mu.Unlock()
	c.group.Wait()
}
