package pawltest

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A simulateEvent tries events on a copy of a run, and says what must come of them. The run
// does not notice.
type simulateEvent struct {
	Try    []simulated   `yaml:"try"`
	Play   bool          `yaml:"play"`   // the tasks that come of it, by the mocks
	Elapse time.Duration `yaml:"elapse"` // and then, with what comes of it
	Expect standing      `yaml:"expect"`
	Run    string        `yaml:"run"`
}

// A simulated event is one that is done to a copy.
type simulated event

func (t *simulated) readElement(from *document.Element) error {
	type plain simulated // without this method
	if err := decodeElement(from, (*plain)(t)); err != nil {
		return err
	}
	e := event(*t)
	switch {
	case e.At != nil || e.Run != "":
		return errorAt(from, "what is tried has neither at nor run: those of the simulation count")
	case e.Crash || e.Fork != nil || e.Simulate != nil || e.Replay != nil:
		return errorAt(from, "a crash, a fork, a simulation and a replay cannot be tried")
	case len(e.kinds()) != 1:
		return errorAt(from, "an event is exactly one thing, not %d", len(e.kinds()))
	}
	return nil
}

// A replayEvent plans the records of a run again: as they were made, or after a change of
// the definition.
type replayEvent struct {
	Patch  optional `yaml:"patch"`  // operations that change the definition
	Record int      `yaml:"record"` // the first that decides otherwise; 0: none does
	Status string   `yaml:"status"` // as the run would stand; "" is not checked
	OnlyIs []string `yaml:"onlyIs"` // nodes that it would have come to instead
	Run    string   `yaml:"run"`
}

// simulateEvent tries events on a copy of a run.
func (d *driver) simulateEvent(ctx context.Context, engine *pawl.Engine, run workflow.RunID, of *event) error {
	e := of.Simulate
	sim, err := engine.Simulate(ctx, pawl.OfRun{Run: run})
	if err != nil {
		return err
	}
	for i := range e.Try {
		x := event(e.Try[i])
		a, err := d.actOf(subject{engine, run, sim}, &x)
		if err == nil {
			err = sim.Do(x.asks(ctx), a)
		}
		if err != nil {
			return fmt.Errorf("try %d: %w", i, err)
		}
	}
	mocks := &driver{scenario: d.scenario, ctx: d.ctx, engine: engine, copied: sim, taken: maps.Clone(d.taken)}
	play := func() error {
		if !e.Play {
			return nil
		}
		return sim.Play(ctx, pawl.Handlers{"*": mocks.simulatedCall})
	}
	if err := play(); err != nil {
		return err
	}
	if err := sim.Do(ctx, pawl.Elapse{Elapse: e.Elapse}); err != nil {
		return err
	}
	if err := play(); err != nil {
		return err
	}
	events := map[string]int{}
	for _, s := range sim.Steps() {
		for _, ev := range s.Events {
			events[string(ev.Type)]++
		}
	}
	c := &checker{}
	snap := sim.Snapshot()
	c.compareStanding(fmt.Sprintf("simulate in line %d", of.line), &e.Expect, snap.Outcome, snap.State, events)
	d.noteFailures(c.failures)
	return nil
}

// simulatedCall performs a task of a simulation by the next mock of its node, at once.
func (d *driver) simulatedCall(_ context.Context, t pawl.Task) (any, error) {
	c := &call{Task: t}
	c.entry = d.takeMock(c)
	a := d.answerOf(c)
	if m := c.entry; m.Metadata.set {
		return m.reported(a.output), a.err
	}
	return a.output, a.err
}

// replayRun plans the records of a run again.
func (d *driver) replayRun(ctx context.Context, engine *pawl.Engine, run workflow.RunID, of *event) error {
	e := of.Replay
	recorded, err := engine.Recording(ctx, run)
	if err != nil {
		return err
	}
	rec := recorded.(*replay.Recording)
	c, at := &checker{}, fmt.Sprintf("replay in line %d", of.line)
	got, status, only := int64(0), "", []workflow.NodeID(nil)
	if e.Patch.set {
		ops, _ := e.Patch.value.([]any)
		g, err := compiled.Compile(compiled.Boundless(), rec.Definition())
		if err == nil {
			g, err = planning.Patched(g, ops, compiled.Boundless())
		}
		if err != nil {
			return err
		}
		s, err := replay.Substitute(rec, g.Definition)
		if err != nil {
			return err
		}
		status, only = s.Is.String(), s.OnlyIs
		if s.Difference != nil {
			got = s.Difference.Seq
		}
	} else {
		r, err := replay.Check(rec)
		if err != nil {
			return err
		}
		status = r.Status.String()
		if r.Difference != nil {
			got = r.Difference.Seq
		}
	}
	if got != int64(e.Record) {
		c.addFailure(at+".record", fmt.Sprint(e.Record), "%d", got)
	}
	if e.Status != "" && e.Status != status {
		c.addFailure(at+".status", e.Status, "%s", status)
	}
	if want := fmt.Sprint(e.OnlyIs); e.OnlyIs != nil && want != fmt.Sprint(only) {
		c.addFailure(at+".onlyIs", want, "%v", only)
	}
	d.noteFailures(c.failures)
	return nil
}
