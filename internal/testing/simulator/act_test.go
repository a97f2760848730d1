package simulator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// An act is something that an operator, a host or a stranger does to a run.
type act struct {
	kind  string
	run   workflow.RunID
	as    func() pawl.Act // what is done to the run; or
	do    func(context.Context, *pawl.Engine) error
	times int // how often it is done; 0 is once
	// message is what the run's journal must hold once the act is acknowledged,
	// and must not hold if it is refused; nil if it is not that simple.
	message state.Message
	// needless reports whether nothing was left to do, so that no record is right.
	needless func(*model) bool
	forged   bool     // it must be refused
	key      pawl.Key // unless this has become the key of an attempt meanwhile
	base     int      // records of the run when it was asked for
	// simulate tries what makes a run.
	simulate func(context.Context, *pawl.Engine) (*pawl.Simulation, error)

	trial *trial // with mu, like what follows
	done  bool
	err   error
}

// A drawer draws an act, or nil if there is nothing to act upon.
type drawer func(*world, *rand.Rand) *act

// drawers draw the acts of each kind.
var drawers map[string]drawer

func init() {
	drawers = map[string]drawer{
		"start": (*world).drawStart, "start again": (*world).drawAgain, "cancel": (*world).drawCancel,
		"pause": (*world).drawPause, "resume": (*world).drawResume, "signal": (*world).drawSignal, "vote": (*world).drawVote,
		"patch": (*world).drawPatch, "add branch": (*world).drawAddBranch, "close group": (*world).drawCloseGroup,
		"cancel nodes": (*world).drawCancelNodes, "retry": (*world).drawRetry, "skip": (*world).drawSkip,
		"retry all": (*world).drawRetryAll, "skip all": (*world).drawSkipAll, "purge": (*world).drawPurge,
		"complete": (*world).drawComplete, "fail": (*world).drawFail, "duplicate": (*world).drawDuplicate,
		"forge": (*world).drawForge, "heartbeat": (*world).drawHeartbeat,
	}
}

// weights say how often each kind is drawn; 1 if it is not here.
var weights = map[string]int{
	"start": 8, "signal": 6, "vote": 6, "complete": 8, "duplicate": 3, "forge": 2, "heartbeat": 4, "patch": 4,
	"retry": 3, "skip": 2, "add branch": 4, "close group": 3, "resume": 2, "retry all": 6, "skip all": 6, "fail": 3,
}

// ask begins an act in a goroutine, which ends with its answer.
func (w *world) ask(a *act) {
	if m := w.models[a.run]; m != nil {
		a.base = len(m.messages)
	}
	for _, x := range w.acts {
		if x.run != a.run && x.run != "" && a.run != "" {
			continue
		}
		for _, y := range []*act{x, a} {
			if !y.unique() {
				y.message = nil // whose it is that the journal holds, nobody can tell
			}
		}
	}
	w.serial++
	w.note("ask %s %s %T%+v", a.kind, a.run, a.message, a.message)
	w.acts = append(w.acts, a)
	engine, life, at := w.engine, w.life, timeout.Instant(w.hook.Now())
	go func() {
		tried := a.try(w.ctx, engine)
		if tried != nil {
			tried.life, tried.at = life, at
		}
		w.mu.Lock()
		a.trial = tried
		w.mu.Unlock()
		err := a.perform(w.ctx, engine)
		w.mu.Lock()
		a.done, a.err = true, err
		w.mu.Unlock()
	}()
}

// perform does the act, as often as it is asked for.
func (a *act) perform(ctx context.Context, e *pawl.Engine) (err error) {
	if a.do != nil {
		return a.do(ctx, e)
	}
	for range max(a.times, 1) {
		err = e.Do(ctx, a.run, a.as())
	}
	return err
}

// unique reports whether no other act has the same message.
func (a *act) unique() bool {
	switch a.message.(type) {
	case state.Pause, state.Resume, state.CancelNodes, state.CloseGroup, state.Retry:
		return false
	default:
		return true
	}
}

// answered takes the answers that have come, and checks them against the journals.
func (w *world) answered() error {
	w.mu.Lock()
	var done []*act
	w.acts = slices.DeleteFunc(w.acts, func(a *act) bool {
		if a.done {
			done = append(done, a)
		}
		return a.done
	})
	w.mu.Unlock()
	for _, a := range done {
		w.note("told %s %s: %v", a.kind, a.run, a.err)
		w.tally.told(a)
		if err := errors.Join(w.holds(a), w.refusals(a)); err != nil {
			return fmt.Errorf("%s of %s, %T%+v, answered %q: %w", a.kind, a.run, a.message, a.message, fmt.Sprint(a.err), err)
		}
	}
	return nil
}

// holds checks that an acknowledged act is in the journal, and a refused one is
// not, and that the reason is one that callers are told of.
func (w *world) holds(a *act) error {
	if a.err != nil && !w.allowed(a.err) {
		return errors.New("no such refusal is documented")
	}
	m := w.models[a.run]
	if a.forged && a.err == nil && (m == nil || m.out[a.key] == 0) {
		return errors.New("it was forged")
	}
	if a.message == nil || m == nil {
		return nil
	}
	found := slices.ContainsFunc(m.messages[min(a.base, len(m.messages)):], func(x state.Message) bool { return reflect.DeepEqual(x, a.message) })
	switch {
	case a.err != nil && found:
		return errors.New("it was refused, and is in the journal")
	case a.err == nil && !found && (a.needless == nil || !a.needless(m)):
		return errors.New("it is not in the journal")
	}
	return nil
}

// allowed reports whether an error is one that a caller may be given while
// nothing of the machine fails.
func (w *world) allowed(err error) bool {
	for _, e := range []error{
		pawl.ErrStale, pawl.ErrEnded, pawl.ErrNotEnded, pawl.ErrNotLive, pawl.ErrAmbiguous, pawl.ErrAlreadyVoted,
		pawl.ErrGroupClosed, pawl.ErrConflict, pawl.ErrRunNotFound, pawl.ErrRunExists, pawl.ErrInvalid,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var patch *workflow.PatchError
	var definition *workflow.DefinitionError
	var limit *workflow.LimitError
	var failure *workflow.Failure
	var signal *workflow.SignalError
	return errors.As(err, &signal) || errors.As(err, &patch) || errors.As(err, &definition) || errors.As(err, &limit) || errors.As(err, &failure) ||
		w.settings.MaxActive > 0 && errors.Is(err, pawl.ErrBusy)
}

// drawAct draws what to do next; nil if nothing was found.
func (w *world) drawAct(r *rand.Rand) *act {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(drawers)) {
		if slices.Contains(w.without, kind) {
			continue
		}
		for range max(weights[kind], 1) {
			kinds = append(kinds, kind)
		}
	}
	for range 4 {
		kind := of(r, kinds...)
		if a := drawers[kind](w, r); a != nil {
			a.kind = kind
			return a
		}
	}
	return nil
}

// model draws a run that fits; nil without one.
func (w *world) model(r *rand.Rand, fits func(*model) bool) *model {
	var out []*model
	for _, id := range slices.Sorted(maps.Keys(w.models)) {
		if m := w.models[id]; fits(m) {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return of(r, out...)
}

func (m *model) live() bool { return !m.state.Status.Final() }

// token draws a live token of a run that fits, one time in ten any token of any
// run.
func (w *world) token(r *rand.Rand, fits func(*state.Token) bool) (*model, *state.Token) {
	if r.IntN(10) == 0 {
		if m := w.model(r, func(m *model) bool { return m.state.NextToken > 1 }); m != nil {
			return m, m.state.Token(workflow.TokenID(1 + r.IntN(int(m.state.NextToken)-1)))
		}
	}
	m := w.model(r, func(m *model) bool { return m.live() && len(m.tokens(fits)) > 0 })
	if m == nil {
		return nil, nil
	}
	return m, of(r, m.tokens(fits)...)
}

func (m *model) tokens(fits func(*state.Token) bool) (out []*state.Token) {
	for _, id := range m.state.LiveTokens() {
		if t := m.state.Token(id); fits(t) {
			out = append(out, t)
		}
	}
	return out
}

func in(statuses ...workflow.TokenStatus) func(*state.Token) bool {
	return func(t *state.Token) bool { return slices.Contains(statuses, t.Status) }
}

func (w *world) drawStart(*rand.Rand) *act {
	if w.launched == w.runs {
		return nil
	}
	i := w.launched
	w.launched++
	return w.start(i)
}

func (w *world) start(i int) *act {
	id, family := workflow.RunID(fmt.Sprintf("r%d", i)), w.families[i]
	g := family[len(family)-1]
	run := workflow.Run{ID: id, Definition: g.Definition}
	if i%2 == 1 {
		run = workflow.Run{ID: id, Workflow: g.Definition.Name}
	}
	run.Labels = map[string]string{"run": string(id), "odd": fmt.Sprint(i % 2)}
	w.asked[id] = g
	return &act{
		run: id, do: func(ctx context.Context, e *pawl.Engine) error { return e.Start(ctx, run, w.inputs[i]) },
		simulate: func(ctx context.Context, e *pawl.Engine) (*pawl.Simulation, error) {
			return e.Simulate(ctx, pawl.OfStart{Run: run, Input: w.inputs[i]})
		},
	}
}

// drawAgain starts a run again: with what it was started with, or with another
// input, which must be refused.
func (w *world) drawAgain(r *rand.Rand) *act {
	if r.IntN(3) > 0 {
		return nil // it is always possible
	}
	i := r.IntN(w.runs)
	a := w.start(i)
	if w.models[a.run] != nil && r.IntN(3) == 0 {
		g := w.asked[a.run]
		a.forged = true
		a.do = func(ctx context.Context, e *pawl.Engine) error {
			return e.Start(ctx, workflow.Run{ID: a.run, Definition: g.Definition, Labels: map[string]string{"run": string(a.run), "odd": fmt.Sprint(i % 2)}}, map[string]any{"another": "input"})
		}
	}
	return a
}

func (w *world) drawCancel(r *rand.Rand) *act {
	if r.IntN(4) > 0 {
		return nil // it ends everything
	}
	m := w.model(r, func(*model) bool { return true })
	if m == nil {
		return nil
	}
	reason := fmt.Sprint("act ", w.serial)
	return &act{
		run: m.id, message: state.Cancel{Reason: reason}, needless: func(m *model) bool { return !m.live() },
		as: func() pawl.Act { return pawl.Cancel{Reason: reason, Ended: true} },
	}
}

func (w *world) drawPause(r *rand.Rand) *act {
	m := w.model(r, (*model).live)
	if m == nil {
		return nil
	}
	return &act{
		run: m.id, as: func() pawl.Act { return pawl.Pause{} },
		message: state.Pause{}, needless: func(m *model) bool { return m.state.Status == workflow.RunPaused || !m.live() },
	}
}

func (w *world) drawResume(r *rand.Rand) *act {
	m := w.model(r, func(m *model) bool { return m.state.Status == workflow.RunPaused })
	if m == nil {
		return nil
	}
	return w.resume(m)
}

func (w *world) resume(m *model) *act {
	return &act{
		run: m.id, as: func() pawl.Act { return pawl.Resume{} },
		message: state.Resume{}, needless: func(m *model) bool { return m.state.Status == workflow.RunRunning || !m.live() },
	}
}

func (w *world) drawSignal(r *rand.Rand) *act {
	m := w.model(r, (*model).live)
	if m == nil {
		return nil
	}
	s := workflow.Signal{Name: of(r, events...), Payload: map[string]any{"n": int64(w.serial)}, Early: r.IntN(4) > 0}
	switch r.IntN(4) {
	case 0:
		s.ID = of(r, "first", "second")
	case 1:
		s.Transient = true
	case 2:
		s.TTL = time.Duration(1+r.IntN(5)) * time.Second
	}
	return w.signal(m, s)
}

func (w *world) signal(m *model, s workflow.Signal) *act {
	return &act{
		run: m.id, message: state.Signal{Name: s.Name, ID: s.ID, Payload: s.Payload, Transient: s.Transient, TTL: s.TTL, Early: s.Early}, needless: func(*model) bool { return s.ID != "" },
		as: func() pawl.Act { return pawl.Signal(s) },
	}
}

func (w *world) drawVote(r *rand.Rand) *act {
	m, t := w.token(r, in(workflow.WaitingForApproval))
	if m == nil {
		return nil
	}
	return w.vote(m, t.ID, of(r, "ann", "bob", "cid"), r.IntN(3) > 0)
}

func (w *world) vote(m *model, token workflow.TokenID, by string, approved bool) *act {
	b := workflow.Ballot{Token: token, By: by, Approved: approved, Comment: fmt.Sprint("act ", w.serial)}
	return &act{
		run: m.id, message: state.Ballot{Token: b.Token, Node: b.Node, By: b.By, Approved: b.Approved, Comment: b.Comment, Data: b.Data},
		as: func() pawl.Act {
			return pawl.Vote{Target: pawl.Target{Token: token}, By: by, Approved: approved, Comment: b.Comment}
		},
	}
}
