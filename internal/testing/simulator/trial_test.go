package simulator

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/state"
)

// A trial is what a simulation says of an act, just before it is done.
type trial struct {
	life int                 // of the engine
	at   time.Time           // as a record has it
	seq  int64               // the last record of the run then
	step *pawl.SimulatedStep // what the act comes to; nil if it changes nothing
	err  error
}

// try tries an act on a simulation of its run; nil without a run to try it on.
func (a *act) try(ctx context.Context, e *pawl.Engine) *trial {
	if a.simulate != nil && a.kind != "start again" {
		sim, err := a.simulate(ctx, e)
		return newTrial(0, sim, err)
	}
	if a.as == nil {
		return nil
	}
	sim, err := e.Simulate(ctx, pawl.OfRun{Run: a.run})
	if err != nil {
		return nil
	}
	seq := sim.Summary().Seq
	for range max(a.times, 1) {
		err = sim.Do(ctx, a.as())
	}
	return newTrial(seq, sim, err)
}

// newTrial returns a trial of what was done to a simulation as of a record.
func newTrial(seq int64, sim *pawl.Simulation, err error) *trial {
	t := &trial{seq: seq, err: err}
	if steps := sim.Steps(); len(steps) > 0 {
		t.step = &steps[0]
	}
	return t
}

// foretold checks a record against what simulations have said of the acts that are under
// way: the same message, at the same instant and behind the same record, comes to the same.
func (w *world) foretold(m *model, r decision.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.acts {
		if a.run != m.id || a.trial == nil || a.trial.step == nil {
			continue
		}
		s := acts.RecordOf(&a.trial.step.Record)
		if a.trial.life != w.life || a.trial.seq+1 != r.Seq || !a.trial.at.Equal(r.At) || !reflect.DeepEqual(s.Message, r.Message) {
			continue
		}
		w.tally.Foretold++
		if !same(inEpoch(s.Decisions, r.Epoch), r.Decisions) {
			return fmt.Errorf("committed is\n%s\na simulation of it came to\n%s", lines(r.Decisions), lines(s.Decisions))
		}
	}
	return nil
}

// inEpoch returns decisions as an actor of an epoch makes them: one that began before a purge
// keeps its own, where a simulation has that of now.
func inEpoch(ds []decision.Decision, e state.Epoch) []decision.Decision {
	out := slices.Clone(ds)
	for i, d := range out {
		if t, ok := d.(decision.DispatchTask); ok {
			t.Epoch = e
			out[i] = t
		}
	}
	return out
}

// refusals checks the answer to an act before and after which its run was the same.
func (w *world) refusals(a *act) error {
	m := w.models[a.run]
	if a.trial == nil || m == nil || int64(len(m.records)) != a.trial.seq {
		return nil
	}
	w.tally.Unchanged++
	if got, want := fmt.Sprint(a.err), fmt.Sprint(a.trial.err); got != want {
		return fmt.Errorf("a simulation of it answered %q", want)
	}
	return nil
}
