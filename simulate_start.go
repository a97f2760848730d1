package pawl

import (
	"context"
	"errors"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// SimulateStart returns a copy of the run that Start would begin, after what it decides at
// once: its only steps. Calls can be tried on it as on a copy that [Engine.Simulate] has made, and tasks played. Where Start
// would be nil because the run is there, the copy is of that run, and has no steps. Errors:
// those of Start, without ErrBusy and ErrUnknown: whether there is room for the run is not asked.
func (e *Engine) SimulateStart(ctx context.Context, run workflow.Run, input any) (*Simulation, error) {
	m, b, release, err := e.prepareStart(ctx, run, input)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch err := e.startedBefore(ctx, run, b); {
	case err == nil:
		return e.Simulate(ctx, run.ID)
	case !errors.Is(err, ErrRunNotFound):
		return nil, err
	}
	d := b.graph.Definition
	sim := e.simulateFrom(state.NewState(run.ID, b.graph), store.Head{
		Run: run.ID, Workflow: d.Name, Version: d.Version, Definition: b.graph.Hash, Tenant: m.Tenant, Labels: m.Labels, InputHash: b.inputHash,
	})
	return sim.beginWith(m)
}

// SimulateFork returns a copy of the run that Fork would make, with the record that makes it as its first
// step. Calls can be tried on it as on a copy that [Engine.Simulate] has made. Where Fork would be nil because the run
// is there, the copy is of that run, and has no steps. Errors: those of Fork, without ErrBusy and ErrUnknown.
func (e *Engine) SimulateFork(ctx context.Context, id, newID workflow.RunID, o ForkOptions) (*Simulation, error) {
	return e.simulateFork(ctx, newID, Target{Run: id}, o)
}

// SimulateRerun is SimulateFork for Rerun.
func (e *Engine) SimulateRerun(ctx context.Context, t Target, newID workflow.RunID, o ForkOptions) (*Simulation, error) {
	if err := checkRerun(t, o); err != nil {
		return nil, err
	}
	return e.simulateFork(ctx, newID, t, o)
}

// simulateFork is Fork up to the commit: the same checks, in the same order, and the same
// planning.
func (e *Engine) simulateFork(ctx context.Context, newID workflow.RunID, t Target, o ForkOptions) (*Simulation, error) {
	m, err := e.prepareFork(ctx, newID, t, o)
	if err != nil {
		return nil, err
	}
	read := func() (*store.ForkSource, error) {
		source, err := e.dir.ReadForkSource(ctx, t.Run)
		return source, closedError(err)
	}
	return e.simulateForkOf(ctx, m, read, func(*Simulation, *store.ForkSource, []decision.Record) error { return nil })
}

// simulateForkOf returns a copy of the run that a message makes of the source that read returns, if check has nothing against it
// and all its records; of the run itself if it was made so before.
func (e *Engine) simulateForkOf(
	ctx context.Context, m state.RunForked, read func() (*store.ForkSource, error), check func(*Simulation, *store.ForkSource, []decision.Record) error,
) (*Simulation, error) {
	switch exists, err := e.forkedBefore(ctx, &m); {
	case err != nil:
		return nil, err
	case exists:
		return e.Simulate(ctx, m.Run)
	}
	source, err := read()
	if err != nil {
		return nil, err
	}
	now := timeout.Instant(e.hook.Now())
	f, err := placeFork(source, m, now)
	if err != nil {
		return nil, err
	}
	s, err := source.Replay(f.records, nil)
	if err != nil {
		return nil, closedError(err)
	}
	h := source.Head
	h.Run, h.Parent, h.Root, h.ForkedFrom, h.Seq = m.Run, "", "", f.message.From, int64(len(f.records))
	sim := e.simulateFrom(s, h)
	plan, err := planning.Step(s, f.message, now)
	if err == nil {
		err = f.checkKept(plan.Unkept)
	}
	if err != nil {
		return nil, err
	}
	first := s.NextToken
	sim.now = now // as of when it was placed: no time passes before the first step, as in Fork
	if _, err := sim.beginWith(f.message); err != nil {
		return nil, err
	}
	sim.again = sentAgain(sim.state, f.message, first, plan.Unkept)
	records := f.records
	for _, step := range sim.Steps() {
		records = append(records, step.Record)
	}
	if err := check(sim, source, records); err != nil {
		return nil, err
	}
	return sim, nil
}

// simulateFrom returns a copy of a state, as of now.
//
// Keys of its tasks are made with the epoch that tasks have now, so that they look as they
// would.
func (e *Engine) simulateFrom(s *state.State, h store.Head) *Simulation {
	s.Epoch = e.dispatchEpoch()
	return &Simulation{engine: e, head: h, state: s, now: timeout.Instant(e.hook.Now())}
}

// beginWith returns the copy after the message that makes its run.
func (s *Simulation) beginWith(m state.Message) (*Simulation, error) {
	if err := s.takeMessage(s.head.Run, m); err != nil {
		return nil, err
	}
	return s, nil
}

// Summary returns the copy as Engine.Summary would return the run.
func (s *Simulation) Summary() RunSummary {
	if !s.isMade() {
		return RunSummary{}
	}
	h := s.head
	h.Alarm = s.state.Alarm()
	out := summaryOf(&h)
	out.Outcome = decision.Outcome(s.state)
	return out
}
