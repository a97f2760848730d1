package simulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A call is an attempt of a task, from when the engine hands it over until it is
// answered or given up. Its outcome is drawn when it is admitted, by run, token
// and attempt: the same in every life.
type call struct {
	pawl.Task
	token    workflow.TokenID
	answer   chan func() (any, error)
	due      time.Time
	comes    func() (any, error)
	how      string
	deaf     bool // it ignores its context
	unwanted bool // its context is done; with mu
}

var errGone = errors.New("the process is gone")

// execute returns the handler of all tasks in one life of the engine.
func (w *world) execute(life int, dead chan struct{}) func(context.Context, pawl.Task) (any, error) {
	return func(ctx context.Context, t pawl.Task) (any, error) {
		key := t.Key
		t.Key = nameOf(key)
		c := &call{Task: t, answer: make(chan func() (any, error), 1)}
		w.mu.Lock()
		if known := w.given[t.Key]; known != "" && known != key && w.fault == nil {
			w.fault = fmt.Errorf("%s has the keys %s and %s", t.Key, known, key)
		}
		w.given[t.Key] = key
		if w.life != life || w.crashed {
			w.mu.Unlock()
			return nil, errGone
		}
		if w.running[t.Key] && w.fault == nil {
			w.fault = fmt.Errorf("%s runs beside itself", t.Key)
		}
		w.running[t.Key] = true
		w.arrived = append(w.arrived, c)
		engine := w.engine
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			delete(w.running, t.Key)
			w.mu.Unlock()
		}()
		if engine != nil && digest(t.Key)%4 == 0 {
			w.isCommitted(ctx, engine, c)
		}
		return w.perform(ctx, c, dead)
	}
}

func (w *world) perform(ctx context.Context, c *call, dead chan struct{}) (any, error) {
	select {
	case f := <-c.answer:
		return f()
	case <-dead:
		return nil, errGone
	case <-ctx.Done():
	}
	w.mu.Lock()
	c.unwanted = true
	w.mu.Unlock()
	select {
	case f := <-c.answer:
		return f()
	case <-dead:
		return nil, errGone
	}
}

// dismiss lets one call return that is no longer wanted and not deaf, and reports
// whether there was one.
func (w *world) dismiss() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, c := range w.calls {
		if c.unwanted && !c.deaf {
			w.calls = slices.Delete(w.calls, i, i+1)
			w.past = append(w.past, c.Key)
			c.answer <- func() (any, error) { return nil, context.Canceled }
			return true
		}
	}
	return false
}

// isCommitted checks, while the engine waits for the executor, that what it
// executes is committed.
func (w *world) isCommitted(ctx context.Context, engine *pawl.Engine, c *call) {
	snap, err := engine.Inspect(context.WithoutCancel(ctx), c.Run)
	if err != nil {
		if !w.down() {
			w.blame(fmt.Errorf("%s is executed: %w", c.Key, err))
		}
		return
	}
	for i := range snap.Tokens {
		t := &snap.Tokens[i]
		if nameOf(t.Key) == c.Key && t.Status != workflow.Pending || t.ID == c.token && t.Attempt > c.Attempt {
			return
		}
	}
	if !snap.Status.Final() {
		w.blame(fmt.Errorf("%s is executed and not committed: %+v", c.Key, snap.Tokens))
	}
}

// admit draws the outcomes of the calls that have arrived, in the order of their
// runs and tokens. The attempts must have been committed.
func (w *world) admit() error {
	w.mu.Lock()
	arrived := w.arrived
	w.arrived = nil
	w.mu.Unlock()
	for _, c := range arrived {
		if m := w.models[c.Run]; m == nil || m.out[c.Key] == 0 {
			return fmt.Errorf("%s is executed, and no record sends it", c.Key)
		}
		if w.over[c.Run] {
			return fmt.Errorf("%s is executed after the end of its run", c.Key)
		}
		if _, err := fmt.Sscanf(string(c.Key[strings.LastIndexByte(string(c.Key), '#')+1:]), "%d.", &c.token); err != nil {
			return fmt.Errorf("key %s: %w", c.Key, err)
		}
	}
	slices.SortFunc(arrived, compareCalls)
	for _, c := range arrived {
		w.tally.Calls++
		w.plan(c)
		w.note("call %s token %d attempt %d: %s", c.Run, c.token, c.Attempt, c.how)
	}
	w.calls = append(w.calls, arrived...)
	slices.SortFunc(w.calls, compareCalls)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.final = map[string]bool{}
	for _, c := range arrived {
		w.keys[c.Key] = w.given[c.Key]
	}
	for id, m := range w.models {
		w.over[id] = m.state.Status.Final()
		w.final[string(id)] = w.over[id]
	}
	return nil
}

func compareCalls(a, b *call) int {
	return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.token, b.token), cmp.Compare(a.Attempt, b.Attempt))
}

// plan draws what a call comes to.
func (w *world) plan(c *call) {
	r := w.draw("call", c.Run, c.token, c.Attempt)
	output := of[any](r, int64(1), int64(1), int64(2), "text", []any{int64(3)}, map[string]any{"v": int64(4)}, nil)
	c.due, c.how = time.Now(), "done"
	c.comes = func() (any, error) { return output, nil }
	if w.calm {
		return
	}
	fail := func(how string, err error) { c.how, c.comes = how, func() (any, error) { return nil, err } }
	switch r.IntN(40) {
	case 0, 1, 2, 3:
		c.how, c.due = "later", c.due.Add(time.Duration(r.IntN(50))*100*time.Millisecond)
	case 4, 5:
		fail("busy", pawl.TaskError{Code: "busy", Message: "later", Retryable: true})
	case 6:
		fail("gone", pawl.TaskError{Code: "gone", Message: "never"})
	case 15:
		fail("snooze", pawl.Snooze(time.Duration(r.IntN(5))*time.Second))
	case 7:
		fail("permanent", pawl.Permanent(errors.New("no")))
	case 8:
		c.how, c.comes = "panic", func() (any, error) { panic("a handler's bug") }
	case 9:
		c.how, c.comes = "goexit", func() (any, error) { runtime.Goexit(); return nil, nil }
	case 10:
		c.how = "garbage"
		garbage := of[any](r, math.NaN(), math.Inf(1), "\xff\xfe", make(chan int), strings.Repeat("x", 2<<20), func() {})
		c.comes = func() (any, error) { return garbage, nil }
	case 11, 12, 13:
		fail("pending", pawl.ErrPending)
	case 14:
		c.how, c.due = "deaf", c.due.Add(time.Duration(5+r.IntN(60))*time.Second)
		w.mu.Lock()
		c.deaf = true
		w.mu.Unlock()
	}
}

// dueCalls returns the calls whose time has come.
func (w *world) dueCalls() []*call {
	var out []*call
	for _, c := range w.calls {
		if w.calm || !c.due.After(time.Now()) {
			out = append(out, c)
		}
	}
	return out
}

// answer answers a call.
func (w *world) answer(c *call) {
	w.calls = slices.DeleteFunc(w.calls, func(x *call) bool { return x == c })
	w.note("answer %s token %d attempt %d", c.Run, c.token, c.Attempt)
	w.tally.Answers[c.how]++
	if c.how == "pending" {
		w.pending = append(w.pending, c.Key)
		w.mu.Lock()
		w.deferred[c.Key] = true
		w.mu.Unlock()
	} else {
		w.past = append(w.past, c.Key)
	}
	c.answer <- c.comes
}
