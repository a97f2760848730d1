package pawltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A driver plays one scenario once. It owns time: everything that happens does
// so because the driver lets it, one thing after the other, and the next when
// all goroutines of the engine have come to rest.
//
// The fields above mu belong to the driver's goroutine.
type driver struct {
	scenario *Scenario
	options  playing
	ctx      context.Context
	copied   *pawl.Simulation // whose tasks the mocks perform; nil outside of simulations
	hook     testhook.Hook    // of the engine of every life
	folder   string           // the parent of the engine's directories
	began    time.Time

	promises map[pawl.Key]promise
	taken    map[string]int // calls per node, or per node and branch index
	keys     map[attemptName]pawl.Key
	tokens   map[attemptName][]workflow.TokenID // that have called, per run and node
	actions  []*action                          // in the order in which they were asked for
	next     int                                // event that has not happened yet
	shuffle  *rand.Rand
	still    int64     // records when nothing happened any more
	rested   time.Time // when that is long enough ago
	resume   bool      // after the last crash, tasks end when they would have without it
	steps    int

	wake chan struct{} // of capacity 1: something has happened

	mu      sync.Mutex
	engine  *pawl.Engine              // the driver's goroutine reads it without mu
	life    int                       // of the engine, from 1
	crashed bool                      // the engine of this life is fenced
	commits int                       // that runs have made, over all lives
	arrived []*call                   // not admitted yet
	calls   []*call                   // admitted, not answered
	held    map[workflow.RunID]func() // rings the timers of a run that are due
	ringing string                    // the run whose timers may fire; "" if none
	looks   []Failure                 // of simulations and replays
}

// noteFailures keeps what did not come out as expected of a simulation or a replay.
func (d *driver) noteFailures(failures []Failure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks = append(d.looks, failures...)
}

// A playing is how a scenario is played.
type playing struct {
	crashAt int                       // crash after so many commits of runs; 0 never
	shuffle *int64                    // permute what happens at one instant
	inspect func(folder string) error // looks at what the play leaves; nil does not
	limit   time.Duration             // of all plays of the scenario, by a real clock
	late    *atomic.Bool              // set when that is over; nil never
}

// Bounds of one play.
const (
	maxSteps = 2_000_000
	rest     = 2 * time.Minute // after which an engine that has done nothing does nothing more
)

var (
	errEndless   = errors.New("the scenario does not come to an end")
	errEndOfTime = errors.New("virtual time ends at " + timeout.Literal.Format(time.RFC3339))
)

// endOfTime is the error of a scenario in which nothing happens before an instant that virtual time does not reach.
func endOfTime(at time.Time) error {
	return fmt.Errorf("%w, and nothing happens before %s", errEndOfTime, at.UTC().Format(time.RFC3339))
}

func newDriver(s *Scenario, p playing, folder string) *driver {
	d := &driver{
		scenario: s, options: p, ctx: context.Background(), folder: folder, began: time.Now(),
		promises: map[pawl.Key]promise{}, taken: map[string]int{}, keys: map[attemptName]pawl.Key{},
		tokens: map[attemptName][]workflow.TokenID{}, held: map[workflow.RunID]func(){},
		still: -1, wake: make(chan struct{}, 1),
	}
	if p.shuffle != nil {
		d.shuffle = rand.New(rand.NewPCG(uint64(*p.shuffle), 0))
	}
	return d
}

// playToEnd lets everything happen, until nothing more can.
func (d *driver) playToEnd() error {
	d.askEngine(-1)
	for {
		synctest.Wait()
		if d.steps++; d.steps > maxSteps {
			return fmt.Errorf("%w: %d steps", errEndless, maxSteps)
		}
		if late := d.options.late; late != nil && late.Load() {
			return fmt.Errorf("%w within %v; if it needs longer, raise Options.Limit, or --limit of pawl test", errEndless, d.options.limit)
		}
		if d.isDown() {
			if err := d.crashAndReopen(0); err != nil {
				return err
			}
			continue
		}
		d.repeatLost()
		if err := d.admitCalls(); err != nil {
			return err
		}
		moved, err := d.advanceOnce()
		if err != nil {
			return err
		}
		if moved || d.ringOne() {
			continue
		}
		at, err := d.nextInstant()
		if err != nil || at.IsZero() {
			return err
		}
		if at.After(timeout.Literal) {
			return endOfTime(at)
		}
		d.sleepUntil(at)
	}
}

// advanceOnce lets one thing happen that is due, and reports whether there was one.
func (d *driver) advanceOnce() (bool, error) {
	now := time.Now()
	if c := d.dueCall(now, true); c != nil {
		d.answerCall(c)
		return true, nil
	}
	if events := d.scenario.document.Events; d.next < len(d.eventOrder()) {
		i := d.eventOrder()[d.next]
		if !d.began.Add(*events[i].At).After(now) {
			d.next++
			return true, d.beginEvent(i)
		}
	}
	if c := d.dueCall(now, false); c != nil {
		d.answerCall(c)
		return true, nil
	}
	return d.sendHeartbeats(now), nil
}

// eventOrder returns the events by time, and in the order of the file at one instant.
func (d *driver) eventOrder() []int {
	events := d.scenario.document.Events
	out := make([]int, len(events))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(*events[a].At, *events[b].At) })
	return out
}

func (d *driver) beginEvent(i int) error {
	e := &d.scenario.document.Events[i]
	if e.Crash {
		d.actions = append(d.actions, &action{event: i, at: time.Now(), done: true})
		return d.crashAndReopen(e.Downtime)
	}
	d.askEngine(i)
	return nil
}

// dueCall returns a call whose answer is due: the first, or any of them if they
// are shuffled. Calls with a delay and those without have their own turn.
func (d *driver) dueCall(now time.Time, late bool) *call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var due []*call
	for _, c := range d.calls {
		if c.late == late && !c.due.After(now) {
			due = append(due, c)
		}
	}
	if len(due) == 0 {
		return nil
	}
	if d.shuffle != nil {
		return due[d.shuffle.IntN(len(due))]
	}
	return slices.MinFunc(due, func(a, b *call) int { return a.due.Compare(b.due) }) // the first of them
}

// answerCall answers a call.
func (d *driver) answerCall(c *call) {
	d.mu.Lock()
	d.calls = removeCall(d.calls, c)
	d.mu.Unlock()
	c.answer <- d.answerOf(c)
}

// sendHeartbeats says that each call is alive whose time for that has come.
func (d *driver) sendHeartbeats(now time.Time) bool {
	d.mu.Lock()
	var due []*call
	for _, c := range d.calls {
		if !c.beat.IsZero() && !c.beat.After(now) {
			c.beat = now.Add(c.entry.Heartbeats)
			due = append(due, c)
		}
	}
	d.mu.Unlock()
	engine := d.engine
	for _, c := range due {
		go func() { _ = engine.Heartbeat(d.ctx, c.Key, c.entry.Details.value) }() // it ends with the engine
	}
	return len(due) > 0
}

// nextInstant returns when something can happen next; zero if nothing will.
func (d *driver) nextInstant() (time.Time, error) {
	var at time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if until := d.firesUntil(); until.After(time.Now()) {
		earlier(until)
	}
	if order := d.eventOrder(); d.next < len(order) {
		earlier(d.began.Add(*d.scenario.document.Events[order[d.next]].At))
	}
	d.mu.Lock()
	for _, c := range d.calls {
		earlier(c.due)
		earlier(c.beat)
	}
	d.mu.Unlock()
	if !at.IsZero() {
		d.still = -1
		return at, nil
	}
	return d.nextRest()
}

// nextRest returns how long to wait for an engine that only time can move. An
// engine that has done nothing for a while after its last alarm will do nothing
// more.
func (d *driver) nextRest() (time.Time, error) {
	var alarm time.Time
	records, live := int64(0), false
	for r, err := range d.engine.Runs(d.ctx, pawl.RunFilter{}) {
		if err != nil {
			return alarm, err
		}
		records += r.Seq
		if r.Status.Final() {
			continue
		}
		live = true
		if !r.Alarm.IsZero() && (alarm.IsZero() || r.Alarm.Before(alarm)) {
			alarm = r.Alarm
		}
	}
	now := time.Now()
	if !live || records == d.still && !now.Before(d.rested) {
		return time.Time{}, nil
	}
	if alarm.Before(now) {
		alarm = now
	}
	if records != d.still {
		d.still, d.rested = records, alarm.Add(rest)
		if !alarm.After(timeout.Literal) && d.rested.After(timeout.Literal) {
			d.rested = timeout.Literal
		}
	}
	return d.rested, nil
}

// sleepUntil lets time pass until an instant, or until something happens.
func (d *driver) sleepUntil(at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.wake:
	}
}

func (d *driver) wakeDriver() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// askEngine asks the engine for an event, or for the start of the run, in a goroutine
// that ends with its answer. The run may be held up at a gate, so the answer can
// be late.
func (d *driver) askEngine(event int) {
	a := &action{event: event, at: time.Now()}
	d.actions = append(d.actions, a)
	d.sendAction(a)
}

func (d *driver) sendAction(a *action) {
	engine := d.engine
	if err := d.aimAction(a); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		a.done, a.err = true, err
		return
	}
	go func() {
		var err error
		if a.event < 0 {
			err = d.startRun(engine)
		} else {
			err = d.performEvent(d.ctx, engine, a.run, &d.scenario.document.Events[a.event])
		}
		d.mu.Lock()
		a.done, a.err = true, err
		d.mu.Unlock()
		d.wakeDriver()
	}()
}

// aimAction notes which run an event is about, when it is asked for first.
func (d *driver) aimAction(a *action) (err error) {
	if a.event < 0 || a.run != "" {
		return nil
	}
	if s := d.scenario.document.Events[a.event].Schedule; s != nil {
		a.base = lastEventOf(d.ctx, d.engine, s.ID)
		return nil
	}
	if a.run, err = d.resolveRun(d.engine, d.scenario.document.Events[a.event].runName()); err != nil {
		return err
	}
	if snap, err := d.engine.Inspect(d.ctx, a.run); err == nil {
		a.base = snap.Seq
	}
	return nil
}

// startRun publishes the definitions, and starts the run or applies the schedules.
func (d *driver) startRun(engine *pawl.Engine) error {
	s := d.scenario
	for _, src := range append(slices.Clone(s.definitions), s.definition) {
		if src.problem != nil {
			return src.problem
		}
		if _, err := engine.Publish(d.ctx, src.definition); err != nil {
			return err
		}
	}
	if c := s.document.Schedule; c != nil {
		_, err := engine.Schedules().Apply(d.ctx, c.set, pawl.ApplyOptions{})
		return err
	}
	run := workflow.Run{ID: rootRun, Definition: s.definition.definition, MetaLimits: amountsOf(s.document.MetaLimits)}
	if s.document.MetaLimits.set && run.MetaLimits == nil {
		return errors.New("metaLimits: they are numbers from 0, by name")
	}
	return engine.Start(d.ctx, run, s.document.Input.orElse(nil))
}

// repeatLost asks again for what was asked of an engine that is gone, and got no
// answer.
func (d *driver) repeatLost() {
	for _, a := range d.actions {
		d.mu.Lock()
		lost := a.done && isUnanswered(a.err)
		d.mu.Unlock()
		if !lost {
			continue
		}
		a.done, a.err, a.again = false, nil, true
		if a.event >= 0 && d.isJournaled(a) {
			a.done = true
			continue
		}
		d.sendAction(a)
		return // the others when this one has its answer
	}
}

// isUnanswered reports whether an error leaves open if the message was taken.
func isUnanswered(err error) bool {
	return errors.Is(err, pawl.ErrUnknown) || errors.Is(err, pawl.ErrClosed)
}

// isJournaled reports whether an action, whose answer was lost, is in the journal.
func (d *driver) isJournaled(a *action) bool {
	e := &d.scenario.document.Events[a.event]
	if e.Schedule != nil {
		return d.isScheduleActDone(a, e.Schedule)
	}
	for r, err := range acts.Records(d.engine.Journal(d.ctx, a.run, pawl.EventsOptions{})) {
		if err != nil {
			return false
		}
		if r.Seq > a.base && state.MessageName(r.Message) == e.messageOf() {
			return true
		}
	}
	return false
}
