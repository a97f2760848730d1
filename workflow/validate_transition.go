package workflow

import (
	"strings"

	"github.com/pawl-run/pawl/internal/value"
)

func (c *checker) transition(s site, t *Transition) {
	c.ends(s, t)
	c.outcome(s, t)
	c.fanOut(s, t)
	c.optionalExpression(s, "condition", t.Condition, placeTransition)
	if t.Loop != nil && (t.Loop.MaxIterations < 1 || t.Loop.MaxIterations > c.limits.Loop) {
		c.report(s, "loop.maxIterations", ProblemOutOfRange, "%d is not in 1..%d, the limit of loops", t.Loop.MaxIterations, c.limits.Loop)
	}
	if t.Synchronization != nil {
		c.synchronization(s, t)
	}
	if c.def.Mode == ModeDAG {
		c.dagTransition(s, t)
	}
}

// ends checks the id and the two nodes of a transition.
func (c *checker) ends(s site, t *Transition) {
	if !strings.HasPrefix(string(t.ID), string(t.From)+"->"+string(t.To)) {
		c.optionalName(s, "id", string(t.ID))
	}
	for _, end := range []struct {
		field string
		id    NodeID
	}{{"from", t.From}, {"to", t.To}} {
		switch {
		case end.id == "":
			c.report(s, end.field, ProblemMissing, "it is missing")
		case !c.graph.has(end.id):
			c.report(s, end.field, ProblemDangling, "there is no node %q", string(end.id))
		}
	}
	if from := c.graph.node(t.From); from != nil && from.End != nil {
		c.report(s, "from", ProblemInvalidField, "node %q ends the run: nothing leaves it", string(t.From))
	}
}

func (c *checker) outcome(s site, t *Transition) {
	knownValue(c, s, "outcome", t.Outcome, outcomes)
	c.names(s, "errors", t.Errors)
	if len(t.Errors) > 0 && t.Outcome != OnError && t.Outcome != OnAlways {
		c.report(s, "errors", ProblemInvalidField, "errors is for outcome: error or always")
	}
}

func (c *checker) fanOut(s site, t *Transition) {
	c.optionalName(s, "siblingGroup", t.SiblingGroup)
	if t.SpawnCount < 0 || t.SpawnCount > c.limits.LiveTokens {
		c.report(s, "spawnCount", ProblemOutOfRange, "%d is not in 1..%d, the limit of live tokens", t.SpawnCount, c.limits.LiveTokens)
	}
	if t.SpawnCount != 0 && t.Foreach != nil {
		c.report(s, "spawnCount", ProblemConflict, "spawnCount and foreach exclude each other")
	}
	if f := t.Foreach; f != nil {
		c.expression(s, "foreach.collection", f.Collection, placeTransition)
		if problem := variableProblem(f.As); f.As != "" && problem != "" {
			c.report(s, "foreach.as", ProblemInvalidName, "%.40q cannot name an element: %s", f.As, problem)
		}
	}
	c.atLeast(s, "maxConcurrency", t.MaxConcurrency, 0)
	fans := t.SpawnCount != 0 || t.Foreach != nil || t.SiblingGroup != ""
	if t.MaxConcurrency != 0 && !fans {
		c.report(s, "maxConcurrency", ProblemInvalidField, "it bounds branches, and this transition makes none")
	}
	if t.Open && t.SiblingGroup == "" {
		c.report(s, "open", ProblemInvalidField, "only a group with a siblingGroup can be open")
	}
	if fans && t.Synchronization != nil {
		c.report(s, "synchronization", ProblemConflict, "a transition ends branches or makes them, not both: put a node between")
	}
}

func (c *checker) synchronization(s site, t *Transition) {
	y := t.Synchronization
	const field = "synchronization."
	c.name(s, field+"siblingGroup", y.SiblingGroup)
	if !y.Strategy.IsAll() && y.Strategy.Quorum() < 1 {
		c.report(s, field+"strategy", ProblemOutOfRange, "mOfN %d is less than 1", y.Strategy.Quorum())
	}
	knownValue(c, s, field+"remaining", y.Remaining, remainings)
	knownValue(c, s, field+"onTimeout", y.OnTimeout, joinTimeouts)
	knownValue(c, s, field+"onShortfall", y.OnShortfall, shortfalls)
	c.duration(s, field+"timeout", y.Timeout)
	c.tolerate(s, field+"tolerate", y.Tolerate)
	c.merge(s, t)
}

func (c *checker) tolerate(s site, field string, t *Tolerate) {
	switch {
	case t == nil:
		return
	case t.Failures == nil && t.FailureRatio == nil:
		c.report(s, field, ProblemMissing, "name failures or failureRatio")
	case t.Failures != nil && t.FailureRatio != nil:
		c.report(s, field, ProblemConflict, "failures and failureRatio exclude each other")
	}
	if t.Failures != nil {
		c.atLeast(s, field+".failures", *t.Failures, 0)
	}
	if t.FailureRatio != nil {
		c.within(s, field+".failureRatio", *t.FailureRatio, 0, 1)
	}
}

func (c *checker) merge(s site, t *Transition) {
	y := t.Synchronization
	const field = "synchronization.merge."
	var paths []value.Path
	if m := y.Merge; m != nil {
		c.optionalExpression(s, field+"source", m.Source, placeTransition)
		if m.Strategy == "" {
			c.report(s, field+"strategy", ProblemMissing, "name one of %s", joinValues(mergeStrategies))
		}
		knownValue(c, s, field+"strategy", m.Strategy, mergeStrategies)
		if path, ok := c.path(s, field+"target", m.Target); ok {
			paths = append(paths, path)
		}
	}
	if y.Errors == "" {
		return
	}
	path, ok := c.path(s, "synchronization.errors", y.Errors)
	if ok && len(paths) > 0 && value.Overlaps(path, paths[0]) {
		c.report(s, "synchronization.errors", ProblemOverlappingPaths, "it touches the same place as merge.target")
	}
}

// dagTransition checks that a transition has only what dag mode knows.
func (c *checker) dagTransition(s site, t *Transition) {
	for _, f := range transitionFormat(t) {
		switch f.name {
		case "id", "from", "to", "condition", "outcome":
			continue
		}
		if f.write() != nil {
			c.report(s, f.name, ProblemInvalidField, "with mode: dag a transition has condition and outcome only")
		}
	}
}
