package decision

import (
	"iter"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// FireGroup ends a group whose join continues: the tokens of the branches that
// arrived complete, and what still runs is cancelled, or runs on as stragglers.
//
// It is decided once per group. The decisions before it in the plan write the merged value
// and the tolerated failures; the ones behind it create the one continuation. Shortfall and
// TimedOut are only told: their consequences were decided before.
type FireGroup struct {
	Group     workflow.GroupID `json:"group"`
	Cancel    bool             `json:"cancel,omitzero"`
	Shortfall bool             `json:"shortfall,omitzero"` // fewer than the quorum
	TimedOut  bool             `json:"timedOut,omitzero"`  // because its time was up
}

// String implements fmt.Stringer.
func (d FireGroup) String() string {
	return newLine("fire-group", d.Group).addFlag("cancel", d.Cancel).addFlag("shortfall", d.Shortfall).addFlag("timed-out", d.TimedOut).String()
}

// evolveState completes the tokens that wait at the join. With Cancel it ends all
// others, with the groups within; without, they run on as stragglers, and the group
// keeps what its unstarted branches begin with.
func (d FireGroup) evolveState(s *state.State) {
	g := s.Group(d.Group)
	s.ReserveBranches(g.Total)
	for i := range g.Total {
		fireBranch(s, workflow.Scope{Group: g.ID, Branch: i}, d.Cancel)
	}
	next := *s.Group(d.Group)
	next.Phase, next.Due = workflow.Fired, never
	// Result and Caught are for branches that begin later. If there will be none, they are
	// not kept.
	if d.Cancel || next.Started == next.Total {
		next.Result, next.Caught = nil, nil
	}
	s.PutGroup(&next)
}

// toldEvents tells a shortfall that goes on as two events: that there was one, and that the
// join fired.
func (d FireGroup) toldEvents(s *state.State) []Event {
	done := groupEvent(s, workflow.EventFanInCompleted, d.Group)
	if d.TimedOut {
		done.Data["timedOut"] = true
	}
	if n := d.countWithdrawn(s); n > 0 {
		done.Data["withdrawn"] = int64(n)
	}
	if !d.Shortfall {
		return []Event{done}
	}
	return []Event{groupEvent(s, workflow.EventFanInShortfall, d.Group), done}
}

// countWithdrawn returns how many tokens are cancelled because the join fires. These are all
// that live in the group but the tokens that wait in branches which have arrived: those
// complete. A token that waits in a branch which has not arrived is cancelled with it.
func (d FireGroup) countWithdrawn(s *state.State) int {
	if !d.Cancel {
		return 0
	}
	g := s.Group(d.Group)
	n := g.Live
	for i := range g.Total {
		if b := s.Branch(workflow.Scope{Group: g.ID, Branch: i}); b.Status == state.BranchArrived {
			n -= b.Waiting
		}
	}
	return n
}

func (d FireGroup) withdrawnTokens(s *state.State) []workflow.TokenID {
	if !d.Cancel {
		return nil
	}
	return runningTokens(s, s.GroupTokens(d.Group)...)
}

// FailGroup ends a group that failed and cancels what lives in it. The failure
// is raised at the node that fanned out.
//
// Unlike a join that fires, it always cancels, whatever remaining says. The planner follows
// it with a token at that node, from which error transitions are tried, or with the failure
// of what encloses the group.
type FailGroup struct {
	Group     workflow.GroupID `json:"group"`
	Shortfall bool             `json:"shortfall,omitzero"` // fewer than the quorum
	TimedOut  bool             `json:"timedOut,omitzero"`  // because its time was up: so have those that waited
	Failure   workflow.Failure `json:"failure"`
}

// String implements fmt.Stringer.
func (d FailGroup) String() string {
	return newLine("fail-group", d.Group).addFlag("shortfall", d.Shortfall).addFlag("timed-out", d.TimedOut).addFailure(&d.Failure).String()
}

// evolveState lets tokens whose join has timed out end as timed out, before all others are
// cancelled.
func (d FailGroup) evolveState(s *state.State) {
	if d.TimedOut {
		expireWaiting(s, s.Group(d.Group))
	}
	closeGroup(s, d.Group, workflow.Broken)
}

func (d FailGroup) toldEvents(s *state.State) []Event {
	out := groupEvent(s, workflow.EventFanInFailed, d.Group)
	out.Data["error"] = FailureValue(&d.Failure)
	if d.TimedOut {
		out.Data["timedOut"] = true
	}
	if n := s.Group(d.Group).Live; n > 0 {
		out.Data["withdrawn"] = int64(n)
	}
	if d.Shortfall {
		return []Event{groupEvent(s, workflow.EventFanInShortfall, d.Group), out}
	}
	return []Event{out}
}

func (d FailGroup) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, s.GroupTokens(d.Group)...)
}

// AbandonGroup ends a group that does not continue: every branch of it ended by
// choice, or it has no join, or the branch around it was closed.
//
// No continuation follows and no failure is raised: that every branch ends by choice is no
// error.
type AbandonGroup struct {
	Group workflow.GroupID `json:"group"`
}

// String implements fmt.Stringer.
func (d AbandonGroup) String() string { return newLine("abandon-group", d.Group).String() }

func (d AbandonGroup) evolveState(s *state.State) {
	// The tokens that still live in it run on as stragglers.
	endGroup(s, d.Group, workflow.Abandoned)
}

func (d AbandonGroup) toldEvents(s *state.State) []Event {
	if spec := s.Graph.Groups[s.Group(d.Group).Name]; spec == nil || spec.Sync == nil {
		return nil // there is no fan-in to abandon
	}
	return []Event{groupEvent(s, workflow.EventFanInAbandoned, d.Group)}
}

func (AbandonGroup) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// CloseGroup lets a group take no further branches. Its join fires with what
// has arrived: now, or when nothing blocks it any more.
//
// The closing itself fires nothing; the planner decides the group right after it.
type CloseGroup struct {
	Group workflow.GroupID `json:"group"`
}

// String implements fmt.Stringer.
func (d CloseGroup) String() string { return newLine("close-group", d.Group).String() }

func (d CloseGroup) evolveState(s *state.State) {
	g := *s.Group(d.Group)
	g.Open, g.Closed = false, true
	s.PutGroup(&g)
}

func (d CloseGroup) toldEvents(s *state.State) []Event {
	return []Event{groupEvent(s, workflow.EventGroupClosed, d.Group)}
}

func (CloseGroup) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// ArmGroup sets when a group's join times out, or without Due stops its time.
//
// A join with remaining: block waits for the stragglers of its earlier occurrence. This wait does
// not count against its timeout: the time stops when stragglers block the join, and starts when
// the last of them has ended. A patch that changes the timeout sets a new Due.
type ArmGroup struct {
	Group workflow.GroupID `json:"group"`
	Due   time.Time        `json:"due,omitzero"`
}

// String implements fmt.Stringer.
func (d ArmGroup) String() string {
	return newLine("arm-group", d.Group).addTime("due", d.Due).addFlag("off", d.Due.IsZero()).String()
}

func (d ArmGroup) evolveState(s *state.State) {
	g := *s.Group(d.Group)
	g.Due = d.Due
	s.PutGroup(&g)
}

func (ArmGroup) toldEvents(*state.State) []Event                 { return nil }
func (ArmGroup) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// MergeBranches writes the merged value of a group's arrived branches into its origin's
// scope. Value is the result of the merge strategy and not the values of the branches: an
// applier writes it and need not know strategies. It stands before FireGroup: if it cannot be
// written, the group fails and does not fire. Without a Path the value is written nowhere: it
// is only the result that the token behind the join begins with.
type MergeBranches struct {
	Group  workflow.GroupID `json:"group"`
	Scope  workflow.Scope   `json:"scope,omitzero"`
	Path   []string         `json:"path,omitzero"`
	Append bool             `json:"append,omitzero"`
	Value  any              `json:"value,omitzero"`
	Blob   bool             `json:"blob,omitzero"` // Value is the reference to a Blob of the plan
}

// String implements fmt.Stringer.
func (d MergeBranches) String() string {
	return newLine("merge-branches", d.Group).addScope(d.Scope).addField("target", pathText(d.Path, d.Append)).addValue("value", d.Value).String()
}

func (d MergeBranches) evolveState(s *state.State) {
	if len(d.Path) > 0 {
		writeData(s, d.Scope, d.Path, d.Append, d.Value)
	}
}

func (d MergeBranches) toldEvents(s *state.State) []Event {
	out := groupEvent(s, workflow.EventBranchesMerged, d.Group)
	if len(d.Path) > 0 {
		out.Data["target"] = pathText(d.Path, d.Append)
	}
	return []Event{out}
}

func (MergeBranches) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// ListErrors writes the failures that a group's join tolerates. The value is a list of
// {index, code, message}, by index; an empty one if nothing failed.
type ListErrors struct {
	Group  workflow.GroupID `json:"group"`
	Scope  workflow.Scope   `json:"scope,omitzero"`
	Path   []string         `json:"path"`
	Append bool             `json:"append,omitzero"`
	Value  any              `json:"value,omitzero"`
}

// String implements fmt.Stringer.
func (d ListErrors) String() string {
	return newLine("list-errors", d.Group).addScope(d.Scope).addField("target", pathText(d.Path, d.Append)).addValue("value", d.Value).String()
}

func (d ListErrors) evolveState(s *state.State)                    { writeData(s, d.Scope, d.Path, d.Append, d.Value) }
func (ListErrors) toldEvents(*state.State) []Event                 { return nil }
func (ListErrors) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// fireBranch completes the tokens of a branch that wait at the join of a group which fires.
// The others are cancelled, or run on as stragglers. Without cancelling, tokens that wait in
// a branch which has not arrived complete as well: their nodes have completed, and the join
// that they wait for is over.
func fireBranch(s *state.State, sc workflow.Scope, cancels bool) {
	b := s.Branch(sc)
	for id := range b.Tokens.All() {
		t := s.Token(id)
		switch {
		case t.Status == workflow.WaitingForSiblings && (b.Status == state.BranchArrived || !cancels):
			completeWaiting(s, t)
		case cancels:
			endToken(s, t, workflow.Cancelled, nil, nil)
		}
	}
	if cancels {
		closeGroups(s, b.Groups.All())
	}
	forgetBranch(s, sc)
}

// expireWaiting ends the tokens that wait at a join whose time is up. The others, which had
// not come to the join, are cancelled and have not timed out.
func expireWaiting(s *state.State, g *state.Group) {
	for i := range g.Total {
		for id := range s.Branch(workflow.Scope{Group: g.ID, Branch: i}).Tokens.All() {
			if t := s.Token(id); t.Status == workflow.WaitingForSiblings {
				endToken(s, t, workflow.TimedOut, nil, nil)
			}
		}
	}
}

// closeGroup ends a group that does not continue, with all that lives in it. A group that had
// fired before keeps its phase, and loses its stragglers.
func closeGroup(s *state.State, id workflow.GroupID, phase workflow.Phase) {
	for i := range s.Group(id).Total {
		vacateBranch(s, workflow.Scope{Group: id, Branch: i})
	}
	endGroup(s, id, phase)
}

// closeGroups ends groups because the branch around them has ended: their joins
// never fire.
func closeGroups(s *state.State, ids iter.Seq[workflow.GroupID]) {
	for id := range ids {
		closeGroup(s, id, workflow.Abandoned)
	}
}

// endGroup notes how a group that does not continue has ended. A group that is no longer
// gathering has been decided, and stays as it is.
func endGroup(s *state.State, id workflow.GroupID, phase workflow.Phase) {
	g := *s.Group(id)
	if g.Phase == workflow.Gathering {
		g.Phase, g.Due, g.Result, g.Caught = phase, never, nil, nil
		s.PutGroup(&g)
	}
}

// groupEvent returns an event about a group, with its counters. The counters are those before
// the decision. The token is the one that fanned out.
func groupEvent(s *state.State, typ workflow.EventType, id workflow.GroupID) Event {
	g := s.Group(id)
	return Event{Type: typ, Token: g.Origin, Node: g.Node, Group: id, Data: map[string]any{
		"name": g.Name, "total": int64(g.Total), "arrived": int64(g.Arrived),
		"ended": int64(g.Ended), "failed": int64(g.Failed),
	}}
}
