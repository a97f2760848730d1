package planning

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A patchCheck finds whether a run can continue by another definition.
//
// It refuses if the state refers to parts that the new definition no longer has, or has in
// another meaning: a token's node, the transition behind which it waits, the spawns of a live
// group. Parts that have ended concern nobody, and parts that have not begun will begin by
// the new rules. The first problem is the one told.
type patchCheck struct {
	s        *state.State
	like     int // the version of the planner
	old, new *compiled.Graph
	pins     state.Pins
	steps    []state.Step // of a dag, as they stand then
}

// checkAll makes all checks. The check of a dag also finds the steps that the patch changes.
func (c *patchCheck) checkAll() error {
	for _, check := range []func() error{c.checkIdentity, c.checkSubworkflows, c.checkTokens, c.checkGroups, c.checkDAG} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// refusePatch returns the error of a patch as a whole, at a place of the document that
// patches see.
func refusePatch(path, format string, args ...any) error {
	return &workflow.PatchError{Op: -1, Path: path, Message: fmt.Sprintf(format, args...)}
}

// nodePath returns the place of a node in that document.
func nodePath(id workflow.NodeID) string { return "/nodes/" + escapePointer(string(id)) }

// transitionPath returns the place of a transition in that document.
func transitionPath(id workflow.TransitionID) string {
	return "/transitions/" + escapePointer(string(id))
}

// checkIdentity keeps what a run is known by.
func (c *patchCheck) checkIdentity() error {
	was, is := c.old.Definition, c.new.Definition
	switch {
	case was.Name != is.Name:
		return refusePatch("/name", "the name of a run's definition cannot be patched")
	case was.Version != is.Version:
		return refusePatch("/version", "the version of a run's definition cannot be patched: patches are counted as revisions")
	case was.Mode != is.Mode:
		return refusePatch("/mode", "the mode of a run's definition cannot be patched")
	}
	return nil
}

// checkSubworkflows finds nodes whose child definition nobody has looked up. Definitions are
// pinned so that a child never depends on what was published in the meantime; the caller
// looks up those that a patch adds, and sends them with it.
func (c *patchCheck) checkSubworkflows() error {
	pinned := map[state.Pin]bool{}
	for _, pin := range c.pins {
		pinned[state.Pin{Name: pin.Name, Version: pin.Version}] = true
	}
	for i := range c.new.Definition.Nodes {
		n := &c.new.Definition.Nodes[i]
		if n.Subworkflow == nil {
			continue
		}
		for _, s := range state.Pinned(n.Subworkflow) {
			if !pinned[state.Pin{Name: s.Name, Version: s.Version}] {
				return refusePatch(nodePath(n.ID)+"/subworkflow", "the definition %q is not pinned", s.Name)
			}
		}
	}
	return nil
}

// checkTokens finds live tokens that could not continue from their nodes.
func (c *patchCheck) checkTokens() error {
	for _, id := range c.s.LiveTokens() {
		if err := c.checkToken(c.s.Token(id)); err != nil {
			return err
		}
	}
	return nil
}

// checkToken refuses the patch if the token waits for something that the new definition has taken away or changed:
// its node, the node's kind, its lock or its join, or the transition by which the token arrived.
func (c *patchCheck) checkToken(t *state.Token) error {
	path, was, is := nodePath(t.Node), c.old.Node(t.Node), c.new.Node(t.Node)
	switch {
	case is == nil:
		return refusePatch(path, "%v stands there", t.ID)
	case was.Kind != is.Kind:
		return refusePatch(path, "%v stands there: the node stays a %s", t.ID, was.Kind)
	case was.Lock != is.Lock && (t.Holds != "" || t.Status == workflow.WaitingForLock):
		return refusePatch(path+"/lock", "%v holds the lock or waits for it", t.ID)
	case was.Lock != is.Lock && is.Lock != "" && hasBegun(t) && t.Status != workflow.WaitingForSiblings && c.like >= 6:
		return refusePatch(path+"/lock", "%v has begun there without the lock, and its next attempt would not wait for it", t.ID)
	case (was.Join == workflow.JoinNone) != (is.Join == workflow.JoinNone) && (t.Status == workflow.WaitingForJoin || t.Status == workflow.Pending):
		return refusePatch(path+"/join", "%v waits there", t.ID)
	}
	// A token that has a Via waits at a join behind that transition, or is about to.
	if t.Via == "" {
		return c.checkWaiting(t, was, is)
	}
	path, before, via := transitionPath(t.Via), c.old.Transition(t.Via), c.new.Transition(t.Via)
	switch {
	case via == nil:
		return refusePatch(path, "%v waits at its end", t.ID)
	case via.To != before.To:
		return refusePatch(path+"/to", "%v waits at its end", t.ID)
	case groupName(via.Joins) != groupName(before.Joins):
		return refusePatch(path+"/synchronization", "%v waits there for the branches of %q", t.ID, groupName(before.Joins))
	case t.Status == workflow.WaitingForSiblings && before.Joins.Sync.Merge == nil && via.Joins.Sync.Merge != nil && c.like >= 6:
		return refusePatch(path+"/synchronization/merge", "%v waits there and has brought no value: a merge would come too late", t.ID)
	}
	return nil
}

// checkWaiting finds a token that its new node would not know what to do with: it
// waits for another child, has not kept what is asked for now, or has come by a
// transition that leads elsewhere now.
func (c *patchCheck) checkWaiting(t *state.Token, was, is *compiled.Node) error {
	path := nodePath(t.Node)
	switch {
	case was.Choice == nil && is.Choice != nil && hasBegun(t):
		return refusePatch(path, "%v has begun there: an expression that chooses would come too late", t.ID)
	case t.Status == workflow.WaitingForChild && !sameChild(t, was, is):
		return refusePatch(path+"/subworkflow", "the child of %v runs", t.ID)
	case is.AsksResult && c.lacksResult(t, was, is):
		return refusePatch(path, "%v stands there, and the result that it came with was not kept: result cannot be asked for", t.ID)
	}
	// The first token of a branch knows its transition by the group alone, see arrivedVia.
	g := c.s.Group(t.Scope.Group)
	if t.Status != workflow.Pending || is.Join == workflow.JoinNone || g == nil || g.TokenOf(t.Scope.Branch) != t.ID {
		return nil
	}
	if id, _ := g.SpawnOf(t.Scope.Branch); c.new.Transition(id) != nil && c.new.Transition(id).To != t.Node {
		return refusePatch(transitionPath(id)+"/to", "%v has not begun at %q, where it waits for other transitions", t.ID, string(t.Node))
	}
	return nil
}

// sameChild reports whether the child that a token waits for is still the one of its node.
func sameChild(t *state.Token, was, is *compiled.Node) bool {
	before, after := t.SubworkflowAt(was), t.SubworkflowAt(is)
	return before.Name == after.Name && before.Version == after.Version
}

// lacksResult reports whether a token waits that would be asked for the result of the node which it
// left, and has not kept it.
//
// A wait for time alone that planners up to version 5 began has kept none, unless it may be
// retried. It runs on as it is, and is evaluated once more if its wait or its time-out changes.
func (c *patchCheck) lacksResult(t *state.Token, was, is *compiled.Node) bool {
	if !was.AsksResult {
		return c.forgetsResult(t, is)
	}
	again := changesWait(was, is) || was.Node.Retry == nil && is.Node.Retry != nil
	return again && t.Status == workflow.WaitingForTimer && t.Input == nil && t.Remembered().Kept == nil && c.like >= 6
}

// forgetsResult reports whether a token that waits keeps the result of the node that it left
// only if its node asks for it. A task that is out or parked has its input already, and a
// held one keeps what it came with. A wait is evaluated once more in its next attempt.
func (c *patchCheck) forgetsResult(t *state.Token, n *compiled.Node) bool {
	switch operatedStatus(c.s, t) {
	case workflow.Pending:
		return !t.Held
	case workflow.WaitingForEvent, workflow.WaitingForTimer:
		return true
	case workflow.Retrying, workflow.WaitingForOperator:
		return n.Kind == workflow.KindWait && c.like >= 6
	default:
		return false
	}
}

// groupName returns the name of a group, "" of none.
func groupName(spec *compiled.GroupSpec) string {
	if spec == nil {
		return ""
	}
	return spec.Name
}

// checkGroups finds live groups whose branches could not continue.
//
// A group that has fired counts as long as stragglers live in it, or an open group that one of them waits for. Transitions that made
// branches must stay as makers of that group; a join can change its rules, and neither come
// nor go. Whether stragglers go on or are cancelled was decided when the group fired.
func (c *patchCheck) checkGroups() error {
	for id := workflow.GroupID(1); id < c.s.NextGroup; id++ {
		g := c.s.Group(id)
		if g.Phase != workflow.Gathering && g.Live == 0 && (c.like < 5 || g.Inner == 0) {
			continue
		}
		if c.new.Node(g.Node) == nil {
			return refusePatch(nodePath(g.Node), "the live group %v of %q began there", g.ID, g.Name)
		}
		for _, sp := range g.Spawns {
			was, is := c.old.Transition(sp.Transition), c.new.Transition(sp.Transition)
			switch path := transitionPath(sp.Transition); {
			case is == nil:
				return refusePatch(path, "it made branches of the live group %v of %q", g.ID, g.Name)
			case is.SiblingGroup != was.SiblingGroup:
				return refusePatch(path+"/siblingGroup", "it made branches of the live group %v of %q", g.ID, g.Name)
			case (is.Foreach == nil) != (was.Foreach == nil), is.Foreach != nil && is.Foreach.As != was.Foreach.As:
				return refusePatch(path+"/foreach", "it made branches of the live group %v of %q", g.ID, g.Name)
			}
		}
		if g.Phase == workflow.Fired && isJoined(c.old, g) && isJoined(c.new, g) {
			was, is := c.old.Groups[g.Name].Sync, c.new.Groups[g.Name].Sync
			if cancelsRemaining(was) != cancelsRemaining(is) {
				return refusePatch(transitionPath(c.new.Groups[g.Name].Joins[0].ID)+"/synchronization/remaining", "stragglers of the group %v of %q go on", g.ID, g.Name)
			}
		}
		if c.lacksGroupResult(g) {
			return refusePatch(transitionPath(g.Spawns[0].Transition), "it adds branches to the open group %v of %q, and the result that they would begin with was not kept: result cannot be asked for", g.ID, g.Name)
		}
		if isJoined(c.old, g) != isJoined(c.new, g) {
			return refusePatch("/transitions", "the group %v of %q is live: a patch neither adds its join nor takes it away", g.ID, g.Name)
		}
	}
	return nil
}

// lacksGroupResult reports whether branches that are added to an open group would ask for the
// result of the node that fanned out, and the group has not kept it.
func (c *patchCheck) lacksGroupResult(g *state.Group) bool {
	if g.Phase != workflow.Gathering || !g.Open || g.Result != nil || c.like < 6 {
		return false
	}
	first := g.Spawns[0].Transition
	was, is := c.old.Node(c.old.Transition(first).To), c.new.Node(c.new.Transition(first).To)
	return is.AsksResult && !was.AsksResult
}

// isJoined reports whether a transition of a definition joins a group.
func isJoined(g *compiled.Graph, group *state.Group) bool {
	spec := g.Groups[group.Name]
	return group.Name != "" && spec != nil && spec.Sync != nil
}

// checkDAG counts anew what leads to nodes that have not begun. Which transitions a
// node took that has ended is not kept: those stay as they are, and new ones
// must be taken whatever its result.
//
// A node that waits has counts of its incoming transitions, which are wrong when the patch
// adds or removes some. They are counted from the nodes that have ended. Say that node c
// waits and its transition from a was taken: if the patch adds one from b, which has
// completed, c has two resolved and two live.
func (c *patchCheck) checkDAG() error {
	if c.new.Definition.Mode != workflow.ModeDAG {
		return nil
	}
	// Each node of a dag has one token at most that began there, so that one status tells how
	// it ended.
	ends := map[workflow.NodeID]workflow.TokenStatus{}
	for id := workflow.TokenID(1); id < c.s.NextToken; id++ {
		if t := c.s.Token(id); t != nil {
			ends[t.Node] = t.Status
		}
	}
	for i := range c.new.Definition.Nodes {
		n := c.new.Node(c.new.Definition.Nodes[i].ID)
		x := c.s.Step(n.ID)
		if x.Phase != state.StepWaiting {
			continue
		}
		y := state.Step{Node: n.ID}
		if was := c.old.Node(n.ID); was != nil {
			y.Live = x.Live
			if err := c.checkIncoming(was, n); err != nil {
				return err
			}
		}
		for _, t := range n.Incoming {
			from := c.s.Step(t.From)
			if from.Phase < state.StepDone {
				continue
			}
			y.Resolved++
			if before := c.old.Transition(t.ID); before != nil && before.From == t.From && before.To == t.To || from.Phase == state.StepSkipped {
				continue
			}
			taken, known := wouldBeTaken(t, ends[t.From])
			if !known {
				return refusePatch(transitionPath(t.ID), "%q has ended: a transition added to it has no condition and asks for no error", string(t.From))
			}
			if taken {
				y.Live++
			}
		}
		if x != y {
			c.steps = append(c.steps, y)
		}
	}
	return nil
}

// wouldBeTaken returns whether a node that ended so would have taken a transition. A
// condition cannot be asked any more, since the result of the node is not kept and data have
// changed.
func wouldBeTaken(t *compiled.Transition, end workflow.TokenStatus) (taken, known bool) {
	succeeded := end == workflow.Completed
	switch {
	case end == workflow.Cancelled:
		return false, true
	case t.Condition != nil || len(t.Errors) > 0 || t.Outcome == workflow.OnError:
		return false, false
	case t.Outcome == workflow.OnAlways:
		return true, true
	}
	return succeeded, true
}

// checkIncoming finds transitions from nodes that have ended to one that waits which a patch
// changes. Such a transition is resolved, and nobody knows any more which way it would have
// been under another rule.
func (c *patchCheck) checkIncoming(was, is *compiled.Node) error {
	for _, t := range was.Incoming {
		if c.s.Step(t.From).Phase != state.StepDone {
			continue
		}
		after := c.new.Transition(t.ID)
		if after == nil || !slices.Contains(is.Incoming, after) || !sameRule(t.Transition, after.Transition) {
			return refusePatch(transitionPath(t.ID), "%q has ended: what leads from there to %q stays", string(t.From), string(is.ID))
		}
	}
	return nil
}

// sameRule reports whether two transitions are taken on the same terms.
func sameRule(a, b *workflow.Transition) bool {
	return a.From == b.From && a.To == b.To && a.Condition == b.Condition && a.Outcome == b.Outcome && slices.Equal(a.Errors, b.Errors)
}
