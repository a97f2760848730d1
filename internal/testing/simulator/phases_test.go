package simulator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// safety lets anything happen for so many steps.
func (w *world) safety() error {
	for w.step = 1; w.step <= w.steps; w.step++ {
		if err := w.rest(); err != nil {
			return err
		}
		if err := w.happen(); err != nil {
			return err
		}
	}
	return w.rest()
}

// happen lets one thing happen.
func (w *world) happen() error {
	r := w.draw("step", w.step)
	gates, due := w.gated(), w.dueCalls()
	crash, arm, turn, answer, deed := r.IntN(1000), r.IntN(1000), r.IntN(10), r.IntN(10), r.IntN(10)
	if w.jumps > 0 && r.IntN(w.jumps) == 0 && !slices.Contains(w.without, "clock") {
		w.setClock(r)
		return nil
	}
	if w.rate > 0 && !slices.Contains(w.without, "crash") {
		if crash < 500/w.rate {
			w.tally.Sites["between"]++
			return w.crash()
		}
		if arm < 2000/w.rate {
			w.arm(sites[r.IntN(len(sites))], 1+r.IntN(3))
		}
	}
	if w.step%23 == 0 {
		if err := w.deep(); err != nil {
			return err
		}
	}
	switch {
	case w.launched == 0:
		w.ask(w.named("start", w.drawStart(r)))
	case len(gates) > 0 && turn < 6:
		return w.letGo(of(r, gates...))
	case len(due) > 0 && answer < 6:
		w.answer(of(r, due...))
	case deed < 7:
		if a := w.drawAct(r); a != nil {
			w.ask(a)
			return nil
		}
		w.sleep(w.drawTime())
	default:
		w.sleep(w.drawTime())
	}
	return nil
}

func (w *world) named(kind string, a *act) *act {
	a.kind = kind
	return a
}

// gated returns the runs whose actors are held up.
func (w *world) gated() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.gates))
}

// letGo lets the actor of a run go on until it rests. The actor takes the
// messages of one instant in one turn or in several, as the scheduler has it, and
// they are looked at when all of them are over; the process does not crash in
// between if its alarm is among them.
func (w *world) letGo(run string) error {
	w.note("let go %s of %v", run, w.gated())
	m := w.models[workflow.RunID(run)]
	due := m != nil && !m.state.Alarm().IsZero() && !m.state.Alarm().After(w.hook.Now())
	w.mu.Lock()
	armed := w.armed
	if due {
		w.armed = halt{}
	}
	w.mu.Unlock()
	for !w.down() {
		w.mu.Lock()
		gate := w.gates[run]
		delete(w.gates, run)
		w.mu.Unlock()
		if gate == nil {
			break
		}
		close(gate)
		w.settle()
	}
	w.mu.Lock()
	if due && !w.crashed {
		w.armed = armed
	}
	w.mu.Unlock()
	return w.rest()
}

// drawTime draws how much time passes: until something is due, or some.
func (w *world) drawTime() time.Duration {
	r := w.draw("time", w.step)
	some := time.Duration(1+r.IntN(1500)) * time.Millisecond
	if next := w.next(); next > 0 && r.IntN(3) > 0 {
		return min(next, 30*time.Second)
	}
	return some
}

// next returns how long it is until time alone changes something; 0 if it never
// does.
func (w *world) next() time.Duration {
	var at time.Time
	earlier := func(t time.Time) {
		if t.After(time.Now()) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, m := range w.models {
		if at := m.state.Alarm(); !at.IsZero() {
			earlier(time.Now().Add(w.hook.Until(at)))
		}
	}
	for _, c := range w.calls {
		earlier(c.due)
	}
	if at.IsZero() {
		return 0
	}
	return time.Until(at)
}

// maxRounds bounds the liveness phase.
const maxRounds = 5000

// liveness stops all faults, gives every run what it waits for, and lets
// everything end.
func (w *world) liveness() error {
	w.mu.Lock()
	w.armed = halt{}
	w.mu.Unlock()
	w.hands.move(w.hands.most) // what waits for an instant need not wait for years
	w.calm = true
	idle := 0
	for round := range maxRounds {
		w.step++
		if err := w.rest(); err != nil {
			return err
		}
		if moved, err := w.move(); err != nil {
			return err
		} else if moved {
			continue
		}
		if w.ended() {
			w.tally.Rounds += round
			return w.farewell()
		}
		if w.help() {
			idle = 0
			continue
		}
		wait := w.next()
		if idle++; wait == 0 {
			wait = 2 * time.Minute
		} else {
			idle = 0
		}
		if idle > 3 {
			return fmt.Errorf("nothing happens any more:%s", w.stuck())
		}
		w.sleep(wait)
	}
	return fmt.Errorf("%d rounds were not enough:%s", maxRounds, w.stuck())
}

// move lets go what is held up, and answers what is out.
func (w *world) move() (bool, error) {
	if gates := w.gated(); len(gates) > 0 {
		return true, w.letGo(gates[0])
	}
	if due := w.dueCalls(); len(due) > 0 {
		c := due[0]
		if c.how == "pending" || c.how == "panic" || c.how == "goexit" {
			c.how, c.comes = "done", func() (any, error) { return int64(1), nil }
		}
		w.answer(c)
		return true, nil
	}
	return len(w.acts) > 0 && w.acts[0].done, nil
}

func (w *world) ended() bool {
	for _, m := range w.models {
		if m.live() {
			return false
		}
	}
	return true
}

func (w *world) stuck() (out string) {
	for _, id := range slices.Sorted(maps.Keys(w.models)) {
		if m := w.models[id]; m.live() {
			out += fmt.Sprintf("\n  %s %v alarm %v %v", id, m.state.Status, m.state.Alarm(), tokens(m.state))
		}
	}
	return out
}

// help gives one run what it waits for, and reports whether there was one that
// could be helped.
func (w *world) help() bool {
	if len(w.pending) > 0 {
		key := w.pending[0]
		w.pending = w.pending[1:]
		w.ask(w.named("complete", w.complete(key)))
		return true
	}
	for _, id := range slices.Sorted(maps.Keys(w.models)) {
		m := w.models[id]
		if !m.live() {
			continue
		}
		if a := w.helpRun(m); a != nil {
			w.ask(a)
			return true
		}
	}
	return false
}

func (w *world) helpRun(m *model) *act {
	if m.state.Status == workflow.RunPaused && !m.state.ParentPauses {
		return w.named("resume", w.resume(m))
	}
	waits := func(status workflow.TokenStatus) *state.Token {
		if ts := m.tokens(in(status)); len(ts) > 0 {
			return ts[0]
		}
		return nil
	}
	if t := waits(workflow.WaitingForOperator); t != nil {
		if w.serial%3 == 0 { // nothing that it could be skipped with may fit
			return w.named("cancel nodes", w.cancelNodes(m, t.Node))
		}
		return w.named("skip", w.skip(m, t))
	}
	if t := waits(workflow.WaitingForApproval); t != nil {
		return w.named("vote", w.vote(m, t.ID, fmt.Sprint("voter ", w.serial), true))
	}
	if t := waits(workflow.WaitingForEvent); t != nil {
		name := of(w.draw("event", w.serial), m.state.Graph.Node(t.Node).Events()...)
		return w.named("signal", w.signal(m, workflow.Signal{Name: name, Transient: true, Payload: map[string]any{"n": int64(w.serial), "missing": int64(1)}}))
	}
	for id := workflow.GroupID(1); id < m.state.NextGroup; id++ {
		if g := m.state.Group(id); g.Open && !g.Closed && g.Phase == workflow.Gathering {
			return w.named("close group", w.closeGroup(m, g))
		}
	}
	return nil
}

// farewell looks at everything a last time, and forgets the runs.
func (w *world) farewell() error {
	if err := w.deep(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(w.models)) {
		m := w.models[id]
		w.tally.Outcomes[m.state.Status.String()]++
		if m.state.Parent != nil {
			continue
		}
		if outcome, err := w.engine.Wait(w.ctx, id); err != nil || outcome.Status != m.state.Status {
			return fmt.Errorf("wait for %s: %v, %w", id, outcome.Status, err)
		}
		if w.draw("forget", id).IntN(2) > 0 {
			continue
		}
		w.purging[id] = true
		if err := w.engine.Purge(w.ctx, id); err != nil {
			return fmt.Errorf("purge %s: %w", id, err)
		}
		if _, err := w.engine.Inspect(w.ctx, id); !errors.Is(err, pawl.ErrRunNotFound) {
			return fmt.Errorf("run %s is purged: %w", id, err)
		}
	}
	return w.observe()
}
