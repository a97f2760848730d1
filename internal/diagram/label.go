package diagram

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// maxLabel bounds a line of the label of an edge, in columns, and maxName that of a node.
// A longer text ends in an ellipsis; titles and outlines have all of it. The bounds keep the boxes and labels of most definitions
// narrow enough to stand beside each other.
const (
	maxLabel = 34
	maxName  = 36
)

// detailOf returns what the kind of a node says beyond its id.
//
// It is "" if the id says it all, such as that of a task whose type has the same name, or an approval that one vote decides.
func detailOf(n *compiled.Node) string {
	switch n.Kind {
	case workflow.KindTask:
		if n.Choice != nil {
			return strings.Join(n.Tasks, " or ")
		}
		// A type that is called like its node would only be said twice.
		if n.Task != string(n.ID) {
			return n.Task
		}
	case workflow.KindSubworkflow:
		name := n.Subworkflow.Name
		if n.Choice != nil {
			name = strings.Join(n.Subworkflow.Names, " or ")
		}
		if v := n.Subworkflow.Version; v > 0 {
			return fmt.Sprintf("%s@%d", name, v)
		}
		return name
	case workflow.KindApproval:
		if n.Approval.Quorum > 1 {
			return fmt.Sprintf("by %d", n.Approval.Quorum)
		}
	case workflow.KindWait:
		var texts []string
		for _, w := range n.Waits {
			texts = append(texts, waitText(w.WaitSpec))
		}
		return strings.Join(texts, " or ")
	case workflow.KindEnd:
		if n.End.Fail != "" {
			return "fails " + n.End.Fail
		}
		if n.Code != nil {
			return "fails " + n.Code.Source()
		}
	case workflow.KindGateway:
	}
	return ""
}

// marksOf returns what else a node does: how it joins, what it locks, and which nodes it
// cancels.
//
// They stand below the id, a line each. A run, a difference or a part puts its own lines before or behind them later.
func marksOf(n *compiled.Node) []string {
	var out []string
	if n.Join != workflow.JoinNone {
		out = append(out, "joins "+n.Join.String())
	}
	if n.Lock != "" {
		out = append(out, "locks "+n.Lock)
	}
	if len(n.Cancels) > 0 {
		names := make([]string, len(n.Cancels))
		for i, id := range n.Cancels {
			names[i] = string(id)
		}
		out = append(out, "cancels "+strings.Join(names, ", "))
	}
	for i := range out {
		out[i] = cleanText(out[i])
	}
	return out
}

// waitText says in short what a wait waits for: a time, such as 2h; until an instant, by its expression; or an event, by its name.
func waitText(w *workflow.WaitSpec) string {
	switch {
	case w.For > 0:
		return timeout.Text(w.For)
	case w.Until != "":
		return "until " + w.Until
	}
	return w.Event
}

// newEdge returns the edge of a transition of n.
//
// Its label says in this order when it is taken, how many branches it makes, for which it waits, and how often a loop may use it. A
// foreach behind the condition of tier 1 reads "1: each input.items", in one line.
func (d *Diagram) newEdge(n *compiled.Node, t *compiled.Transition, from, to int) edge {
	// A part is one line of the label.
	e := edge{from: from, to: to, loop: t.Loop != nil, id: t.ID}
	condition := conditionText(n, t)
	var parts []string
	if condition != "" {
		parts = append(parts, condition)
	}
	switch {
	case t.Fans():
		e.kind = fanOut
		parts = append(parts, fanText(t))
	case t.Outcome == workflow.OnError:
		e.kind = onError
	}
	if t.Synchronization != nil {
		e.kind = fanIn
		parts = append(parts, joinText(t.Joins))
	}
	if t.Loop != nil {
		parts = append(parts, timesText(t.Loop.MaxIterations))
	}
	if len(parts) > 1 && strings.HasSuffix(parts[0], ":") { // a tier without a condition
		parts = append([]string{parts[0] + " " + parts[1]}, parts[2:]...)
	}
	for _, part := range parts {
		e.label = append(e.label, shorten(cleanText(part), maxLabel))
	}
	e.full = cleanText(strings.Join(parts, ", "))
	return e
}

// timesText says how often a loop may be taken.
func timesText(n int) string {
	if n == 1 {
		return "at most once"
	}
	return fmt.Sprintf("at most %d times", n)
}

// conditionText says when a transition is taken: its tier, which is its priority, if there are
// several, its outcome and its condition.
//
// For two tiers with priorities 1 and 2, the second without a condition, the texts are "1: total > 100" and "2: else". With one tier there
// are no numbers, and a transition that is always taken on success says nothing.
func conditionText(n *compiled.Node, t *compiled.Transition) string {
	// tiers are those among which the transition is tried.
	tiers, text := n.Success, ""
	switch t.Outcome {
	case workflow.OnError:
		tiers, text = n.Failure, "on error"
	case workflow.OnAlways:
		text = "always"
	case workflow.OnSuccess:
	}
	if len(t.Errors) > 0 {
		text = "on " + strings.Join(t.Errors, ", ")
	}
	tier := slices.IndexFunc(tiers, func(tier []*compiled.Transition) bool { return slices.Contains(tier, t) })
	switch source := strings.Join(strings.Fields(t.Transition.Condition), " "); {
	case source != "" && text != "":
		text += " if " + source
	case source != "":
		text = source
	// Alone in a later tier, it is taken when nothing before it was.
	case text == "" && tier > 0 && len(tiers[tier]) == 1 && !t.Fans():
		text = "else"
	}
	// Where there are several tiers, the priority says which is tried first.
	if len(tiers) > 1 && tier >= 0 {
		text = strings.TrimSpace(fmt.Sprintf("%d: %s", t.Priority, text))
	}
	return text
}

// fanText says how many branches a transition makes, and in which group.
//
// ×3 → quotes ≤2 stands for three branches in the group quotes; at most two of them work at once.
func fanText(t *compiled.Transition) string {
	var text string
	switch {
	case t.Foreach != nil:
		text = "each " + strings.Join(strings.Fields(t.Foreach.Collection), " ")
	case t.SpawnCount > 0:
		text = fmt.Sprintf("×%d", t.SpawnCount)
	default:
		text = "branch"
	}
	if t.SiblingGroup != "" {
		text += " → " + t.SiblingGroup
	}
	if t.MaxConcurrency > 0 {
		text += fmt.Sprintf(" ≤%d", t.MaxConcurrency)
	}
	return text
}

// joinText says which group a join waits for, and how many of its branches.
//
// For a join of two branches of the group quotes it is "2 of quotes". The number counts branches, not tokens.
func joinText(g *compiled.GroupSpec) string {
	switch s := g.Sync.Strategy; s {
	case workflow.All:
		return "all of " + g.Name
	case workflow.Any:
		return "first of " + g.Name
	default:
		return fmt.Sprintf("%d of %s", s.Quorum(), g.Name)
	}
}

// A Run is how a run stands.
//
// It may also be the sum of several runs of one definition; then ID is "" and Status and Seq do not count. Tokens have the live ones
// and those that have ended.
type Run struct {
	ID     workflow.RunID
	Status workflow.RunStatus
	Seq    int64 // of the last record
	Tokens map[workflow.NodeID]map[workflow.TokenStatus]int
	// Taken says of several runs how many of them took each transition; nil says nothing of it.
	Taken map[workflow.TransitionID]int
	// Counted is how many runs Taken is of.
	Counted int
	// Reached says of several runs how many of them came to each node, of Runs; nil says nothing of it.
	Reached map[workflow.NodeID]int
	Runs    int
	// Reported says what the results of each node have reported, such as cost 0.5.
	Reported map[workflow.NodeID]string
}

// shares are the steps of an edge's width, by how many of the runs took it.
const shares = 4

// reachedText says how many runs came to a node.
func (r *Run) reachedText(id workflow.NodeID) string {
	return fmt.Sprintf("%s of %s runs", GroupDigits(r.Reached[id]), GroupDigits(r.Runs))
}

// markTaken says at an edge how many runs took it.
//
// It is called once for each edge, after newEdge, and only if the runs were counted at all: an edge that none of them took is drawn as
// never, for which test coverage looks, the others the wider the more of them took it.
func (e *edge) markTaken(runs, counted int) {
	if counted > 0 {
		e.share = min((runs*shares+counted-1)/counted, shares)
	}
	text := fmt.Sprintf("in %s runs", GroupDigits(runs))
	switch runs {
	case 0:
		text, e.never = "in no run", true
	case 1:
		text = "in one run"
	}
	e.label = append(e.label, text)
	if e.full != "" {
		e.full += ", "
	}
	e.full += "taken " + text
}

// String says in a line which run it is.
func (r *Run) String() string {
	return fmt.Sprintf("run %s %v at record %d", cleanText(string(r.ID)), r.Status, r.Seq)
}

// worstStanding returns the most pressing of what there is.
//
// The order of the constants is that of urgency, so the first that is not 0 is it; false if there is no token.
func (t Tally) worstStanding() (Standing, bool) {
	for s, n := range t {
		if n > 0 {
			return Standing(s), true
		}
	}
	return 0, false
}

// countTexts returns the counts in words.
//
// Titles and outlines show them: 3 done, 1 failed.
func (t Tally) countTexts() []string {
	var out []string
	for _, s := range Reading {
		if t[s] > 0 {
			out = append(out, fmt.Sprintf("%s %s", GroupDigits(t[s]), s))
		}
	}
	return out
}

// standings returns what there is, in the order of texts.
//
// paintNode goes by it: the last lines of a node are markedTexts, one for each of these.
func (t Tally) standings() (out []Standing) {
	for _, s := range Reading {
		if t[s] > 0 {
			out = append(out, s)
		}
	}
	return out
}

// markedTexts returns the counts in words, each behind its symbol.
//
// They are lines of a node in drawings, where a symbol is seen before a word is read.
func (t Tally) markedTexts() []string {
	var out []string
	for _, s := range Reading {
		if t[s] > 0 {
			out = append(out, fmt.Sprintf("%s %s %s", standingSymbols[s], GroupDigits(t[s]), s))
		}
	}
	return out
}

// GroupDigits returns a whole number with a comma before each three digits.
//
// n is of any integer type, and not negative: a minus would count as a digit.
func GroupDigits(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
