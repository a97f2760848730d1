package planning

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Version is the version of the planner, which each record has. It is raised when the same
// message may be answered by other decisions, or by events that tell other things, so that a
// replay which differs can say why. From 1 to 2 the same is decided, and events tell more
// (decision.DetailedSince). From 2 to 3 cancels and CancelNodes also end tokens that wait for
// their siblings, where they name the node that the join leads to; a wait fails that would
// last more than 200 years; and a failure at an end node has the cause that was caught on the
// way there. From 3 to 4 the failure of a child run keeps its cause in the parent, and active
// counts a token that waits for its siblings at the node of their join. From 4 to 5 a patch is
// refused also where a group that has fired waits for an open group alone, the time of a join
// ends with its last arrival, and a rerun notes all results that it cannot keep. From 5 to 6 a
// wait for time alone keeps the result, also null, if its until reads it; a patch is refused
// that needs a result which a wait or an open group has not kept, or adds a lock or a merge too
// late; a heartbeat ends the time for heartbeats that a patch has removed, a time-out leaves out
// a time that is gone, AddBranch refuses an item that nothing could read, Retry and Skip also
// find a task that a pause holds back from its next attempt, a run that fails at a limit as it
// starts keeps its deadline, the instant of its schedule and its trace, a node of a dag begins with the
// failure whose transition lets it start, a group that fires without an arrival
// counts for the first of its transitions, what a join tolerates is the cause of an end only for the
// token that continues behind it, the code and the message of an end see the result that its token came
// with, the failure of a child says who has cancelled it, and that of a foreach is short. A record is
// planned again by its own rules where planLike is asked.
//
// Committed records are applied as they stand, so runs go on; but replay, Import and Why plan
// journals again, and TestGolden holds the planner to the journals of every earlier version in
// the archives. So decide as before for runs that began before, or note in the changelog which
// journals differ. A record of a newer planner is refused with ErrVersion.
const Version = 6

// planLike returns the version by whose rules to plan: that of the record, where one is planned
// again, so that it comes to the same.
func (p *planner) planLike() int { return rulesOf(p.s) }

func rulesOf(s *state.State) int { return cmp.Or(s.Rules, Version) }

// Step plans the answer of a run in state s to message m at instant now, which
// is in UTC and whole milliseconds. The state's Epoch is that of the engine
// that plans.
//
// An error refuses the message: nothing changes. It is state.ErrStale for a
// result whose attempt does not run, state.ErrRunNotFound before a Start,
// state.ErrEnded, state.ErrSuspended, state.ErrNotLive or state.ErrAmbiguous. A plan without decisions and
// without error says that the message was taken before.
//
// An actor calls it with each message, applies the plan to its own state, commits both and
// only then lets the effects out. A plan whose commit is lost has done nothing; and since it is
// a pure function of its arguments, a record that is replayed comes to the same decisions.
func Step(s *state.State, m state.Message, now time.Time) (decision.Plan, error) {
	return planMessage(s, m, now, nil)
}

// planMessage is Step, and notes in routes, unless that is nil, which transitions are taken.
func planMessage(s *state.State, m state.Message, now time.Time, routes *[]Route) (decision.Plan, error) {
	if err := admitMessage(s, m); err != nil {
		return decision.Plan{}, err
	}
	// All planning is on an overlay, so that a plan which is refused or given up leaves
	// nothing behind.
	p := &planner{s: s.Overlay(), now: now, decisions: make([]decision.Decision, 0, usualPlan), budget: newBudget(s.Graph), routes: routes, explains: routes != nil}
	defer p.s.Discard()
	p.settled = leavesJoins(m)
	if err := p.takeMessage(m); err != nil {
		return decision.Plan{}, err
	}
	// The message itself has been dealt with; what follows from it is done here, until the
	// run rests.
	p.drainWork()
	if _, forks := m.(state.RunForked); forks && p.budget.limit != nil {
		return decision.Plan{}, p.budget.limit // there is no run yet that could fail
	}
	// A plan that has met no bound is the answer. A plan that has met one is thrown away
	// whole: the run fails instead.
	if p.budget.limit == nil {
		return decision.Plan{Decisions: p.decisions, Trace: p.trace, Blobs: p.blobs, Unkept: p.unkept}, nil
	}
	if routes != nil {
		*routes = nil // what was taken is not committed
	}
	return p.failAtLimit(s, m), nil
}

// leavesJoins reports whether the joins: synchronize that could not fire before a message can do so only by what changes
// in their branches. A patch changes the joins, and a fork is made of a run as it was.
func leavesJoins(m state.Message) bool {
	switch m.(type) {
	case state.Patch, state.RunForked:
		return false
	default:
		return true
	}
}

// usualPlan is how many decisions most plans have at most.
const usualPlan = 4

// admitMessage refuses messages that the run's status does not allow. A run begins with Start
// and takes it once: whether a second Start is a repetition of the first is for the engine to
// say, which knows the input of both. A suspended run takes only what may end that; and a
// fork may be made of it.
func admitMessage(s *state.State, m state.Message) error {
	_, starts := m.(state.Start)
	switch {
	case starts != (s.Status == workflow.RunCreated):
		if starts {
			return state.ErrRunExists
		}
		return fmt.Errorf("%w: %q", state.ErrRunNotFound, string(s.Run))
	case s.Status.Final():
		return admitEnded(s, m)
	case s.Status == workflow.RunSuspended:
		switch m.(type) {
		case state.Cancel, state.Resume, state.RunForked:
			return nil
		default:
			return state.ErrSuspended
		}
	}
	return nil
}

// admitEnded answers messages to a run that has ended: those that were taken before, or have
// nothing left to do, are no error. A caller that repeats a call because its answer was lost
// must get that answer, also if that very call has ended the run.
func admitEnded(s *state.State, m state.Message) error {
	switch m := m.(type) {
	case state.Cancel, state.AlarmFired, state.Stall, state.RunGrown:
		return nil
	case state.TaskCompleted:
		return repeatedOrStale(s, attemptKey{m.Token, m.Attempt, m.Epoch}, true)
	case state.TaskFailed:
		return repeatedOrStale(s, attemptKey{m.Token, m.Attempt, m.Epoch}, false)
	case state.TaskSnoozed, state.Heartbeat:
		return state.ErrStale
	default:
		if repeatsCall(s, m) {
			return nil
		}
		return state.ErrEnded
	}
}

// repeatsCall reports whether a message has come before, by the id that its sender gave it.
func repeatsCall(s *state.State, m state.Message) bool {
	switch m := m.(type) {
	case state.Signal:
		return m.ID != "" && s.KnowsSignal(m.ID)
	case state.Ballot:
		return s.KnowsCall(state.VoteIDs, m.ID)
	case state.AddBranch:
		return s.KnowsCall(state.BranchIDs, m.ID)
	default:
		return false
	}
}

// A planner accumulates decisions, folding each into its overlay.
//
// The queues are worked off by drainWork. Each entry was true when it was put there and may
// no longer be: a token may have been cancelled before it begins, a group decided before its
// branches start. Each step looks again at the state before it acts.
//
// A fork has the budget in common with its planner and everything else of its own.
type planner struct {
	s         *state.State
	now       time.Time
	decisions []decision.Decision
	explains  bool                     // somebody asks why
	trace     []decision.Note          // why
	noted     int                      // bytes of the trace
	newGroups []newGroup               // groups just made, to be decided or begun
	entries   []entry                  // tokens that begin at their nodes, in order
	touched   []workflow.Scope         // branches that may have arrived or ended
	arrived   []joinPlace              // nodes' joins at which a token has come to wait
	blobs     []decision.Blob          // to which the decisions refer
	passed    map[workflow.GroupID]int // by group: no branch before this index begins any more
	budget    *budget                  // shared by all forks
	settled   bool                     // no join: synchronize could fire but for what has moved
	moved     map[workflow.Scope]bool  // branches in which, or inside which, something has changed since then
	reach     reachCache
	routes    *[]Route          // that are taken; nil if nobody asks
	ends      *[]state.KeptEnd  // of the nodes that complete; nil if nobody asks
	unkept    []workflow.NodeID // see decision.Plan
}

// An entry is a token about to begin at its node. It is not a decision, since nothing of it
// outlives the plan: when the plan is committed every token has begun, waits or has ended.
type entry struct {
	token  workflow.TokenID
	result any // of the node that was left
}

// A newGroup is a group just made, with the result that its branches begin with.
type newGroup struct {
	group  workflow.GroupID
	result any
}

// decide makes a decision and folds it in. A run that has ended, or a plan that
// has reached its bound, takes no further one.
//
// That decisions are folded in at once is what lets later rules see the effect of earlier
// ones: a join counts the branch that has just arrived, a lock that was taken is taken.
// Nothing is ever taken back; what may have to be is tried on a fork.
func (p *planner) decide(d decision.Decision) {
	if p.hasStopped() {
		return
	}
	if len(p.decisions) >= limits.MaxPlan {
		p.exceedLimit("plan", limits.MaxPlan, "decisions for one message")
		return
	}
	p.budget.allowed += limits.DecisionCost
	p.budget.pacer.Spend(10)
	decision.Evolve(p.s, d)
	p.decisions = pace.Push(p.decisions, d)
}

// hasStopped reports whether nothing more is decided. Every loop asks it, because a decision
// in its body may have ended the run or the plan.
func (p *planner) hasStopped() bool { return p.budget.limit != nil || p.s.Status.Final() }

// failAtLimit returns the plan that fails the run at a bound, in place of the plan that
// reached it. A limit on tokens or on the plan is one of the run: no node could catch it,
// since what the plan was about to do is more than may be done. If the plan was the start,
// the run starts first, with its input, so that it is known why it failed.
func (p *planner) failAtLimit(s *state.State, m state.Message) decision.Plan {
	failing := &planner{s: s.Overlay(), now: p.now, trace: p.trace, budget: newBudget(s.Graph)}
	if start, ok := m.(state.Start); ok {
		d := failing.startOf(start)
		if failing.planLike() < 6 {
			d.Due, d.ScheduledAt, d.Trace = time.Time{}, time.Time{}, nil
		}
		failing.decide(d)
	}
	if s.Status == workflow.RunSuspended {
		failing.decide(decision.ResumeRun{})
	}
	failing.decide(decision.FailRun{Failure: *p.budget.limit, At: p.now})
	return decision.Plan{Decisions: failing.decisions, Trace: failing.trace}
}

// addNote says why, in a text. The text is only made if somebody asks, since most plans are
// made for nobody to read.
func (p *planner) addNote(t workflow.TokenID, tr workflow.TransitionID, format string, args ...any) {
	if p.explains {
		p.keepNote(decision.Note{Token: t, Transition: tr, Text: fmt.Sprintf(format, args...)})
	}
}

// addCondition says what the condition of a transition has come to, since it was evaluated
// at a cost.
func (p *planner) addCondition(t *compiled.Transition, v vars, result bool, cost int) {
	if !p.explains {
		return
	}
	p.keepNote(decision.Note{
		Token: v.token.ID, Transition: t.ID, Tier: t.Priority, Expression: t.Transition.Condition,
		Reads: readingsOf(t.Condition, v), Result: result, Cost: cost,
	})
}

// keepNote adds a note. Beyond a bound, the reasons of one message are not kept. The bounds
// are for plans of very many conditions, which are made within MaxPlan all the same.
func (p *planner) keepNote(n decision.Note) {
	if len(p.trace) >= limits.MaxNotes || p.noted > limits.MaxNoteBytes {
		return
	}
	p.noted += len(n.String())
	p.trace = append(p.trace, n)
}

// forkPlanner returns a planner over p: what it writes is tentative until adopted.
//
// A node's output mapping and its routing are one act, and so are the merge, the list of
// errors and the firing of a join: later parts must see what earlier ones write, and if one
// fails nothing is written. The budget is shared, so that what a fork costs counts even if it
// is thrown away.
func (p *planner) forkPlanner() *planner {
	return &planner{s: p.s.Overlay(), now: p.now, budget: p.budget, explains: p.explains}
}

// adoptFork makes the decisions of a fork its own. They are writes. The caller takes over the
// queues of the fork, if there can be entries.
func (p *planner) adoptFork(q *planner) {
	p.budget.allowed -= limits.DecisionCost * len(q.decisions) // they were counted there
	for _, d := range q.decisions {
		p.decide(d)
	}
	p.blobs = append(p.blobs, q.blobs...)
}

// drainWork lets every created token begin and decides every branch that changed,
// until nothing is left to do, and then looks whether the run is complete. A new
// group comes first: its join may decide before its branches begin.
//
// After that come the tokens that are to begin, in the order in which they were made; then
// the joins of nodes that they have reached, and the locks that were given back. The branches
// that changed come when no token is left that might still do something in them. A join:
// synchronize asks whether anything can still reach it, which is known only at rest, so that
// it is last. Each step may fill any of the queues again, and the loop ends because every
// round decides something or empties a queue, and a plan has at most MaxPlan decisions.
func (p *planner) drainWork() {
	for !p.hasStopped() {
		switch {
		case len(p.newGroups) > 0:
			f := p.newGroups[0]
			p.newGroups = p.newGroups[1:]
			p.startGroup(f)
		case len(p.entries) > 0:
			e := p.entries[0]
			p.entries = p.entries[1:]
			p.beginToken(e)
		case len(p.arrived) > 0:
			at := p.arrived[0]
			p.arrived = p.arrived[1:]
			p.fireAllJoin(at)
		case p.grantFreedLocks():
		case p.grantBudget():
		case len(p.touched) > 0:
			sc := p.touched[0]
			p.touched = p.touched[1:]
			p.branchChanged(sc)
		case p.fireSynchronizing():
		default:
			p.finishIfDone()
			return
		}
	}
}

// grantFreedLocks gives the locks that have become free to those who wait for them, and
// reports whether there were any. A lock is free when the token that held it has left its
// node, whatever made it leave: nobody need say so, and none is forgotten.
func (p *planner) grantFreedLocks() bool {
	freed := p.s.TakeFreedLocks()
	for _, lock := range freed {
		p.grantLock(lock)
	}
	return len(freed) > 0
}

// takeMessage plans what the message itself asks for. An error refuses the message, whatever
// was decided before it: the caller then drops the overlay.
func (p *planner) takeMessage(m state.Message) error {
	if p.s.Status.Final() {
		return nil
	}
	switch m := m.(type) {
	case state.Start:
		return p.startRun(m)
	case state.TaskCompleted:
		return p.taskCompleted(m)
	case state.TaskFailed:
		return p.taskFailed(m)
	case state.TaskSnoozed:
		return p.taskSnoozed(m)
	case state.Heartbeat:
		return p.taskHeartbeat(m)
	case state.AlarmFired:
		p.expireDue(time.UnixMilli(m.At).UTC())
		return nil
	case state.Cancel:
		p.decide(decision.CancelRun{Failure: workflow.Failure{Code: workflow.CodeCancelled, Message: m.Reason, By: m.Act.By, Permanent: true}, At: p.now})
		return nil
	case state.Retry:
		return p.retryNow(m)
	case state.Skip:
		return p.skipTask(m)
	case state.Suspend:
		p.decide(decision.SuspendRun{Failure: workflow.Failure{Code: workflow.CodeInternal, Message: m.Cause, Permanent: true}})
		return nil
	case state.Resume:
		return p.resumeRun(m)
	case state.Pause:
		return p.pauseRun(m)
	case state.Signal:
		return p.deliverSignal(m)
	case state.Ballot:
		return p.addVote(m)
	case state.CancelNodes:
		return p.cancelNodes(m)
	case state.AddBranch:
		return p.addBranch(m)
	case state.CloseGroup:
		return p.closeGroup(m)
	case state.Patch:
		return p.patchRun(m)
	case state.Raise:
		return p.raiseLimits(m)
	case state.RunForked:
		return p.forkRun(m)
	case state.Stall:
		return p.failStalled(m)
	case state.RunGrown:
		p.failGrown(m)
		return nil
	case state.ChildEnded:
		return p.childEnded(m)
	case state.ChildAsks:
		return p.childAsks(m)
	default:
		panic(fmt.Sprintf("planning: unknown %T", m))
	}
}
