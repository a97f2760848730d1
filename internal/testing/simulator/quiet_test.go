package simulator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// quiet checks what must be true when nothing is held up and nothing is asked for:
// whatever a run waits for is under way.
func (w *world) quiet() error {
	if len(w.acts) > 0 || len(w.gated()) > 0 {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(w.models)) {
		m := w.models[id]
		if !m.live() {
			continue
		}
		at := m.state.Alarm()
		if late := -w.hook.Until(at); !at.IsZero() && late > time.Millisecond && !w.hands.fresh() {
			return fmt.Errorf("run %s: its alarm was due at %v, %v ago", id, at, late)
		}
		for _, check := range []func(*model) error{w.wanted, w.handedOut, w.fostered} {
			if err := check(m); err != nil {
				return fmt.Errorf("run %s: %w", id, err)
			}
		}
	}
	return nil
}

// wanted checks that a child is still waited for.
func (w *world) wanted(m *model) error {
	p := m.state.Parent
	if p == nil {
		return nil
	}
	parent := w.models[p.Run]
	if parent == nil || !parent.live() {
		return fmt.Errorf("it goes on, and its parent %s does not", p.Run)
	}
	if t := parent.state.Token(p.Token); t.Status != workflow.WaitingForChild || t.Attempt != p.Attempt {
		return fmt.Errorf("it goes on, and its parent does not wait for it: %+v", t)
	}
	return nil
}

// fostered checks that every child that a run waits for goes on.
func (w *world) fostered(m *model) error {
	if m.state.Status != workflow.RunRunning {
		return nil // it begins when its parent goes on
	}
	for _, t := range m.tokens(in(workflow.WaitingForChild)) {
		child := w.models[state.ChildID(m.id, t.ID, t.Attempt)]
		if child == nil || !child.live() {
			return fmt.Errorf("%v waits for a child that is not there, or is over", t.ID)
		}
	}
	return nil
}

// handedOut checks that the executor has every task that is out, unless it may have
// only so many at a time.
func (w *world) handedOut(m *model) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range m.tokens(in(workflow.Dispatched)) {
		key := keyOf(m.id, t.ID, t.Attempt, t.Epoch)
		if !w.running[key] && !w.deferred[key] && len(w.running) < w.settings.Concurrency {
			return fmt.Errorf("nobody has the task %s", key)
		}
	}
	return nil
}
