package pawl

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/fair"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// pins resolves every subworkflow that a run of g can reach to the definition
// that it means now. A run without subworkflows has none.
func (e *Engine) pins(g *workflow.Graph) (workflow.Pins, error) {
	var pins workflow.Pins
	seen := map[string]bool{}
	for graphs := []*workflow.Graph{g}; len(graphs) > 0; graphs = graphs[1:] {
		for i := range graphs[0].Definition.Nodes {
			n := &graphs[0].Definition.Nodes[i]
			if n.Subworkflow == nil || pins.Of(n.Subworkflow) != "" {
				continue
			}
			hash, err := e.dir.Published(n.Subworkflow.Name, n.Subworkflow.Version)
			if err != nil {
				return nil, fmt.Errorf("node %q of %s: %w", string(n.ID), graphs[0].Definition.Name, closedError(err))
			}
			pins = append(pins, workflow.Pin{Name: n.Subworkflow.Name, Version: n.Subworkflow.Version, Hash: hash})
			if seen[hash] {
				continue
			}
			seen[hash] = true
			child, err := e.dir.Graph(hash)
			if err != nil {
				return nil, fmt.Errorf("node %q of %s: %w", string(n.ID), graphs[0].Definition.Name, closedError(err))
			}
			graphs = append(graphs, child)
		}
	}
	return pins, nil
}

// StartChild implements actor.Family.
func (o outbox) StartChild(c actor.Child) { o.engine.courier.add(c.ID, errand{want: &c}) }

// CancelChild implements actor.Family.
func (o outbox) CancelChild(child workflow.RunID) { o.engine.courier.add(child, errand{cancel: true}) }

// ChildEnded implements actor.Family.
func (o outbox) ChildEnded(child workflow.RunID, p workflow.Parent, m workflow.ChildEnded) {
	o.engine.courier.add(child, errand{parent: p, ended: &m})
}

// ChildAsks implements actor.Family.
func (o outbox) ChildAsks(child workflow.RunID, p workflow.Parent) {
	o.engine.courier.add(child, errand{parent: p})
}

// maxErrands bounds how many errands run side by side.
const maxErrands = 16

// errandsAtOnce returns how many errands run side by side: enough of them that
// their commits are synced together, where commits are synced, and otherwise no more
// than keep the processors busy, so that other runs find one.
func errandsAtOnce(d Durability) int {
	if d == ProcessCrash {
		return min(2*runtime.GOMAXPROCS(0), maxErrands)
	}
	return maxErrands
}

// A courier runs errands between parent and child runs: those of one child one
// after another, in the order in which they came, so that a cancel never
// overtakes a start. An errand that fails in a way that may pass is tried again
// until the engine closes; whatever a close or a crash leaves undone follows
// from the state of the runs when they wake. Without errands there is no
// goroutine.
type courier struct {
	engine *Engine
	most   int // errands at once

	mu      sync.Mutex
	queues  map[workflow.RunID]*errands
	ready   fair.Queue[string, workflow.RunID] // whose first errand may run now, by family
	running int
	closed  bool
	moved   chan struct{} // closed at the end of a try, if somebody waits for that
	group   sync.WaitGroup
}

// errands are those of one child, the first of which may be under way.
type errands struct {
	list []errand
	wait time.Duration // before the first is tried again
}

// An errand is one of four: what a parent wants of its child, its cancel, the
// end of a child to be told, or, with none of them, a child's question.
type errand struct {
	want   *actor.Child
	cancel bool
	parent workflow.Parent // of the last two
	ended  *workflow.ChildEnded
}

func newCourier(e *Engine) *courier {
	return &courier{engine: e, most: errandsAtOnce(e.options.Durability), queues: map[workflow.RunID]*errands{}}
}

// add takes an errand that concerns a child. It returns at once.
func (c *courier) add(child workflow.RunID, x errand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	q := c.queues[child]
	if q == nil {
		c.queues[child] = &errands{list: []errand{x}}
		c.begin(child)
		return
	}
	if last := len(q.list) - 1; last > 0 && q.list[last].replaced(x) {
		q.list[last] = x // it has not begun
		return
	}
	q.list = append(q.list, x)
}

// replaced reports whether y, coming right after x, makes x needless.
func (x errand) replaced(y errand) bool {
	return x.cancel == y.cancel && (x.want == nil) == (y.want == nil) && (x.ended == nil) == (y.ended == nil)
}

// family returns what the ids of a root run and of all below it begin with: an id
// given by a caller holds no slash.
func family(run workflow.RunID) string {
	root, _, _ := strings.Cut(string(run), "/")
	return root
}

// begin lets the first errand of a child run. The lock is held.
func (c *courier) begin(child workflow.RunID) {
	c.ready.Push(family(child), child)
	if c.running < c.most {
		c.running++
		c.group.Go(c.run)
	}
}

// run runs errands until none is ready.
func (c *courier) run() {
	for {
		child, x, ok := c.next()
		if !ok {
			return
		}
		err := c.do(child, x)
		if err != nil && c.engine.ctx.Err() == nil {
			c.engine.options.Logger.Warn("pawl: parent and child cannot speak now", "child", string(child), "error", err)
		}
		c.done(child, err)
	}
}

func (c *courier) next() (workflow.RunID, errand, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	child, ok := c.ready.Pop()
	if c.closed || !ok {
		c.running--
		return "", errand{}, false
	}
	return child, c.queues[child].list[0], true
}

// Between two tries of an errand, the first time and at most.
const (
	firstErrandDelay = 10 * time.Millisecond
	maxErrandDelay   = time.Second
)

// done lets the next errand of a child begin, or the same again after a while.
func (c *courier) done(child workflow.RunID, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()
	q := c.queues[child]
	if c.closed {
		return
	}
	if err != nil {
		q.wait = min(max(2*q.wait, firstErrandDelay), maxErrandDelay)
		time.AfterFunc(q.wait, func() { c.again(child) })
		return
	}
	if q.list, q.wait = q.list[1:], 0; len(q.list) == 0 {
		delete(c.queues, child)
		return
	}
	c.begin(child)
}

func (c *courier) again(child workflow.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.begin(child)
	}
}

// close ends the courier, and waits for errands that are under way: the context
// of the engine is done by then.
func (c *courier) close() {
	c.mu.Lock()
	c.closed = true
	c.signal()
	c.mu.Unlock()
	c.group.Wait()
}

// do runs an errand. An error says that it is to be tried again.
func (c *courier) do(child workflow.RunID, x errand) error {
	switch {
	case x.want != nil:
		failpoint.Hit("child.want")
		return c.want(x.want)
	case x.cancel:
		failpoint.Hit("child.cancel")
		return c.cancel(child)
	case x.ended != nil:
		failpoint.Hit("child.ended")
		return c.tell(x.parent.Run, *x.ended)
	}
	failpoint.Hit("child.asks")
	return c.asks(child, x.parent)
}

// want makes a child exist, and go on or pause as its parent does.
func (c *courier) want(d *actor.Child) error {
	e := c.engine
	h, err := e.dir.Head(d.ID)
	switch {
	case errors.Is(err, ErrRunNotFound) && d.Paused:
		return nil // it begins when its parent goes on
	case errors.Is(err, ErrRunNotFound):
		return c.start(d)
	case err != nil:
		return c.refuse(d, err)
	case h.Parent != d.Parent.Run, h.Definition != d.Definition:
		return c.tell(d.Parent.Run, refused(d, workflow.CodeIDConflict, fmt.Sprintf("run %q is not the child", string(d.ID))))
	case h.Status.Final():
		return c.tell(d.Parent.Run, actor.Ended(d.Parent, h.Outcome()))
	case h.Status == workflow.RunRunning && d.Paused:
		return over(e.ask(e.ctx, d.ID, workflow.Pause{Parent: true}))
	case h.Status == workflow.RunPaused && !d.Paused:
		return over(e.ask(e.ctx, d.ID, workflow.Resume{Parent: true}))
	}
	return nil
}

// start begins a child run.
func (c *courier) start(d *actor.Child) error {
	e := c.engine
	g, err := e.dir.Graph(d.Definition)
	if err != nil {
		return c.refuse(d, err)
	}
	if h, err := e.dir.Head(d.Parent.Root); err == nil && h.Room <= 0 {
		return c.refuse(d, fmt.Errorf("%w: run %q", store.ErrNoRoom, string(d.Parent.Root)))
	}
	input, _ := d.Input.(map[string]any)
	b := &birth{graph: g, inputHash: value.Hash(input), parent: &d.Parent}
	err = e.askOf(e.ctx, d.ID, workflow.Start{Input: input, Parent: &d.Parent, Pins: d.Pins}, b)
	failpoint.Hit("child.started")
	if err != nil {
		return c.refuse(d, err)
	}
	// A run that fails as it starts has no parent that it knows of.
	h, err := e.dir.Head(d.ID)
	if err == nil && h.Status == workflow.RunFailed {
		return c.tell(d.Parent.Run, actor.Ended(d.Parent, h.Outcome()))
	}
	return nil
}

// refuse tells a parent that its child cannot begin, if err says so for good.
func (c *courier) refuse(d *actor.Child, err error) error {
	var input *workflow.InputError
	var limit *workflow.LimitError
	code := ""
	switch {
	case errors.As(err, &input):
		code = workflow.CodeSchema
	case errors.As(err, &limit), errors.Is(err, store.ErrNoRoom):
		code = workflow.CodeLimit
	case forRun(err), errors.Is(err, ErrVersion), errors.Is(err, ErrSuspended):
		code = workflow.CodeInternal
	default:
		return err
	}
	return c.tell(d.Parent.Run, refused(d, code, legible(err.Error(), maxMessage)))
}

// forRun reports whether err says that a run is damaged, not the index of all,
// which may only be unreadable at the moment.
func forRun(err error) bool {
	var c *store.CorruptError
	return errors.As(err, &c) && c.Run != ""
}

func refused(d *actor.Child, code, message string) workflow.ChildEnded {
	return workflow.ChildEnded{
		Token: d.Token, Attempt: d.Attempt, Status: workflow.RunFailed,
		Failure: &workflow.Failure{Code: code, Message: message, Permanent: true},
	}
}

// cancel ends a child that is not wanted any more.
func (c *courier) cancel(child workflow.RunID) error {
	h, err := c.engine.dir.Head(child)
	if err == nil && h.Status.Final() {
		return nil
	}
	const reason = "the parent run does not wait for it any more"
	return over(c.engine.ask(c.engine.ctx, child, workflow.Cancel{Reason: reason}))
}

// tell tells a parent how its child has ended.
func (c *courier) tell(parent workflow.RunID, m workflow.ChildEnded) error {
	err := over(c.engine.ask(c.engine.ctx, parent, m))
	failpoint.Hit("child.told")
	return err
}

// asks asks a parent whether it wants its child, which ends if not.
func (c *courier) asks(child workflow.RunID, p workflow.Parent) error {
	err := c.engine.ask(c.engine.ctx, p.Run, workflow.ChildAsks{Token: p.Token, Attempt: p.Attempt})
	if errors.Is(err, ErrStale) || errors.Is(err, ErrEnded) || errors.Is(err, ErrRunNotFound) {
		return c.cancel(child)
	}
	return over(err)
}

// over returns nil for an error that another try would only repeat: nobody
// there wants the message, or a later Resume or repair has it sent again.
func over(err error) error {
	for _, final := range []error{ErrStale, ErrEnded, ErrNotLive, ErrRunNotFound, ErrSuspended, ErrCorrupt, ErrVersion} {
		if errors.Is(err, final) {
			return nil
		}
	}
	return err
}
