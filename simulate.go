package pawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/dispatch"
	"github.com/pawl-run/pawl/internal/forking"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/running"
	"github.com/pawl-run/pawl/internal/simulating"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A Simulation is a copy of a run in memory, on which acts are tried: the planner of the run itself decides what would come of them,
// and nothing is written, sent or dispatched.
//
//	sim, err := engine.Simulate(ctx, pawl.OfRun{Run: "order-42"})
//	err = sim.Do(ctx, pawl.Vote{Target: pawl.Target{Node: "approve"}, By: "ann", Approved: true})
//	for _, step := range sim.Steps() {
//		fmt.Println(step.Record.Decisions)
//	}
//
// The copy is as of the last commit. Its clock stands still until an [Elapse] moves it. A Simulation is for one goroutine at a time.
type Simulation struct {
	engine *Engine
	copy   simulating.Copy
	again  []workflow.NodeID
}

// SentAgain returns what [Engine.SentAgain] would of a run that an [OfFork] makes.
func (s *Simulation) SentAgain() []workflow.NodeID {
	if s == nil {
		return nil
	}
	return slices.Clone(s.again)
}

// A SimulatedStep is what a run would make of one message.
type SimulatedStep struct {
	Record Record          `json:"record"`          // as it would stand in the journal
	Events []history.Event `json:"events,omitzero"` // that it would tell
	Notes  []history.Note  `json:"notes,omitzero"`  // why it decides so
}

// An Origin says of what [Engine.Simulate] makes a copy: [OfRun], [OfStart] or [OfFork]. The set is closed.
type Origin interface {
	simulateIn(context.Context, *Engine) (*Simulation, error)
}

// OfRun is a run as it stands or, with At, as it was after that record, from 1: of those that Journal lists. The clock of the copy begins
// at the instant of that record. The records up to it are read and played, in some 50 µs each. If the run is a fork, and the record lies
// before the one that made it, the copy is of the run that was forked: it has that one's id, and takes acts about either. Errors:
// ErrRunNotFound, ErrCorrupt, ErrInvalid (the run has no such record), *workflow.LimitError (it takes more than 128 MiB).
type OfRun struct {
	Run workflow.RunID
	At  int64 // 0: as it stands
}

// OfStart is the run that Start would begin, after what it decides at once: its only steps. Where Start would be nil because the run is
// there, the copy is of that run, and has no steps. Errors: those of Start, without ErrBusy and ErrUnknown: room for it is not asked for.
type OfStart struct {
	Run   workflow.Run
	Input any
}

// OfFork is the run that Fork would make or, where From names a token or a node, Rerun or, with a recording, Import. The record that makes
// it is its first step. Where the call would be nil because the run is there, the copy is of that run, and has no steps. Nothing is
// stored: blobs that only a recording has are checked. Errors: those of the call, without ErrBusy and ErrUnknown.
type OfFork struct {
	From    Target
	Import  Recording      // in place of From
	To      workflow.RunID // the new run
	Options ForkOptions
}

// Simulate returns a copy, in memory, on which acts can be tried and tasks played. Errors: those of the origin, ErrClosed.
func (e *Engine) Simulate(ctx context.Context, o Origin) (*Simulation, error) {
	if err := e.checkCall(ctx); err != nil {
		return nil, err
	}
	if o == nil || reflect.TypeOf(o).Kind() == reflect.Pointer {
		return nil, fmt.Errorf("%w: the origin of a simulation is a value, such as OfRun{}", ErrInvalid)
	}
	return o.simulateIn(ctx, e)
}

func (o OfRun) simulateIn(ctx context.Context, e *Engine) (*Simulation, error) {
	if o.At == 0 {
		h, s, err := e.dir.HeadAndState(ctx, o.Run)
		if err != nil {
			return nil, closedError(err)
		}
		return e.simulateFrom(s, h), nil
	}
	id, record := o.Run, o.At
	source, err := e.dir.ReadForkSource(ctx, id)
	if err != nil {
		return nil, closedError(err)
	}
	if last := int64(len(source.Records)); record < 1 || record > last {
		return nil, fmt.Errorf("%w: run %q has no record %d: there are 1 to %d", ErrInvalid, string(id), record, last)
	}
	s, err := source.Replay(source.Records[:record], nil)
	if err != nil {
		return nil, closedError(err)
	}
	s.Epoch = e.dispatchEpoch()
	h := source.Head
	h.Seq, h.ForkedFrom = record, s.ForkedFrom
	return &Simulation{engine: e, copy: simulating.Copy{Head: h, State: s, Now: source.Records[record-1].At}}, nil
}

// A playedKey marks the contexts of tasks that a simulation performs.
type playedKey struct{}

// refusePlayed returns an error for a call in the context of a task that a simulation performs: nothing is written there.
func refusePlayed(ctx context.Context) error {
	if played, _ := ctx.Value(playedKey{}).(bool); played {
		return fmt.Errorf("%w: the task is performed in a simulation, in which the engine does nothing", ErrInvalid)
	}
	return nil
}

func (s *Simulation) isMade() bool { return s != nil && s.copy.State != nil }

// Play performs the tasks that the copy has dispatched, oldest token first, then those that have come of their results, and so on, with
// x, until none is left but those for which x has returned ErrPending. Time stands still. The methods of a Task do nothing but Open,
// and fail with ErrInvalid. A result that the run would not take fails its attempt, as in the run. Errors: the cause of ctx,
// *workflow.LimitError (more than 10,000 steps).
func (s *Simulation) Play(ctx context.Context, x Executor) error {
	switch {
	case !s.isMade():
		return simulating.ErrNone
	case ctx == nil:
		return errNoContext
	case x == nil:
		return fmt.Errorf("%w: the executor is nil", ErrInvalid)
	}
	pending := map[Key]bool{}
	for {
		tasks := slices.DeleteFunc(s.copy.ListDispatched(), func(t *dispatch.Task) bool { return pending[s.engine.keyOf(t.Name())] })
		if len(tasks) == 0 {
			return nil
		}
		for _, t := range tasks {
			if ctx.Err() != nil {
				return late.Cause(ctx)
			}
			if !s.copy.IsOut(t) { // what came of another one's result has ended it
				continue
			}
			m := s.performTask(ctx, x, t)
			if m == nil {
				pending[s.engine.keyOf(t.Name())] = true
				continue
			}
			if err := s.copy.Take(t.Run, m); err != nil {
				return err
			}
		}
	}
}

// performTask returns the message that a task has come to with x; nil if its result comes later.
func (s *Simulation) performTask(ctx context.Context, x Executor, t *dispatch.Task) (m state.Message) {
	defer func() {
		if r := recover(); r != nil {
			m = t.Failed(workflow.Failure{Code: workflow.CodePanic, Message: texts.Storable(fmt.Sprint(r), maxMessage), Permanent: true})
		}
	}()
	task := s.engine.executorTask(t).WithServices(simulatedServices{s.engine})
	output, err := readOutput(x.Execute(context.WithValue(ctx, playedKey{}, true), task))
	if errors.Is(err, ErrPending) {
		return nil
	}
	m = taskResult(t, output, err)
	if done, ok := m.(state.TaskCompleted); ok {
		release, err := s.engine.blobs.PinResult(ctx, done)
		if err != nil {
			return unpinnedResult(t, err)
		}
		release()
	}
	return m
}

// simulatedServices are those of a task that a simulation performs.
type simulatedServices struct{ engine *Engine }

var errSimulated = fmt.Errorf("%w: the task is performed in a simulation, which writes nothing", ErrInvalid)

// Heartbeat implements TaskServices.
func (simulatedServices) Heartbeat(context.Context, Task, any) error { return errSimulated }

// Put implements TaskServices.
func (simulatedServices) Put(context.Context, Task, io.Reader, string) (blob.Ref, error) {
	return blob.Ref{}, errSimulated
}

// Open implements TaskServices.
func (s simulatedServices) Open(ctx context.Context, _ Task, ref blob.Ref) (io.ReadCloser, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	return s.engine.OpenBlob(context.WithValue(ctx, playedKey{}, false), ref)
}

// Once implements TaskServices.
func (simulatedServices) Once(context.Context, Task, string, func(context.Context) (any, error)) (any, error) {
	return nil, errSimulated
}

// EndChild tells the copy how a child run that it waits for has ended; Output and Failure of o are taken by its status. Errors:
// ErrInvalid (o has not ended), ErrNotLive (t does not wait for a child), ErrAmbiguous.
func (s *Simulation) EndChild(t Target, o workflow.Outcome) error {
	if !s.isMade() {
		return simulating.ErrNone
	}
	return s.copy.EndChild(t.Run, t.Token, t.Node, o)
}

// Steps returns what has been decided in the copy so far.
func (s *Simulation) Steps() []SimulatedStep {
	if s == nil {
		return nil
	}
	var out []SimulatedStep
	for i := range s.copy.Steps {
		step := &s.copy.Steps[i]
		out = append(out, SimulatedStep{Record: shownRecord(&step.Record), Events: step.Events, Notes: step.Notes})
	}
	return out
}

// Now returns the instant of the copy's clock, in UTC.
func (s *Simulation) Now() time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.copy.Now
}

// Snapshot returns the copy as Inspect would return the run. Values are those of the copy: do not modify them.
func (s *Simulation) Snapshot() Snapshot {
	if !s.isMade() {
		return Snapshot{}
	}
	h := s.copy.Head
	h.Alarm = s.copy.State.Alarm()
	return s.engine.snapshotOf(s.copy.State, &h)
}

// Overview returns the copy as Engine.Overview would return the run.
func (s *Simulation) Overview() Overview {
	if !s.isMade() {
		return Overview{}
	}
	return overviewOf(s.copy.State, s.copy.Head.Seq)
}

// Definition returns the definition that the copy has now, and the number of its revision.
func (s *Simulation) Definition() (*workflow.Definition, int, error) {
	if !s.isMade() {
		return nil, 0, simulating.ErrNone
	}
	return definitionOf(s.copy.State)
}

func (o OfStart) simulateIn(ctx context.Context, e *Engine) (*Simulation, error) {
	run := o.Run
	m, b, release, err := e.prepareStart(ctx, run, o.Input)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := late.Cause(ctx); err != nil {
		return nil, err
	}
	switch err := running.CheckStarted(ctx, e.dir, run, b); {
	case err == nil:
		return e.Simulate(ctx, OfRun{Run: run.ID})
	case !errors.Is(err, ErrRunNotFound):
		return nil, err
	}
	d := b.Graph.Definition
	sim := e.simulateFrom(state.NewState(run.ID, b.Graph), store.Head{
		Run: run.ID, Workflow: d.Name, Version: d.Version, Definition: b.Graph.Hash, Tenant: m.Tenant, Labels: m.Labels, InputHash: b.InputHash,
	})
	return sim.beginWith(m)
}

// simulateIn is Fork, Rerun or Import up to the commit: the same checks, in the same order, and the same planning.
func (o OfFork) simulateIn(ctx context.Context, e *Engine) (*Simulation, error) {
	switch t := o.From; {
	case o.Import != nil && t != Target{}:
		return nil, fmt.Errorf("%w: a run is made of a recording or of another run, not of both", ErrInvalid)
	case o.Import != nil:
		from, _ := o.Import.(*replay.Recording)
		return e.simulateImport(ctx, from, o.To, o.Options)
	case t.Node != "" || t.Token != 0:
		if err := checkRerun(t, o.Options); err != nil {
			return nil, err
		}
	}
	m, err := e.prepareFork(ctx, o.To, o.From, o.Options)
	if err != nil {
		return nil, err
	}
	read := func() (*store.ForkSource, error) {
		source, err := e.dir.ReadForkSource(ctx, o.From.Run)
		return source, closedError(err)
	}
	return e.simulateForkOf(ctx, m, read, func(*Simulation, *store.ForkSource, []decision.Record) error { return nil })
}

// simulateForkOf returns a copy of the run that a message makes of the source that read returns, if check has nothing against it
// and all its records; of the run itself if it was made so before.
func (e *Engine) simulateForkOf(
	ctx context.Context, m state.RunForked, read func() (*store.ForkSource, error), check func(*Simulation, *store.ForkSource, []decision.Record) error,
) (*Simulation, error) {
	switch exists, err := forking.CheckForked(ctx, e.dir, &m); {
	case err != nil:
		return nil, err
	case exists:
		return e.Simulate(ctx, OfRun{Run: m.Run})
	}
	source, err := read()
	if err != nil {
		return nil, err
	}
	now := timeout.Instant(e.hook.Now())
	f, err := forking.Place(source, m, now)
	if err != nil {
		return nil, err
	}
	s, err := source.Replay(f.Records, nil)
	if err != nil {
		return nil, closedError(err)
	}
	h := source.Head
	h.Run, h.Parent, h.Root, h.ForkedFrom, h.Seq = m.Run, "", "", f.Message.From, int64(len(f.Records))
	sim := e.simulateFrom(s, h)
	plan, err := planning.Step(s, f.Message, now)
	if err == nil {
		err = f.CheckKept(plan.Unkept)
	}
	if err != nil {
		return nil, err
	}
	first := s.NextToken
	sim.copy.Now = now // as of when it was placed: no time passes before the first step, as in Fork
	if _, err := sim.beginWith(f.Message); err != nil {
		return nil, err
	}
	sim.again = forking.SentAgain(sim.copy.State, f.Message, first, plan.Unkept)
	records := slices.Clone(f.Records)
	for i := range sim.copy.Steps {
		records = append(records, sim.copy.Steps[i].Record)
	}
	if err := check(sim, source, records); err != nil {
		return nil, err
	}
	return sim, nil
}

// simulateFrom returns a copy of a state, as of now.
//
// Keys of its tasks are made with the epoch that tasks have now, so that they look as they would.
func (e *Engine) simulateFrom(s *state.State, h store.Head) *Simulation {
	s.Epoch = e.dispatchEpoch()
	return &Simulation{engine: e, copy: simulating.Copy{Head: h, State: s, Now: timeout.Instant(e.hook.Now())}}
}

// beginWith returns the copy after the message that makes its run.
func (s *Simulation) beginWith(m state.Message) (*Simulation, error) {
	if err := s.copy.Take(s.copy.Head.Run, m); err != nil {
		return nil, err
	}
	return s, nil
}

// Summary returns the copy as Engine.Summary would return the run.
func (s *Simulation) Summary() RunSummary {
	if !s.isMade() {
		return RunSummary{}
	}
	h := s.copy.Head
	h.Alarm = s.copy.State.Alarm()
	out := summaryOf(&h)
	out.Outcome = decision.Outcome(s.copy.State)
	return out
}
