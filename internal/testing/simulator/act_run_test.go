package simulator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// group draws a group that gathers, or another.
func (w *world) group(r *rand.Rand) (*model, *state.Group) {
	var fit []*state.Group
	gathers := func(m *model) bool {
		fit = nil
		for id := workflow.GroupID(1); id < m.state.NextGroup; id++ {
			if g := m.state.Group(id); g.Name != "" && (g.Phase == workflow.Gathering || r.IntN(20) == 0) {
				fit = append(fit, g)
			}
		}
		return m.live() && len(fit) > 0
	}
	m := w.model(r, gathers)
	if m == nil || !gathers(m) {
		return nil, nil
	}
	return m, of(r, fit...)
}

func (w *world) drawAddBranch(r *rand.Rand) *act {
	m, g := w.group(r)
	if m == nil {
		return nil
	}
	item := int64(w.serial)
	return &act{
		run: m.id, message: state.AddBranch{Group: g.Name, Origin: g.Origin, Item: item},
		as: func() pawl.Act { return pawl.AddBranch{Group: g.Name, Origin: g.Origin, Item: item} },
	}
}

func (w *world) drawCloseGroup(r *rand.Rand) *act {
	m, g := w.group(r)
	if m == nil {
		return nil
	}
	return w.closeGroup(m, g)
}

func (w *world) closeGroup(m *model, g *state.Group) *act {
	return &act{
		run: m.id, message: state.CloseGroup{Group: g.Name, Origin: g.Origin},
		as: func() pawl.Act { return pawl.CloseGroup{Group: g.Name, Origin: g.Origin} },
	}
}

func (w *world) drawCancelNodes(r *rand.Rand) *act {
	m, t := w.token(r, func(*state.Token) bool { return true })
	if m == nil {
		return nil
	}
	return w.cancelNodes(m, t.Node)
}

func (w *world) cancelNodes(m *model, n workflow.NodeID) *act {
	return &act{
		run: m.id, message: state.CancelNodes{Nodes: []workflow.NodeID{n}},
		as: func() pawl.Act { return pawl.CancelNodes{Nodes: []workflow.NodeID{n}} },
	}
}

func (w *world) drawRetry(r *rand.Rand) *act {
	m, t := w.token(r, in(workflow.WaitingForOperator, workflow.Retrying))
	if m == nil {
		return nil
	}
	input := of(r, workflow.InputIfPatched, workflow.InputIfPatched, workflow.InputAgain, workflow.InputKept)
	return &act{
		run: m.id, message: state.Retry{Token: t.ID, Input: input},
		as: func() pawl.Act { return pawl.Retry{Target: pawl.Target{Token: t.ID}, Input: input} },
	}
}

func (w *world) drawSkip(r *rand.Rand) *act {
	m, t := w.token(r, in(workflow.WaitingForOperator, workflow.Retrying, workflow.Dispatched))
	if m == nil {
		return nil
	}
	return w.skip(m, t)
}

func (w *world) skip(m *model, t *state.Token) *act {
	output := fmt.Sprint("skipped ", w.serial)
	return &act{
		run: m.id, message: state.Skip{Token: t.ID, Output: output},
		as: func() pawl.Act { return pawl.Skip{Target: pawl.Target{Token: t.ID}, Output: output} },
	}
}

func (w *world) drawRetryAll(*rand.Rand) *act {
	if w.deadLetters() == 0 {
		return nil
	}
	return &act{do: func(ctx context.Context, e *pawl.Engine) error {
		return doToLetters(ctx, e, pawl.DeadLetterFilter{}, pawl.Retry{})
	}}
}

func (w *world) drawSkipAll(r *rand.Rand) *act {
	if w.deadLetters() == 0 {
		return nil
	}
	f := pawl.DeadLetterFilter{Code: of(r, "", "gone")}
	return &act{do: func(ctx context.Context, e *pawl.Engine) error {
		return doToLetters(ctx, e, f, pawl.Skip{Output: "skipped"})
	}}
}

// doToLetters does an act to all dead letters of a filter, and returns the error of the call or else of the first that has refused it.
func doToLetters(ctx context.Context, e *pawl.Engine, f pawl.DeadLetterFilter, a pawl.Act) error {
	report, err := e.DoAll(ctx, pawl.Selection{DeadLetters: &f}, a)
	if err == nil && len(report.Refused) > 0 {
		return report.Refused[0].Err
	}
	return err
}

// deadLetters returns how many dead letters are open.
func (w *world) deadLetters() (n int) {
	for _, m := range w.models {
		n += m.state.CountByStatus(workflow.WaitingForOperator)
	}
	return n
}

func (w *world) drawPurge(r *rand.Rand) *act {
	if r.IntN(3) > 0 {
		return nil // there is always something to purge
	}
	m := w.model(r, func(m *model) bool { return m.state.Parent == nil && !m.live() || r.IntN(20) == 0 })
	if m == nil {
		return nil
	}
	if m.state.Parent == nil {
		w.purging[m.id] = true
	}
	return &act{run: m.id, do: func(ctx context.Context, e *pawl.Engine) error { return e.Purge(ctx, m.id) }}
}

// drawComplete gives the result of an attempt that was left pending.
func (w *world) drawComplete(r *rand.Rand) *act {
	key := w.take(r)
	if key == "" {
		return nil
	}
	return w.complete(key)
}

// take takes one of the keys that wait for a result.
func (w *world) take(r *rand.Rand) pawl.Key {
	if len(w.pending) == 0 {
		return ""
	}
	i := r.IntN(len(w.pending))
	key := w.pending[i]
	w.pending = slices.Delete(w.pending, i, i+1)
	w.past = append(w.past, key)
	return key
}

func (w *world) complete(key pawl.Key) *act {
	output := fmt.Sprint("act ", w.serial)
	message := resultOf(key)
	message.Output = output
	return &act{
		run: runOf(key), message: message, needless: func(m *model) bool { return m.results[key] },
		as: func() pawl.Act { return pawl.Complete{Key: w.keyFor(key), Output: output} },
	}
}

// drawFail gives a failure of an attempt that was left pending.
func (w *world) drawFail(r *rand.Rand) *act {
	key := w.take(r)
	if key == "" {
		return nil
	}
	cause := pawl.TaskError{Code: of(r, "busy", "gone"), Message: fmt.Sprint("act ", w.serial), Retryable: r.IntN(2) == 0}
	return &act{
		run: runOf(key),
		as:  func() pawl.Act { return pawl.Fail{Key: w.keyFor(key), Cause: cause} },
	}
}

// drawDuplicate gives further results of an attempt that had one, or had none in
// time: none of them counts twice.
func (w *world) drawDuplicate(r *rand.Rand) *act {
	if len(w.past) == 0 {
		return nil
	}
	key, times := of(r, w.past...), 1+r.IntN(4)
	a := w.complete(key)
	a.times = times
	return a
}

// drawForge gives the result of an attempt that never was: of another run, token,
// attempt or life.
func (w *world) drawForge(r *rand.Rand) *act {
	m, t := w.token(r, in(workflow.Dispatched))
	if m == nil || t.Status != workflow.Dispatched {
		return nil
	}
	key := of(r,
		keyOf(m.id, t.ID, t.Attempt, otherLife(t.Epoch)), keyOf(m.id, t.ID, t.Attempt+1, t.Epoch), keyOf(m.id, m.state.NextToken, t.Attempt, t.Epoch),
		keyOf("nobody", t.ID, t.Attempt, t.Epoch), keyOf(m.id+"/9.9", t.ID, t.Attempt, t.Epoch), pawl.Key("#"), keyOf(m.id, -1, 0, 0),
		keyOf(m.id, t.ID, -t.Attempt, t.Epoch),
	)
	return &act{
		run: m.id, forged: true, key: key,
		as: func() pawl.Act { return pawl.Complete{Key: w.keyFor(key), Output: "forged"} },
	}
}

// otherLife returns the epoch of a life that never was.
func otherLife(e state.Epoch) state.Epoch { return e + 1<<40 }

func (w *world) drawHeartbeat(r *rand.Rand) *act {
	_, t := w.token(r, func(t *state.Token) bool { return t.Status == workflow.Dispatched && !t.Beat.IsZero() })
	m := w.model(r, func(m *model) bool { return t != nil && m.state.Token(t.ID) == t })
	if m == nil {
		return nil
	}
	key := keyOf(m.id, t.ID, t.Attempt, t.Epoch)
	if !w.hasKey(key) {
		return nil // the executor has not had it yet
	}
	details := of[any](r, nil, w.serial, map[string]any{"at": w.serial})
	return &act{
		run: m.id,
		do:  func(ctx context.Context, e *pawl.Engine) error { return e.Heartbeat(ctx, w.keyFor(key), details) },
	}
}

func runOf(key pawl.Key) workflow.RunID {
	return workflow.RunID(key[:strings.LastIndexByte(string(key), '#')])
}

func resultOf(key pawl.Key) (m state.TaskCompleted) {
	var epoch uint64
	if _, err := fmt.Sscanf(string(key[len(runOf(key))+1:]), "%d.%d.%x", &m.Token, &m.Attempt, &epoch); err != nil {
		panic(err)
	}
	m.Epoch = state.Epoch(epoch)
	return m
}
