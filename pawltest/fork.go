package pawltest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/workflow"
)

// A forkEvent makes a fork of a run, which has a name in the scenario, or reruns it from a
// node on.
type forkEvent struct {
	As       string        `yaml:"as"`
	Record   int           `yaml:"record"`
	Node     string        `yaml:"node"` // a rerun
	InFlight string        `yaml:"inFlight"`
	Results  []givenResult `yaml:"results"`
	Again    bool          `yaml:"again"`
	Run      string        `yaml:"run"`
}

// A givenResult is what a task that was out comes to in a fork.
type givenResult struct {
	Node   string   `yaml:"node"`
	Index  *int     `yaml:"index"`
	Output optional `yaml:"output"`
}

// A standing is how a fork, or a simulation, must stand in the end.
type standing struct {
	Status     string         `yaml:"status"`
	Output     optional       `yaml:"output"`
	State      optional       `yaml:"state"`
	Error      optional       `yaml:"error"`
	Events     map[string]int `yaml:"events"`
	ForkedFrom *int           `yaml:"forkedFrom"` // the record
}

// forkRun makes a fork of a run.
func (d *driver) forkRun(ctx context.Context, engine *pawl.Engine, run workflow.RunID, e *forkEvent) error {
	o := pawl.ForkOptions{At: int64(e.Record), InFlight: workflow.InFlight(e.InFlight), Again: e.Again}
	for _, r := range e.Results {
		given := workflow.ForkResult{Node: workflow.NodeID(r.Node), Output: r.Output.orElse(map[string]any{})}
		if r.Index != nil {
			id, err := lastInBranch(ctx, engine, pawl.Target{Run: run, Node: given.Node}, *r.Index)
			if err != nil {
				return err
			}
			given.Node, given.Token = "", id
		}
		o.Results = append(o.Results, given)
	}
	if e.Node != "" {
		return engine.Rerun(ctx, pawl.Target{Run: run, Node: workflow.NodeID(e.Node)}, workflow.RunID(e.As), o)
	}
	return engine.Fork(ctx, run, workflow.RunID(e.As), o)
}

// lastInBranch returns the last token that came to a node in a branch of that index.
func lastInBranch(ctx context.Context, engine *pawl.Engine, t pawl.Target, index int) (workflow.TokenID, error) {
	snap, err := engine.Inspect(ctx, t.Run)
	if err != nil {
		return 0, err
	}
	for i := range slices.Backward(snap.Tokens) {
		if x := &snap.Tokens[i]; x.Node == t.Node && x.Scope.Group != 0 && x.Scope.Branch == index {
			return x.ID, nil
		}
	}
	return 0, fmt.Errorf("%w: no thread of branch %d came to node %q", pawl.ErrNotLive, index, string(t.Node))
}

// isFork reports whether a run is a fork that the scenario makes, or one below it.
func (s *Scenario) isFork(id workflow.RunID) bool {
	first, _, _ := strings.Cut(string(id), "/")
	return slices.ContainsFunc(s.document.Events, func(e event) bool { return e.Fork != nil && e.Fork.As == first })
}

// checkForks checks the names of the forks, and of what is expected of them.
func checkForks(e *document.Element, d *scenarioFields) error {
	names := map[string]bool{}
	for i := range d.Events {
		f := d.Events[i].Fork
		switch {
		case f == nil:
			continue
		case f.As == "" || strings.Contains(f.As, "/"):
			return errorAt(e, "fork: as: a fork needs a name without a slash")
		case f.As == string(rootRun):
			return errorAt(e, "fork: as: %q is the scenario's own run", f.As)
		}
		names[f.As] = true
	}
	for _, name := range slices.Sorted(maps.Keys(d.Expect.Forks)) {
		if !names[name] {
			return errorAt(e, "expect: forks: no event makes the fork %q", name)
		}
	}
	return nil
}

// checkForks compares how the forks stand with what is expected.
func (c *checker) checkForks() {
	for _, name := range slices.Sorted(maps.Keys(c.expect.Forks)) {
		want := c.expect.Forks[name]
		at := slices.IndexFunc(c.forks, func(r *runHistory) bool { return string(r.Run) == name })
		if at < 0 {
			c.addFailure("forks."+name, "a run", "none")
			continue
		}
		fork := c.forks[at]
		if want.ForkedFrom != nil && int64(*want.ForkedFrom) != fork.ForkedFrom.Record {
			c.addFailure("forks."+name+".forkedFrom", fmt.Sprint(*want.ForkedFrom), "%d", fork.ForkedFrom.Record)
		}
		events := map[string]int{}
		for _, typ := range fork.events {
			events[typ]++
		}
		c.compareStanding("forks."+name, &want, fork.Outcome, fork.State, events)
	}
}

// compareStanding compares how a run stands with what is expected of it.
func (c *checker) compareStanding(at string, want *standing, out workflow.Outcome, state map[string]any, events map[string]int) {
	if status := cmp.Or(want.Status, "completed"); status != out.Status.String() {
		c.addFailure(at+".status", status, "%s%s", out.Status, reasonOf(out.Failure))
	}
	if want.Output.set {
		c.compareValues(at+".output", want.Output.value, plainValue(out.Output), false)
	}
	if want.State.set {
		c.compareValues(at+".state", want.State.value, plainValue(state), true)
	}
	if want.Error.set {
		c.compareValues(at+".error", want.Error.value, plainValue(failureFields(out.Failure)), true)
	}
	for _, typ := range slices.Sorted(maps.Keys(want.Events)) {
		if n := want.Events[typ]; n != events[typ] {
			c.addFailure(at+".events."+typ, countText(n, "event"), "%d", events[typ])
		}
	}
}

func reasonOf(f *workflow.Failure) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf(" (%s: %s)", f.Code, f.Message)
}
