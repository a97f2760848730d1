package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// addWaits adds what the live tokens wait for: tokens that wait alike at one node together,
// and groups that gather.
//
// A fan-out of 10,000 branches that wait for one task type is one Wait with a Count, and not 10,000
// lines. Tokens wait alike if node and status are the same and, where that is not the whole question,
// the text: two tokens that wait for different locks do not. Until is the earliest of them, Failure
// the first one that there is, and the other fields are of the first token.
func addWaits(x *Explanation, s *state.State, rejected rejections) {
	type kind struct {
		node workflow.NodeID
		of   workflow.TokenStatus
		more string
	}
	known, at := map[kind]int{}, map[workflow.NodeID]int{}
	told := newToldWaits(s)
	for _, t := range told.live {
		at[t.Node]++
		told.full = len(x.Waits) == MaxExplained
		w := waitOf(s, t, told)
		k := kind{t.Node, t.Status, ""}
		switch t.Status {
		case workflow.Pending, workflow.WaitingForTimer, workflow.WaitingForChild:
		default:
			k.more = w.For // these are different questions
		}
		i, ok := known[k]
		if !ok {
			if len(x.Waits) < MaxExplained {
				known[k] = len(x.Waits)
				x.Waits = append(x.Waits, w)
			}
			continue
		}
		have := &x.Waits[i]
		have.Count++
		have.Failure = cmp.Or(have.Failure, w.Failure)
		if have.Until.IsZero() || !w.Until.IsZero() && w.Until.Before(have.Until) {
			have.Until = w.Until
		}
	}
	for i := range x.Waits {
		w := &x.Waits[i]
		t := s.Token(w.Token)
		// A node names a token only while one alone stands there.
		target := shellWord(string(t.Node))
		if at[t.Node] > 1 {
			target = t.ID.String()
		}
		if t.Status == workflow.WaitingForEvent {
			text, kept := matchText(s, t)
			if w.For += text; kept > 0 {
				w.Rejected = rejected[t.Node]
			}
		}
		w.Try = commandsFor(s, t, w, target)
	}
	addEmptyGroups(x, s, told.siblings)
	slices.SortStableFunc(x.Waits, func(a, b Wait) int { return cmp.Compare(urgencyOf(&a), urgencyOf(&b)) })
}

// addEmptyGroups adds open groups in which no token lives: the run waits for further branches of them, or their end. The token is that which
// has fanned out.
func addEmptyGroups(x *Explanation, s *state.State, siblings siblingsWaits) {
	if s.OpenGroups() == 0 {
		return
	}
	for id := workflow.GroupID(1); id < s.NextGroup && len(x.Waits) < MaxExplained; id++ {
		g := s.Group(id)
		if g.Live > 0 || g.Phase != workflow.Gathering || !takesMore(g) {
			continue
		}
		of, try := siblings.waitIn(s, id), actOn(s.Run, "close", shellWord(g.Name))
		if s.Status == workflow.RunSuspended {
			try = actOn(s.Run, "resume")
		}
		x.Waits = append(x.Waits, Wait{
			Token: g.Origin, Count: 1, Place: string(g.Node) + branchText(s, g.Scope), Status: workflow.WaitingForSiblings, For: of.text, Until: of.until, Try: []string{try},
		})
	}
}

// takesMore reports whether a group only waits for further branches, or to be closed.
func takesMore(g *state.Group) bool { return g != nil && g.Open && g.UnresolvedBranches() == 0 }

// urgencyOf orders waits: what somebody must do comes first.
//
// Hopeless waits come first, since the run never ends without help; waits for other tokens last, since
// the waits of those tokens say more. A smaller number is earlier; equal ones stay in the order of
// their tokens.
func urgencyOf(w *Wait) int {
	switch {
	case w.Hopeless:
		return 0
	case w.Status == workflow.WaitingForOperator:
		return 1
	case w.Status == workflow.WaitingForApproval:
		return 2
	case w.Status == workflow.WaitingForEvent:
		return 3
	case w.Status == workflow.WaitingForSiblings, w.Status == workflow.WaitingForJoin, w.Status == workflow.WaitingForLock, w.Status == workflow.WaitingForBudget:
		return 5
	default:
		return 4
	}
}

// waitOf says what a live token waits for.
//
// The text is in For, to be read behind "waits for" or, if it begins with "to ", behind "waits". In a
// suspended run nothing moves, whatever the token waits for, so that is said first.
func waitOf(s *state.State, t *state.Token, told *toldWaits) Wait {
	w := Wait{Token: t.ID, Count: 1, Place: placeOf(s, t), Status: t.Status, Until: t.Alarm(), Failure: t.Failure}
	n := s.Graph.Node(t.Node)
	switch t.Status {
	case workflow.Pending:
		w.For = "to begin"
		if t.Held {
			w.For = "the run is paused"
		}
	case workflow.Dispatched:
		w.For = fmt.Sprintf("the result of task %s, attempt %d", t.TaskAt(n), t.Attempt)
	case workflow.Retrying:
		w.For = fmt.Sprintf("its next attempt, after attempt %d", t.Attempt)
	case workflow.WaitingForBudget:
		w.For = budgetText(s, n)
	case workflow.WaitingForOperator:
		if t.Remembered().Short {
			w.For = "an operator, who raises the limit or skips: there is no " + budgetText(s, n)
			break
		}
		w.For = fmt.Sprintf("an operator: attempt %d of %s has failed and was the last", t.Attempt, workText(t, n))
	case workflow.WaitingForApproval:
		w.For = approvalText(n.Approval, t.Votes)
	case workflow.WaitingForEvent:
		w.For = "the signal " + strings.Join(n.Events(), " or ")
	case workflow.WaitingForTimer:
		w.For = "its time"
	case workflow.WaitingForChild:
		w.Child = state.ChildID(s.Run, t.ID, t.Attempt)
		w.For = fmt.Sprintf("the child run %s", string(w.Child))
	case workflow.WaitingForLock:
		w.For = fmt.Sprintf("the lock %s", n.Lock)
		if holder := s.Token(s.LockHolder(n.Lock)); holder != nil {
			w.For += fmt.Sprintf(", which %v at %s holds", holder.ID, placeOf(s, holder))
		}
	case workflow.WaitingForSiblings:
		of := told.siblings.waitIn(s, t.Scope.Group)
		w.For, w.Until, w.Hopeless = of.text, of.until, of.hopeless
	case workflow.WaitingForJoin:
		w.For, w.Hopeless = told.joinText(t, n)
	case workflow.Completed, workflow.Failed, workflow.TimedOut, workflow.Cancelled: // not live
	}
	if s.Status == workflow.RunSuspended {
		w.For = "the run is suspended: " + w.For
	}
	return w
}

// workText names the work that a token at a node performs.
func workText(t *state.Token, n *compiled.Node) string {
	if n.Kind == workflow.KindSubworkflow {
		return "subworkflow " + t.SubworkflowAt(n).Name
	}
	return "task " + t.TaskAt(n)
}

// budgetText tells how far the limits are used up of what the run may report, of which the attempt needs a part.
func budgetText(s *state.State, n *compiled.Node) string {
	var parts []string
	reported, need := s.Reported.Total(), amount.FromFloats(n.Budget)
	for _, limit := range s.MetaLimits() {
		spent, _ := reported.Named(limit.Name)
		out, _ := s.Reserved().Named(limit.Name)
		part := fmt.Sprintf("%s: %v of %v is reported, %v set aside", limit.Name, spent, limit, out)
		if x, ok := need.Named(limit.Name); ok {
			part += fmt.Sprintf(", %v needed", x)
		}
		parts = append(parts, part)
	}
	return "room below the limits of the run (" + strings.Join(parts, "; ") + ")"
}

// matchText tells on which conditions a token takes the events for which it waits, and how many have come that it did not take. It is the
// same for all tokens of a node, and "" for one that takes any. It quotes no values: whoever sees the run may read it.
func matchText(s *state.State, t *state.Token) (text string, kept int) {
	n := s.Graph.Node(t.Node)
	var parts, names []string
	for _, name := range n.Events() {
		if ifs := matchesOf(n, name); ifs != nil {
			part := "if " + strings.Join(ifs, " or ")
			if len(n.Events()) > 1 {
				part = name + " " + part
			}
			parts, names = append(parts, part), append(names, name)
		}
	}
	if parts == nil {
		return "", 0
	}
	for range s.KeptSignalsOf(names...) {
		kept++
	}
	switch {
	case kept == 1:
		parts = append(parts, "1 kept signal did not match")
	case kept > 1:
		parts = append(parts, fmt.Sprintf("%d kept signals did not match", kept))
	}
	return " (" + strings.Join(parts, "; ") + ")", kept
}

// rejections are the last errors in the conditions on which nodes take events: an error there is no match. They may quote values.
type rejections map[workflow.NodeID]*workflow.Failure

// maxRejection bounds the text of an error in a condition.
const maxRejection = 300

// noteErrors keeps the errors among the decisions that have led to a state.
func (r rejections) noteErrors(s *state.State, made []decision.Decision) {
	for _, d := range made {
		if d, ok := d.(decision.RejectSignal); ok {
			if t := s.Token(d.Token); t != nil {
				d.Failure.Message = value.Shorten(d.Failure.Message, maxRejection)
				r[t.Node] = &d.Failure
			}
		}
	}
}

// matchesOf returns the conditions on which a node takes an event, each in one line; nil if it takes any of the name.
func matchesOf(n *compiled.Node, name string) (out []string) {
	for _, w := range n.Waits {
		switch {
		case w.Event != name:
		case w.Match == nil:
			return nil
		default:
			out = append(out, strings.Join(strings.Fields(w.WaitSpec.Match), " "))
		}
	}
	return out
}

// approvalText tells how the votes stand, and by whom. The votes against, and how many of them
// reject, are told only if there is one.
func approvalText(spec *workflow.ApprovalSpec, votes []state.Vote) string {
	var yes, no []string
	for _, v := range votes {
		if v.Approved {
			yes = append(yes, v.By)
		} else {
			no = append(no, v.By)
		}
	}
	text := fmt.Sprintf("people: %d of %d approvals", len(yes), spec.Quorum)
	if len(yes) > 0 {
		text += " (" + strings.Join(yes, ", ") + ")"
	}
	if len(no) > 0 {
		text += fmt.Sprintf(", %d of %d rejections (%s)", len(no), spec.RejectQuorum, strings.Join(no, ", "))
	}
	return text
}

// A siblingsWait says what the join of a group lacks, when that times out, and whether nothing can bring it.
// until is the group's time-out, zero without one. hopeless is certain: no token lives in the group
// that could still arrive, and no branch is left to begin.
type siblingsWait struct {
	text     string
	until    time.Time
	hopeless bool
}

// siblingsWaits are those of the groups that were looked at: all tokens that have arrived in one wait for the same.
// To count the tokens of a group takes time in proportion to them, which for each that has arrived
// would be the square.
type siblingsWaits map[workflow.GroupID]siblingsWait

// waitIn returns what the tokens wait for that have arrived in a group.
func (known siblingsWaits) waitIn(s *state.State, id workflow.GroupID) siblingsWait {
	w, ok := known[id]
	if !ok {
		w = siblingsWaitOf(s, id)
		known[id] = w
	}
	return w
}

// siblingsWaitOf counts what the join of a group has and lacks. Among the branches left, some are
// under way and some have not begun, because the group has a bound on how many run at once; begun
// leaves these out, since the text counts them apart. Two states look like a join that should have
// fired and has not: an open group, which takes more branches, and a group with live tokens of an
// earlier fan-out.
func siblingsWaitOf(s *state.State, id workflow.GroupID) siblingsWait {
	g := s.Group(id)
	if g == nil || s.Graph.Groups[g.Name] == nil || s.Graph.Groups[g.Name].Sync == nil {
		return siblingsWait{text: "its siblings"}
	}
	sync := s.Graph.Groups[g.Name].Sync
	left := g.UnresolvedBranches()
	running := runningIn(s, g.ID)
	begun := slices.DeleteFunc(slices.Clone(running), func(t *state.Token) bool { return t.Status == workflow.Pending && t.Scope.Group == id })
	text := fmt.Sprintf("%v %s (join %v at %s): %d of %d have arrived, %d under way%s, %d to begin, %d ended, %d failed",
		g.ID, g.Name, sync.Strategy, s.Graph.Groups[g.Name].To, g.Arrived, g.Total, g.RunningBranches(), placesText(" (", begun, parkedText(begun)+")"), max(left-g.RunningBranches(), 0), g.Ended, g.Failed)
	switch {
	case takesMore(g):
		return siblingsWait{text + "; it takes further branches until it is closed", g.Due, false}
	case left == 0 && g.Live > g.Arrived:
		return siblingsWait{text + "; what is left of an earlier fan-out blocks it", g.Due, false}
	default:
		return siblingsWait{text, g.Due, left > 0 && len(running) == 0 && g.Started == g.Total}
	}
}

// parkedText says how many of some tokens wait for an operator.
func parkedText(tokens []*state.Token) string {
	n := 0
	for _, t := range tokens {
		if t.Status == workflow.WaitingForOperator {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d parked", n)
}

// runningIn returns the tokens that live in a group and do not wait for their siblings there.
//
// Tokens in groups within count as well: a branch is everything that grew from it, and a token that
// waits at an inner join may still bring it to the outer one.
func runningIn(s *state.State, id workflow.GroupID) (out []*state.Token) {
	for _, live := range s.GroupTokens(id) {
		t := s.Token(live)
		if t.Live() && (t.Status != workflow.WaitingForSiblings || t.Scope.Group != id) {
			out = append(out, t)
		}
	}
	return out
}

// namedPlaces is how many nodes placesText names.
const namedPlaces = 3

// placesText says at which nodes some tokens stand, in the order of the first ones: which it is where one stands alone, or how
// many they are. It is "" for none.
//
// For example, with four tokens at two nodes: " (pack t7, ship ×3)". A token that stands alone is
// named by its id, as it can be typed into a command.
func placesText(before string, tokens []*state.Token, after string) string {
	var nodes []workflow.NodeID
	at := map[workflow.NodeID][]*state.Token{}
	for _, t := range tokens {
		if at[t.Node] == nil {
			nodes = append(nodes, t.Node)
		}
		at[t.Node] = append(at[t.Node], t)
	}
	var parts []string
	for _, n := range nodes[:min(len(nodes), namedPlaces)] {
		if some := at[n]; len(some) == 1 {
			parts = append(parts, fmt.Sprintf("%s %v", string(n), some[0].ID))
		} else {
			parts = append(parts, fmt.Sprintf("%s ×%d", string(n), len(some)))
		}
	}
	switch more := len(nodes) - len(parts); {
	case more > 0:
		parts = append(parts, fmt.Sprintf("%d more nodes", more))
	case len(parts) == 0:
		return ""
	}
	return before + strings.Join(parts, ", ") + after
}

// toldWaits are the waits that were looked at, with what is the same for all tokens.
// Without them each token that waits at a join would ask all live ones.
type toldWaits struct {
	s        *state.State
	live     []*state.Token
	siblings siblingsWaits
	joins    map[occurrence]joinWait
	sources  map[workflow.NodeID]map[workflow.NodeID]bool // the nodes from which a path leads to a node, with that itself
	full     bool                                         // no further kind of waits is told
}

// An occurrence of a join at a node is told by the transitions on which it has tokens: "+-" has the first and lacks the second.
type occurrence struct {
	node workflow.NodeID
	has  string
}

// A joinWait says what the join of a node lacks, and whether nothing can bring it.
type joinWait struct {
	text     string
	hopeless bool
}

func newToldWaits(s *state.State) *toldWaits {
	w := &toldWaits{s: s, siblings: siblingsWaits{}, joins: map[occurrence]joinWait{}, sources: map[workflow.NodeID]map[workflow.NodeID]bool{}}
	for _, id := range s.LiveTokens() {
		w.live = append(w.live, s.Token(id))
	}
	return w
}

// joinText says which incoming transitions a node's join lacks, and which tokens may bring each, and whether no live token can
// reach one of them any more. It is "" for a kind that is not told any more.
//
// A transition counts as there if a token waits in its line, in the same scope: tokens of another
// branch belong to another occurrence of the join. Two occurrences that have the same lack the same: each has a token
// at the node which the other counts.
func (w *toldWaits) joinText(t *state.Token, n *compiled.Node) (text string, hopeless bool) {
	key := occurrence{node: n.ID}
	for _, tr := range n.Incoming {
		if w.s.FirstInLine(state.WaitKey{Kind: state.LineJoin, Name: string(tr.ID), Scope: t.Scope}) != nil {
			key.has += "+"
		} else {
			key.has += "-"
		}
	}
	of, known := w.joins[key]
	if !known && !w.full {
		of = w.joinWaitOf(t, n, key.has)
		w.joins[key] = of
	}
	return of.text, of.hopeless
}

// joinWaitOf makes the text of a join that has some of the incoming transitions. Only join all can be hopeless: synchronize fires
// when nothing else can come, which is its own question.
func (w *toldWaits) joinWaitOf(t *state.Token, n *compiled.Node, there string) (of joinWait) {
	var has, lacks []string
	reached := w.listReachable(n.ID, t.Scope)
	for i, tr := range n.Incoming {
		if there[i] == '+' {
			has = append(has, string(tr.ID))
			continue
		}
		name := string(tr.ID)
		if n.Join == workflow.JoinAll && !reached[tr.From] {
			name += " (which nothing can bring any more)"
			of.hopeless = true
		} else {
			name += placesText(" (from ", w.comingTo(t, tr.From), ")")
		}
		lacks = append(lacks, name)
	}
	of.text = fmt.Sprintf("join %v: has %s; lacks %s", n.Join, strings.Join(has, ", "), strings.Join(lacks, ", "))
	return of
}

// comingTo returns the live tokens that stand where a path leads to a node, but those that wait at a join as one does: each
// may come to that node, conditions left out. It may name tokens that will go another way, and leaves none out.
func (w *toldWaits) comingTo(waits *state.Token, to workflow.NodeID) (out []*state.Token) {
	leads := w.sourcesOf(to)
	for _, t := range w.live {
		if leads[t.Node] && (t.Node != waits.Node || t.Scope != waits.Scope || t.Status != workflow.WaitingForJoin) {
			out = append(out, t)
		}
	}
	return out
}

// sourcesOf walks the transitions backwards from a node, every node once, so that loops end.
func (w *toldWaits) sourcesOf(to workflow.NodeID) map[workflow.NodeID]bool {
	if known := w.sources[to]; known != nil {
		return known
	}
	leads := map[workflow.NodeID]bool{to: true}
	for queue := []workflow.NodeID{to}; len(queue) > 0; queue = queue[1:] {
		n := w.s.Graph.Node(queue[0])
		if n == nil {
			continue
		}
		for _, tr := range n.Incoming {
			if !leads[tr.From] {
				leads[tr.From] = true
				queue = append(queue, tr.From)
			}
		}
	}
	w.sources[to] = leads
	return leads
}

// listReachable returns the nodes that live tokens stand at, or can come to by transitions, other
// than those that wait at the join of node at in a branch. Fan-outs and loops may bring tokens
// from anywhere, so that conditions and branches are left out: what is not reachable never comes.
//
// The caller takes a node that is missing here for one from which nothing comes any more. To err is
// allowed only towards "reachable", since "hopeless" makes a person close a group or cancel a node.
func (w *toldWaits) listReachable(at workflow.NodeID, sc workflow.Scope) map[workflow.NodeID]bool {
	s, seen := w.s, map[workflow.NodeID]bool{}
	var queue []workflow.NodeID
	for _, t := range w.live {
		if t.Node == at && t.Scope == sc && t.Status == workflow.WaitingForJoin || seen[t.Node] {
			continue
		}
		seen[t.Node] = true
		queue = append(queue, t.Node)
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ { // a fan-out may fail where it began
		if g := s.Group(id); g.Phase == workflow.Gathering && !seen[g.Node] {
			seen[g.Node] = true
			queue = append(queue, g.Node)
		}
	}
	for len(queue) > 0 {
		n := s.Graph.Node(queue[0])
		queue = queue[1:]
		if n == nil {
			continue
		}
		for _, tr := range n.Outgoing {
			if !seen[tr.To] {
				seen[tr.To] = true
				queue = append(queue, tr.To)
			}
		}
	}
	return seen
}
