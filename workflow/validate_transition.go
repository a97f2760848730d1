package workflow

import (
	"strings"

	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/merge"
)

// checkTransition checks what one transition says of itself, and that its ends exist. checkGroups checks the settings
// that it shares with others of its group.
func (c *checker) checkTransition(s site, t *Transition) {
	c.checkEnds(s, t)
	c.checkOutcome(s, t)
	c.checkFanOut(s, t)
	c.checkOptionalExpression(s, "condition", t.Condition, placeTransition)
	c.checkResult(s, "condition", t.Condition, "boolean")
	// A bound of 0 would be a transition that is never taken.
	if t.Loop != nil && (t.Loop.MaxIterations < 1 || t.Loop.MaxIterations > c.limits.Loop) {
		c.reportProblem(s, "loop.maxIterations", problem.OutOfRange, "%d is not in 1..%d, the limit of loops", t.Loop.MaxIterations, c.limits.Loop)
	}
	// Without it the transition is no fan-in, and there is nothing to check.
	if t.Synchronization != nil {
		c.checkSynchronization(s, t)
	}
	// A dag has no use for most fields, whether they are in order or not.
	if c.def.Mode == ModeDAG {
		c.checkDAGTransition(s, t)
	}
}

// checkEnds checks the id and the two nodes of a transition. An id that the completion has made of the ids of the
// ends may be longer than a name.
func (c *checker) checkEnds(s site, t *Transition) {
	// An id that does not begin so was given by the author.
	if !strings.HasPrefix(string(t.ID), string(t.From)+"->"+string(t.To)) {
		c.checkOptionalName(s, "id", string(t.ID))
	}
	// Both ends are looked at: each may be wrong in its own way.
	for _, end := range []struct {
		field string
		id    NodeID
	}{{"from", t.From}, {"to", t.To}} {
		switch {
		case end.id == "":
			c.reportProblem(s, end.field, problem.Missing, "it is missing")
		case !c.graph.hasNode(end.id):
			c.reportProblem(s, end.field, problem.Dangling, "there is no node %q", string(end.id))
		}
	}
	// The run has ended when its token would leave.
	if from := c.graph.nodeOf(t.From); from != nil && from.End != nil {
		c.reportProblem(s, "from", problem.InvalidField, "node %q ends the run: nothing leaves it", string(t.From))
	}
}

// checkOutcome checks with which end of its node the transition is taken.
func (c *checker) checkOutcome(s site, t *Transition) {
	knownValue(c, s, "outcome", t.Outcome, outcomes)
	c.checkNames(s, "errors", t.Errors)
	// A transition that is taken with success has no error whose code could fit.
	if len(t.Errors) > 0 && t.Outcome != OnError && t.Outcome != OnAlways {
		c.reportProblem(s, "errors", problem.InvalidField, "errors is for outcome: error or always")
	}
}

// checkFanOut checks what makes branches. A transition fans out if it has a spawnCount, a foreach or a siblingGroup.
func (c *checker) checkFanOut(s site, t *Transition) {
	c.checkOptionalName(s, "siblingGroup", t.SiblingGroup)
	// More branches could never live together.
	if t.SpawnCount < 0 || t.SpawnCount > c.limits.LiveTokens {
		c.reportProblem(s, "spawnCount", problem.OutOfRange, "%d is not in 1..%d, the limit of live threads", t.SpawnCount, c.limits.LiveTokens)
	}
	if t.SpawnCount != 0 && t.Foreach != nil {
		c.reportProblem(s, "spawnCount", problem.Conflict, "spawnCount and foreach exclude each other")
	}
	if f := t.Foreach; f != nil {
		c.checkExpression(s, "foreach.collection", f.Collection, placeTransition)
		c.checkResult(s, "foreach.collection", f.Collection, "array")
		if fault := variableProblem(f.As); f.As != "" && fault != "" {
			c.reportProblem(s, "foreach.as", problem.InvalidName, "%.40q cannot name an element: %s", f.As, fault)
		}
	}
	c.checkAtLeast(s, "maxConcurrency", t.MaxConcurrency, 0)
	fans := t.SpawnCount != 0 || t.Foreach != nil || t.SiblingGroup != ""
	// One token needs no bound.
	if t.MaxConcurrency != 0 && !fans {
		c.reportProblem(s, "maxConcurrency", problem.InvalidField, "it bounds branches, and this transition makes none")
	}
	// AddBranch and CloseGroup name the group.
	if t.Open && t.SiblingGroup == "" {
		c.reportProblem(s, "open", problem.InvalidField, "only a group with a siblingGroup can be open")
	}
	// A token that arrives and branches that begin on the same edge would have no node between them at which to
	// stand.
	if fans && t.Synchronization != nil {
		c.reportProblem(s, "synchronization", problem.Conflict, "a transition ends branches or makes them, not both: put a node between")
	}
}

// checkSynchronization checks the rule of a join. Values that are left out have their defaults, which are valid.
func (c *checker) checkSynchronization(s site, t *Transition) {
	y := t.Synchronization
	const field = "synchronization."
	c.checkName(s, field+"siblingGroup", y.SiblingGroup)
	// A join that waits for nobody would fire before anybody has come.
	if !y.Strategy.isAll() && y.Strategy.Quorum() < 1 {
		c.reportProblem(s, field+"strategy", problem.OutOfRange, "mOfN %d is less than 1", y.Strategy.Quorum())
	}
	knownValue(c, s, field+"remaining", y.Remaining, remainings)
	knownValue(c, s, field+"onTimeout", y.OnTimeout, joinTimeouts)
	knownValue(c, s, field+"onShortfall", y.OnShortfall, shortfalls)
	c.checkDuration(s, field+"timeout", y.Timeout)
	c.checkTolerance(s, field+"tolerate", y.Tolerate)
	c.checkMerge(s, t)
}

// checkTolerance checks how many failures a group bears: 0 is a number like others.
func (c *checker) checkTolerance(s site, field string, t Tolerance) {
	switch t.kind {
	case toleranceCount:
		c.checkAtLeast(s, field+".failures", t.failures, 0)
	case toleranceRatio:
		c.checkRange(s, field+".failureRatio", t.ratio, 0, 1)
	default:
	}
}

// checkMerge checks how the values of branches become one and where that is written, and where the tolerated failures
// are listed: both are written as the join fires, and must not touch each other.
func (c *checker) checkMerge(s site, t *Transition) {
	y := t.Synchronization
	const field = "synchronization.merge."
	var paths []value.Path
	// Without a merge nothing of the branches crosses the join.
	if m := y.Merge; m != nil {
		c.checkOptionalExpression(s, field+"source", m.Source, placeTransition)
		// A default would decide silently whether lists are flattened.
		if m.Strategy == "" {
			c.reportProblem(s, field+"strategy", problem.Missing, "name one of %s", joinValues(mergeStrategies))
		}
		knownValue(c, s, field+"strategy", m.Strategy, mergeStrategies)
		knownValue(c, s, field+"as", m.As, mergeForms)
		// A blob is written line by line.
		if m.As == MergeAsBlob && !makesList(m.Strategy) {
			c.reportProblem(s, field+"as", problem.Conflict, "a blob has a line for each element of a list, but %s makes none: use append or collect", m.Strategy)
		}
		if m.Target == "" {
			c.checkUntargeted(s, field+"target", t)
		} else if path, ok := c.parsePath(s, field+"target", m.Target); ok {
			paths = append(paths, path)
		}
	}
	if y.Errors == "" {
		return
	}
	path, ok := c.parsePath(s, "synchronization.errors", y.Errors)
	if ok && len(paths) > 0 && value.Overlaps(path, paths[0]) {
		c.reportProblem(s, "synchronization.errors", problem.OverlappingPaths, "it touches the same place as merge.target")
	}
}

// checkUntargeted checks that the node behind a join can read a merged value that is written nowhere: it is the result
// in that node's expressions, and nobody else ever sees it.
func (c *checker) checkUntargeted(s site, field string, t *Transition) {
	n := c.graph.nodeOf(t.To)
	if n == nil {
		return // it is told that there is no such node
	}
	switch kind := n.Kind(); {
	case n.Join != JoinNone:
		c.reportProblem(s, field, problem.Missing, "node %q has a join of its own and does not see the merged value as result: name where to write it, such as state.total", string(n.ID))
	case kind == KindGateway || kind == KindEnd:
		c.reportProblem(s, field, problem.Missing, "node %q is a node of kind %s and does not see the merged value as result: name where to write it, such as state.total", string(n.ID), kind)
	}
}

// makesList reports whether a strategy always merges into a list. keyed_by_branch and merge_object make objects, and
// last_wins whatever the branch brings.
func makesList(strategy string) bool {
	return strategy == string(merge.Append) || strategy == string(merge.Collect)
}

// checkDAGTransition checks that a transition has only what dag mode knows. It goes by the format, so that fields
// which are added to it are refused too.
func (c *checker) checkDAGTransition(s site, t *Transition) {
	// Fields with their default are written as nil, and pass.
	for _, f := range transitionFormat(t) {
		switch f.name {
		case "id", "from", "to", "condition", "outcome":
			continue
		}
		if f.write() != nil {
			c.reportProblem(s, f.name, problem.InvalidField, "with mode: dag a transition has condition and outcome only")
		}
	}
}
