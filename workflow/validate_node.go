package workflow

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/value"
)

// checkNode checks what one node says of itself, and the ids of others that it names.
func (c *checker) checkNode(s site, n *Node) {
	c.checkName(s, "id", string(n.ID))
	c.checkKinds(s, n)
	c.checkTask(s, n)
	c.checkRetry(s, n)
	c.checkJoin(s, n)
	c.checkAtLeast(s, "priority", n.Priority, 0)
	c.checkOptionalName(s, "lock", n.Lock)
	c.checkLiteral(s, "lock", n.Lock, "all threads at the node take the lock of this very name")
	knownValue(c, s, "unmatched", n.Unmatched, unmatchedValues)
	c.checkSchema(s, "outputSchema", n.OutputSchema)
	c.checkReferences(s, "cancels", n.Cancels)
	c.checkReferences(s, "needs", n.Needs)
	// In graph mode a node does not wait for those before it, unless it has a join.
	if len(n.Needs) > 0 && c.def.Mode != ModeDAG {
		c.reportProblem(s, "needs", problem.InvalidField, "needs is for mode: dag; write transitions")
	}
	// Fields of the input may have any name.
	for _, name := range sortedKeys(n.Input) {
		c.checkExpression(s, "input."+name, n.Input[name], placeMapping)
	}
	c.checkOutputs(s, n)
	c.checkBudget(s, n)
}

// checkBudget checks what one attempt may report. An attempt above the limit of the run could never begin.
func (c *checker) checkBudget(s site, n *Node) {
	c.checkAmounts(s, "budget", n.Budget, true)
	if k := n.Kind(); len(n.Budget) > 0 && k != KindTask && k != KindSubworkflow {
		c.reportProblem(s, "budget", problem.InvalidField, "a budget is for a task or a subworkflow, not for a node of kind %s", k)
	}
	for _, name := range sortedKeys(n.Budget) {
		if most, ok := c.def.Limits.Meta[name]; ok && n.Budget[name] > most {
			c.reportProblem(s, "budget."+name, problem.OutOfRange, "%v is more than %v, the limit of the run", n.Budget[name], most)
		}
	}
}

// checkKinds checks that a node has one kind at most, and what belongs to it. It goes by the format, in which the
// kinds stand next to each other behind the id.
func (c *checker) checkKinds(s site, n *Node) {
	var kinds []string
	for _, f := range nodeFormat(n)[1:7] { // task to end
		// task and taskExpr are one kind said twice, which has a message of its own.
		if again := f.name == "taskExpr" && n.Task != ""; f.write() != nil && !again {
			kinds = append(kinds, f.name)
		}
	}
	// The second one is reported: whoever has added it sees it.
	if len(kinds) > 1 {
		c.reportProblem(s, kinds[1], problem.Conflict, "a node has one kind, not %s", strings.Join(kinds, " and "))
	}
	c.checkOptionalName(s, "task", n.Task)
	c.checkLiteralName(s, "task", n.Task, "it is the task type of this very name; say taskExpr and tasks for an expression")
	if n.Task != "" && n.TaskExpr != "" {
		c.reportProblem(s, "taskExpr", problem.Conflict, "only one of task and taskExpr")
	}
	c.checkChoice(s, choice{expr: "taskExpr", source: n.TaskExpr, list: "tasks", names: n.Tasks})
	// Whether a definition of that name is published is not known here: it is looked up when a root run starts.
	if w := n.Subworkflow; w != nil {
		switch {
		case w.NameExpr == "":
			c.checkName(s, "subworkflow.name", w.Name)
			c.checkLiteralName(s, "subworkflow.name", w.Name, "it is the definition of this very name; say nameExpr and names for an expression")
		case w.Name != "":
			c.reportProblem(s, "subworkflow.nameExpr", problem.Conflict, "only one of name and nameExpr")
		}
		c.checkChoice(s, choice{expr: "subworkflow.nameExpr", source: w.NameExpr, list: "subworkflow.names", names: w.Names})
		c.checkAtLeast(s, "subworkflow.version", w.Version, 0)
	}
	// 0 is the default of a quorum, and is 1.
	if a := n.Approval; a != nil {
		c.checkMessage(s, a)
		c.checkVotes(s, "approval.quorum", a.Quorum)
		c.checkVotes(s, "approval.rejectQuorum", a.RejectQuorum)
		knownValue(c, s, "approval.onTimeout", a.OnTimeout, approvalTimeouts)
	}
	if n.Wait != nil {
		c.checkWait(s, n.Wait)
	}
	if e := n.End; e != nil {
		c.checkEnd(s, e)
	}
}

// checkEnd checks with what a run fails at an end node. A run that fails with the code state.code is hard to tell from
// one that fails with what is there.
func (c *checker) checkEnd(s site, e *EndSpec) {
	c.checkOptionalName(s, "end.fail", e.Fail)
	if !e.fails() && e.Message+e.MessageExpr != "" {
		c.reportProblem(s, "end.message", problem.InvalidField, "a message is for end: {fail: CODE}")
	}
	if e.Fail != "" && e.CodeExpr != "" {
		c.reportProblem(s, "end.codeExpr", problem.Conflict, "only one of fail and codeExpr")
	}
	if e.Message != "" && e.MessageExpr != "" {
		c.reportProblem(s, "end.messageExpr", problem.Conflict, "only one of message and messageExpr")
	}
	c.checkLiteral(s, "end.fail", e.Fail, "the run fails with these very words; say codeExpr for an expression")
	c.checkLiteral(s, "end.message", e.Message, "the run fails with these very words; say messageExpr for an expression")
	c.checkText(s, "end.codeExpr", e.CodeExpr)
	c.checkText(s, "end.messageExpr", e.MessageExpr)
}

// A choice is an expression that chooses one of the names of a list.
type choice struct {
	expr, source string
	list         string
	names        []string
}

// checkChoice checks that an expression and the names that it may choose come together. The names are listed so that
// what a run may come to is known before: subworkflows are pinned when the root starts, and task types can be
// compared with the handlers that there are.
func (c *checker) checkChoice(s site, of choice) {
	c.checkText(s, of.expr, of.source)
	c.checkNames(s, of.list, of.names)
	// An expression without a list, a list that is too long for each of its names to be looked up at a start, and a
	// list that nothing chooses from.
	switch {
	case of.source != "" && len(of.names) == 0:
		c.reportProblem(s, of.list, problem.Missing, "list what %s may choose", of.expr)
	case len(of.names) > limits.MaxChoices:
		c.reportProblem(s, of.list, problem.TooLarge, "%d names are more than %d", len(of.names), limits.MaxChoices)
	case of.source == "" && len(of.names) > 0:
		c.reportProblem(s, of.list, problem.InvalidField, "it lists what %s may choose: there is none", of.expr)
	}
}

// fieldOfVariable is a text that looks like an expression: state.code. An id such as state_code does not match, nor
// does a sentence.
var fieldOfVariable = regexp.MustCompile(`^(input|state|output|result|error|item|nodes|branch)(\.\??\w+|\[[^\]]+\])+$`)

// fieldOfInput is a name that looks like an expression. Names such as result.ready and item.created are usual for events.
var fieldOfInput = regexp.MustCompile(`^(input|nodes)(\.\??\w+|\[[^\]]+\])+$`)

// variableWord finds a variable that a message may be meant to read.
var variableWord = regexp.MustCompile(`\b(input|state|output|result|error|item|nodes|branch)\b`)

// maxLiterals bounds the texts that are compiled to see whether they are expressions, in bytes of a whole definition.
const maxLiterals = 64 << 10

// checkLiteral warns of a text that was probably meant as an expression. Fields that take an expression and fields
// that take a text look alike in YAML.
func (c *checker) checkLiteral(s site, field, text, meaning string) {
	if fieldOfVariable.MatchString(text) || c.isExpression(text) {
		c.warnLiteral(s, field, text, meaning)
	}
}

// checkLiteralName is checkLiteral for a name that is also the name of something outside of the definition.
func (c *checker) checkLiteralName(s site, field, name, meaning string) {
	if fieldOfInput.MatchString(name) {
		c.warnLiteral(s, field, name, meaning)
	}
}

func (c *checker) warnLiteral(s site, field, text, meaning string) {
	c.reportWarning(s, field, problem.LiteralText, "%.200q is literal text here, not an expression: %s", text, meaning)
}

// isExpression reports whether a text can be compiled and reads a variable as prose would not: in a text with quotes
// or parentheses, or a part of it. Prose hardly ever compiles, and "error / result" reads no part.
func (c *checker) isExpression(text string) bool {
	if !variableWord.MatchString(text) {
		return false
	}
	if c.literals += len(text); c.literals > maxLiterals {
		return false
	}
	program, err := c.compiler.expressions.Compile(text, c.compiler.variables)
	if err != nil {
		return false
	}
	marked := strings.ContainsAny(text, `'"(`)
	return slices.ContainsFunc(program.References(), func(ref []string) bool {
		return variableWord.MatchString(ref[0]) && (marked || len(ref) > 1)
	})
}

// checkMessage checks what the people of an approval are asked.
func (c *checker) checkMessage(s site, a *ApprovalSpec) {
	if a.Message != "" && a.MessageExpr != "" {
		c.reportProblem(s, "approval.messageExpr", problem.Conflict, "only one of message and messageExpr")
	}
	c.checkLiteral(s, "approval.message", a.Message, "people are asked these very words; say messageExpr for an expression")
	c.checkText(s, "approval.messageExpr", a.MessageExpr)
}

// checkVotes checks how many votes end an approval. More than it takes never come, so that it ends by its timeout, or by hand.
func (c *checker) checkVotes(s site, field string, n int) {
	c.checkAtLeast(s, field, n, 0)
	if n > limits.MaxVotes {
		c.reportWarning(s, field, problem.OutOfRange, "%d is more than %d, the votes that an approval takes", n, limits.MaxVotes)
	}
}

// checkWait checks what a wait node waits for: one thing, or a list that has no list as an item.
func (c *checker) checkWait(s site, w *WaitSpec) {
	c.checkEvent(s, "wait", w)
	for i := range w.Any {
		field := fmt.Sprintf("wait.any[%d]", i)
		// The items of the inner list are not looked at: they belong into the outer list.
		if w.Any[i].Any != nil {
			c.reportProblem(s, field+".any", problem.InvalidField, "any within any: name what it waits for in one list")
			continue
		}
		c.checkEvent(s, field, &w.Any[i])
	}
}

// checkEvent checks one thing to wait for. It stands in field, which is wait or wait.any[i].
func (c *checker) checkEvent(s site, field string, w *WaitSpec) {
	// A wait with none of them would never end, and one with two does not say whether both are needed.
	count := 0
	for _, set := range []bool{w.For != 0, w.Until != "", w.Event != "", w.Any != nil} {
		if set {
			count++
		}
	}
	switch {
	case count == 0:
		c.reportProblem(s, field, problem.Missing, "name one of for, until, event and any")
	case count > 1:
		c.reportProblem(s, field, problem.Conflict, "only one of for, until, event and any: any takes a list of them")
	}
	if w.Any != nil && len(w.Any) == 0 {
		c.reportProblem(s, field+".any", problem.Missing, "the list is empty")
	}
	c.checkDuration(s, field+".for", w.For)
	c.checkOptionalName(s, field+".event", w.Event)
	c.checkLiteralName(s, field+".event", w.Event, "the node waits for a signal of this very name; say match to choose among signals")
	// A timer has no payload that could match.
	if w.Match != "" && w.Event == "" {
		c.reportProblem(s, field+".match", problem.InvalidField, "match is for an event")
	}
	c.checkOptionalExpression(s, field+".until", w.Until, placeUntil)
	c.checkResult(s, field+".until", w.Until, "string")
	c.checkInstant(s, field+".until", w.Until)
	c.checkOptionalExpression(s, field+".match", w.Match, placeMatch)
	c.checkResult(s, field+".match", w.Match, "boolean")
}

// checkTask checks the time that a node may take. An approval and a wait may have a timeout, a gateway and an end
// take no time.
func (c *checker) checkTask(s site, n *Node) {
	c.checkDuration(s, "timeout", n.Timeout)
	c.checkDuration(s, "heartbeat", n.Heartbeat)
	kind := n.Kind()
	if n.Timeout > 0 && (kind == KindGateway || kind == KindEnd) {
		c.reportProblem(s, "timeout", problem.InvalidField, "a node of kind %s takes no time", kind)
	}
	// Nobody sends heartbeats for a node that no handler performs.
	if n.Heartbeat > 0 && kind != KindTask {
		c.reportProblem(s, "heartbeat", problem.InvalidField, "only a task has a heartbeat, not a node of kind %s", kind)
	}
}

// checkRetry checks the policy of a node that makes attempts. Zero stands for the default of each of its fields.
func (c *checker) checkRetry(s site, n *Node) {
	r := n.Retry
	if r == nil {
		return
	}
	// A policy that can never be used is probably meant for another node.
	switch kind := n.Kind(); {
	case kind == KindGateway || kind == KindEnd:
		c.reportProblem(s, "retry", problem.InvalidField, "a node of kind %s makes no attempts", kind)
	case kind == KindWait && n.Timeout == 0:
		c.reportProblem(s, "retry", problem.InvalidField, "a wait without a timeout cannot fail by itself")
	}
	c.checkAtLeast(s, "retry.maxAttempts", r.MaxAttempts, 0)
	c.checkDuration(s, "retry.initialInterval", r.InitialInterval)
	c.checkDuration(s, "retry.maxInterval", r.MaxInterval)
	// Below 1, the delays would shrink with each attempt.
	if r.BackoffCoefficient != 0 {
		c.checkRange(s, "retry.backoffCoefficient", r.BackoffCoefficient, 1, math.MaxFloat64)
	}
	// More than the whole delay cannot be subtracted.
	c.checkRange(s, "retry.jitter", r.Jitter, 0, 1)
	// Any code may be among them, also one that nothing raises: handlers have codes of their own.
	c.checkNames(s, "retry.nonRetryable", r.NonRetryable)
	knownValue(c, s, "retry.exhausted", r.Exhausted, exhaustedValues)
}

// checkJoin checks that the node's join is one of the mode, and can be met. In graph mode the number of transitions
// says nothing of the number of tokens that come, so that only all and synchronize have a meaning there.
func (c *checker) checkJoin(s site, n *Node) {
	switch dag := c.def.Mode == ModeDAG; {
	case dag && n.Join == JoinSynchronize:
		c.reportProblem(s, "join", problem.InvalidField, "join: synchronize is for mode: graph")
	case !dag && (n.Join == JoinAny || n.Join.kind == joinMOfN):
		c.reportProblem(s, "join", problem.InvalidField, "join: any and mOfN are for mode: dag; without a join every thread goes on by itself")
	// The other joins have no number that could be wrong.
	case n.Join.kind != joinMOfN:
	case n.Join.n < 1:
		c.reportProblem(s, "join", problem.OutOfRange, "mOfN %d is less than 1", n.Join.n)
	// The node would be skipped in every run.
	case n.Join.n > c.graph.countIncoming(n.ID):
		c.reportProblem(s, "join", problem.Quorum, "it waits for %d transitions, but only %d lead here", n.Join.n, c.graph.countIncoming(n.ID))
	}
}

// checkReferences checks ids of nodes.
func (c *checker) checkReferences(s site, field string, ids []NodeID) {
	for i, id := range ids {
		if !c.graph.hasNode(id) {
			c.reportProblem(s, fmt.Sprintf("%s[%d]", field, i), problem.Dangling, "there is no node %q", string(id))
		}
	}
}

// checkOutputs checks the output mapping of a node. All expressions are evaluated before any is written: targets that
// overlap would depend on an order that nobody sees.
func (c *checker) checkOutputs(s site, n *Node) {
	var targets []target
	// A target that is no path is reported by parsePath, and takes no part in the comparison.
	for _, text := range sortedKeys(n.Output) {
		field := "output." + text
		c.checkExpression(s, field, n.Output[text], placeMapping)
		if path, ok := c.parsePath(s, field, text); ok {
			targets = append(targets, target{field, path})
		}
	}
	c.checkOverlapping(s, targets)
}

// A target is a path that a field names.
type target struct {
	field string
	path  value.Path
}

// checkOverlapping finds targets that touch the same place. In the order of their segments, what overlaps a path and
// precedes it is on the way to it. Example: state.a and state.a.b overlap, state.a and state.ab do not. way holds the
// targets that lead to the one at hand, so that each is compared with one other, and the check takes n log n.
func (c *checker) checkOverlapping(s site, targets []target) {
	// With a list of segments, a path comes before all that begin with it.
	slices.SortStableFunc(targets, func(a, b target) int { return slices.Compare(a.path.Segments, b.path.Segments) })
	var way []target
	for _, t := range targets {
		// A path that does not lead to this target leads to no later target either.
		for len(way) > 0 && !leadsTo(way[len(way)-1].path, t.path) {
			way = way[:len(way)-1]
		}
		if len(way) > 0 && value.Overlaps(way[len(way)-1].path, t.path) {
			c.reportProblem(s, t.field, problem.OverlappingPaths, "it touches the same place as %s", way[len(way)-1].path)
		}
		way = append(way, t)
	}
}

// leadsTo reports whether path a is b or a beginning of it.
func leadsTo(a, b value.Path) bool {
	n := len(a.Segments)
	return n <= len(b.Segments) && slices.Equal(a.Segments, b.Segments[:n])
}
