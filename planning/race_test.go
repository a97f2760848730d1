package planning_test

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// raceKinds are what the branches of the race can be, as fields of a node.
var raceKinds = map[string]string{
	"task":   "task: work, heartbeat: 30s",
	"retry":  "task: work, retry: {maxAttempts: 2, initialInterval: 1h}",
	"parked": "task: work, retry: {maxAttempts: 1, exhausted: park}",
	"event":  "wait: {event: go}",
	"timer":  "wait: {for: 10s}",
	"people": "approval: {message: well}",
	"child":  "subworkflow: {name: kid}",
}

// raceStatus is the status of the token of a branch, by the branch's state.
var raceStatus = map[string]workflow.TokenStatus{
	"out": workflow.Dispatched, "retry": workflow.Retrying, "parked": workflow.WaitingForOperator, "held": workflow.Pending,
	"event": workflow.WaitingForEvent, "timer": workflow.WaitingForTimer, "people": workflow.WaitingForApproval,
	"child": workflow.WaitingForChild, "arrived": workflow.WaitingForSiblings, "ended": workflow.Cancelled,
}

// When timers and the join's timeout are due, from the beginning of a race.
const (
	timerDue = 10 * time.Second
	joinDue  = 5 * time.Second

	snoozeDue = time.Second
)

// A racer is a message that races, with what it must do.
type racer struct {
	name string
	kind string                                            // of the branch that it is for
	prep state.Message                                     // sent before the race
	join string                                            // fields of the join, if it needs any
	make func(t *state.Token, now time.Time) state.Message // for the token of a branch
	does func(m *raceModel, b int) verdict                 // with a run that goes on
}

// A verdict is how a message is answered.
type verdict struct {
	err  error // it is refused
	idle bool  // nothing changes; a result for another kind of token may be refused as well
}

var (
	accepted = verdict{}
	ignored  = verdict{idle: true}
)

func refusePatch(err error) verdict { return verdict{err: err} }

// racers is the vocabulary. A message that is added to package workflow needs an
// entry here.
var racers = []racer{
	{
		name: "Start", kind: "task",
		make: func(*state.Token, time.Time) state.Message { return state.Start{} },
		does: func(*raceModel, int) verdict { return refusePatch(state.ErrRunExists) },
	},
	{
		name: "TaskCompleted", kind: "task",
		make: func(t *state.Token, _ time.Time) state.Message {
			return state.TaskCompleted{Token: t.ID, Attempt: t.Attempt, Epoch: epoch0}
		},
		does: (*raceModel).completed,
	},
	{
		name: "TaskFailed", kind: "task",
		make: func(t *state.Token, _ time.Time) state.Message {
			return state.TaskFailed{Token: t.ID, Attempt: t.Attempt, Epoch: epoch0, Failure: workflow.Failure{Code: "bad", Permanent: true}}
		},
		does: (*raceModel).failed,
	},
	{
		name: "TaskSnoozed", kind: "task",
		make: func(t *state.Token, _ time.Time) state.Message {
			return state.TaskSnoozed{Token: t.ID, Attempt: t.Attempt, Epoch: epoch0, After: snoozeDue}
		},
		does: (*raceModel).snoozed,
	},
	{
		name: "Heartbeat", kind: "task",
		make: func(t *state.Token, _ time.Time) state.Message {
			return state.Heartbeat{Token: t.ID, Attempt: t.Attempt, Epoch: epoch0}
		},
		does: func(m *raceModel, b int) verdict {
			if x := m.branches[b]; x.state != "out" || x.again {
				return refusePatch(state.ErrStale)
			}
			return accepted
		},
	},
	{
		name: "ChildEnded", kind: "child",
		make: func(t *state.Token, _ time.Time) state.Message {
			return state.ChildEnded{Token: t.ID, Attempt: max(t.Attempt, 1), Status: workflow.RunCompleted}
		},
		does: func(m *raceModel, b int) verdict {
			if m.branches[b].state != "child" {
				return ignored
			}
			return m.arrive(b, "told")
		},
	},
	{
		name: "ChildAsks", kind: "child",
		make: func(t *state.Token, _ time.Time) state.Message {
			return state.ChildAsks{Token: t.ID, Attempt: max(t.Attempt, 1)}
		},
		does: func(m *raceModel, b int) verdict {
			if m.branches[b].state != "child" {
				return refusePatch(state.ErrStale)
			}
			return ignored
		},
	},
	{
		name: "AlarmFired", kind: "timer",
		make: func(_ *state.Token, now time.Time) state.Message {
			return state.AlarmFired{At: now.Add(timerDue).UnixMilli()}
		},
		does: func(m *raceModel, _ int) verdict { return m.alarm(timerDue) },
	},
	{
		name: "AlarmFired for the join", kind: "task", join: ", timeout: 5s, onTimeout: proceed_with_available",
		make: func(_ *state.Token, now time.Time) state.Message {
			return state.AlarmFired{At: now.Add(joinDue).UnixMilli()}
		},
		does: func(m *raceModel, _ int) verdict { return m.alarm(joinDue) },
	},
	{
		name: "Signal", kind: "event",
		make: func(*state.Token, time.Time) state.Message { return state.Signal{Name: "go", Early: true} },
		does: (*raceModel).signal,
	},
	{
		name: "Ballot", kind: "people",
		make: func(t *state.Token, _ time.Time) state.Message {
			return state.Ballot{Token: t.ID, By: "ann", Approved: true}
		},
		does: func(m *raceModel, b int) verdict {
			if m.branches[b].state != "people" {
				return refusePatch(state.ErrNotLive)
			}
			return m.arrive(b, "voted")
		},
	},
	{
		name: "Cancel", kind: "task",
		make: func(*state.Token, time.Time) state.Message { return state.Cancel{Reason: "enough"} },
		does: func(m *raceModel, _ int) verdict { m.end(workflow.RunCancelled); return accepted },
	},
	{
		name: "Pause", kind: "task",
		make: func(*state.Token, time.Time) state.Message { return state.Pause{} },
		does: (*raceModel).pause,
	},
	{
		name: "Resume", kind: "task", prep: state.Pause{},
		make: func(*state.Token, time.Time) state.Message { return state.Resume{} },
		does: (*raceModel).resume,
	},
	{
		name: "Resume of what runs", kind: "event",
		make: func(*state.Token, time.Time) state.Message { return state.Resume{} },
		does: (*raceModel).resume,
	},
	{
		name: "Suspend", kind: "task",
		make: func(*state.Token, time.Time) state.Message { return state.Suspend{Cause: "a fault"} },
		does: func(m *raceModel, _ int) verdict { m.run = workflow.RunSuspended; return accepted },
	},
	{
		name: "AddBranch", kind: "task",
		make: func(*state.Token, time.Time) state.Message { return state.AddBranch{Group: "g"} },
		does: (*raceModel).addBranch,
	},
	{
		name: "CloseGroup", kind: "task",
		make: func(*state.Token, time.Time) state.Message { return state.CloseGroup{Group: "g"} },
		does: (*raceModel).closeGroup,
	},
	{
		name: "CancelNodes", kind: "task",
		make: func(t *state.Token, _ time.Time) state.Message {
			return state.CancelNodes{Nodes: []workflow.NodeID{t.Node}}
		},
		does: (*raceModel).cancelNodes,
	},
	{
		name: "Patch", kind: "task",
		make: func(*state.Token, time.Time) state.Message {
			return state.Patch{Base: 1, Ops: []any{operation("add", "/limits", map[string]any{"loop": int64(500)})}}
		},
		does: func(m *raceModel, _ int) verdict {
			if m.patched {
				return refusePatch(state.ErrConflict)
			}
			m.patched = true
			return accepted
		},
	},
	{
		name: "Raise", kind: "task", // of a run without limits
		make: func(*state.Token, time.Time) state.Message {
			return state.Raise{Meta: amount.FromFloats(map[string]float64{"cost": 1})}
		},
		does: func(*raceModel, int) verdict { return refusePatch(state.ErrNotLive) },
	},
	{
		name: "Stall", kind: "task", // of a run that has moved since it was looked at
		make: func(*state.Token, time.Time) state.Message { return state.Stall{Idle: time.Hour} },
		does: func(*raceModel, int) verdict { return ignored },
	},
	{
		name: "RunGrown", kind: "task",
		make: func(*state.Token, time.Time) state.Message { return state.RunGrown{Bytes: 1 << 40} },
		does: func(m *raceModel, _ int) verdict {
			m.end(workflow.RunFailed)
			return accepted
		},
	},
	{
		name: "RunForked", kind: "task", // into itself
		make: func(*state.Token, time.Time) state.Message {
			return state.RunForked{Run: "r", From: workflow.ForkPoint{Run: "r"}}
		},
		does: func(*raceModel, int) verdict { return refusePatch(state.ErrRunExists) },
	},
	{
		name: "Retry", kind: "retry",
		make: func(t *state.Token, _ time.Time) state.Message { return state.Retry{Token: t.ID} },
		does: (*raceModel).retry,
	},
	{
		name: "Retry of a parked task", kind: "parked",
		make: func(t *state.Token, _ time.Time) state.Message { return state.Retry{Token: t.ID} },
		does: (*raceModel).retry,
	},
	{
		name: "Skip", kind: "task",
		make: func(t *state.Token, _ time.Time) state.Message { return state.Skip{Token: t.ID} },
		does: (*raceModel).skip,
	},
	{
		name: "Skip of a parked task", kind: "parked",
		make: func(t *state.Token, _ time.Time) state.Message { return state.Skip{Token: t.ID} },
		does: (*raceModel).skip,
	},
}

// Every message of the vocabulary races.
func TestEveryMessageRaces(t *testing.T) {
	races := map[reflect.Type]bool{}
	for _, r := range racers {
		races[reflect.TypeOf(r.make(&state.Token{}, dawn))] = true
	}
	for _, m := range state.Messages.Variants() {
		require.True(t, races[reflect.TypeOf(m)], "%T is missing in the table", m)
	}
}

// Every message, directly followed by every other, before a join of three
// branches: each is answered as the model says, the join fires at most once and
// with all that arrived, and the run can be brought to its end.
func TestEveryPairOfMessages(t *testing.T) {
	var pairs [][2]racer
	for _, first := range racers {
		for _, second := range racers {
			pairs = append(pairs, [2]racer{first, second})
		}
	}
	for _, pair := range harness.Today(t, 16, pairs) {
		first, second := pair[0], pair[1]
		t.Run(first.name+"/"+second.name, func(t *testing.T) {
			for _, third := range []string{"out", "arrived", "ended"} {
				race(t, first, second, 0, third)
				race(t, first, second, 1, third)
			}
		})
	}
}

// race plays two messages: the first is for branch 0, the second for the branch
// that is given, and the third branch stands as is said.
func race(t *testing.T, first, second racer, other int, third string) {
	kinds := []string{first.kind, second.kind, "task"}
	if other == 0 {
		kinds[1] = "task"
	}
	join := cmp.Or(first.join, second.join)
	p := newPlayer(t, raceGraph(t, kinds, join))
	send(t, p, state.Start{Pins: state.Pins{{Name: "kid", Hash: "hash-of-kid"}}})
	m := &raceModel{run: workflow.RunRunning, timed: join != ""}
	for i, kind := range kinds {
		m.branches = append(m.branches, &raceBranch{kind: kind, state: kind})
		switch kind {
		case "retry", "parked": // it waits for an operator
			send(t, p, state.TaskFailed{Token: p.branch(i).ID, Attempt: 1, Epoch: epoch0})
		case "task":
			m.branches[i].state = "out"
		}
	}
	switch third {
	case "arrived":
		send(t, p, state.TaskCompleted{Token: p.branch(2).ID, Attempt: 1, Epoch: epoch0})
		m.arrive(2, "completed")
	case "ended":
		send(t, p, state.CancelNodes{Nodes: []workflow.NodeID{"n2"}})
		m.branches[2].state = "ended"
	}
	for _, r := range []racer{first, second} {
		if _, ok := r.prep.(state.Pause); ok && m.run == workflow.RunRunning {
			send(t, p, r.prep)
			m.run = workflow.RunPaused
		}
	}
	messages := []state.Message{first.make(p.branch(0), p.now), second.make(p.branch(other), p.now)}
	what := fmt.Sprintf("%#v for branch 0, %#v for branch %d, branch 2 %s", messages[0], messages[1], other, third)
	for i, r := range []racer{first, second} {
		b := []int{0, other}[i]
		if a, ok := messages[i].(state.AlarmFired); ok && time.UnixMilli(a.At).After(p.now) {
			p.now = time.UnixMilli(a.At).UTC()
		}
		p.answered(t, messages[i], m.take(r, b), what)
		m.settle()
		p.stands(t, m, what)
	}
	p.toTheEnd(t, m, what)
	p.replay()
}

func raceGraph(t *testing.T, kinds []string, join string) *compiled.Graph {
	return compile(t, fmt.Sprintf(`
name: race
start: split
nodes:
  - {id: split}
  - {id: n0, %[1]s}
  - {id: n1, %[2]s}
  - {id: n2, %[3]s}
  - {id: z, task: work}
  - {id: rescue, task: work}
transitions:
  - {from: split, to: n0, siblingGroup: g}
  - {from: split, to: n1, siblingGroup: g}
  - {from: split, to: n2, siblingGroup: g}
  - {from: split, to: rescue, outcome: error}
  - {from: n0, to: z, synchronization: {%[4]s}}
  - {from: n1, to: z, synchronization: {%[4]s}}
  - {from: n2, to: z, synchronization: {%[4]s}}
`, raceKinds[kinds[0]], raceKinds[kinds[1]], raceKinds[kinds[2]],
		"siblingGroup: g, merge: {source: branch.index, target: \"output.got\", strategy: collect}"+join))
}

func send(t *testing.T, p *player, m state.Message) {
	t.Helper()
	_, err := p.send(m)
	require.NoError(t, err, "%#v", m)
}

// branch returns the first token of a branch of the race.
func (p *player) branch(i int) *state.Token { return p.state.Token(p.state.Group(1).TokenOf(i)) }

// answered sends a message and fails unless it is answered as it must be. A
// refused message changes nothing, and the error says why.
func (p *player) answered(t *testing.T, m state.Message, want verdict, what string) {
	t.Helper()
	before := snapshot(p.state)
	plan, err := p.send(m)
	if err != nil {
		require.Empty(t, plan.Decisions, what)
		require.Equal(t, string(before), string(snapshot(p.state)), what)
	}
	if p.state.Status == workflow.RunPaused {
		for _, d := range plan.Decisions {
			require.NotContains(t, []string{"DispatchTask", "StartChild"}, reflect.TypeOf(d).Name(), what)
		}
	}
	switch {
	case want.err != nil:
		require.ErrorIs(t, err, want.err, "%#v of %s", m, what)
	case want.idle:
		require.Empty(t, plan.Decisions, "%#v of %s:\n%s", m, what, text(plan))
		require.True(t, err == nil || errors.Is(err, state.ErrStale), "%#v of %s: %v", m, what, err)
	default:
		require.NoError(t, err, "%#v of %s", m, what)
	}
}

// stands fails unless the run stands as the model says.
func (p *player) stands(t *testing.T, m *raceModel, what string) {
	t.Helper()
	require.Equal(t, m.run, p.state.Status, what)
	fires := 0
	if m.phase == "fired" {
		fires = 1
	}
	require.Equal(t, fires, p.fired[1], what)
	made := 0
	for id := workflow.TokenID(1); id < p.state.NextToken; id++ {
		if p.state.Token(id).Node == "z" {
			made++
		}
	}
	require.Equal(t, fires, made, "continuations: %s", what)
	if fires > 0 {
		require.Equal(t, fmt.Sprint(m.got), fmt.Sprint(p.output()["got"]), what)
	} else {
		require.NotContains(t, p.output(), "got", what)
	}
	if m.phase == "" && !m.run.Final() {
		g := p.state.Group(1)
		require.Equal(t, []int{m.number("arrived"), m.number("ended"), len(m.branches)}, []int{g.Arrived, g.Ended, g.Total}, what)
		for i, b := range m.branches {
			require.Equal(t, raceStatus[b.state], p.branch(i).Status, "branch %d: %s", i, what)
		}
	}
}

// toTheEnd does whatever the run still waits for.
func (p *player) toTheEnd(t *testing.T, m *raceModel, what string) {
	t.Helper()
	for step := 0; !p.state.Status.Final(); step++ {
		require.Less(t, step, 50, "the run does not end: %s", what)
		if p.state.Status != workflow.RunRunning {
			send(t, p, state.Resume{})
			continue
		}
		p.goOn(t, what)
	}
	if !m.run.Final() {
		for i, b := range m.branches {
			if m.phase == "" && !b.resolved() {
				m.arrive(i, "")
			}
		}
		m.run = workflow.RunRunning
		m.settle()
		m.end(workflow.RunCompleted)
	}
	p.stands(t, m, what)
	require.Zero(t, p.state.LiveCount(), what)
}

// goOn does the first thing that the run waits for.
func (p *player) goOn(t *testing.T, what string) {
	t.Helper()
	for _, id := range p.state.LiveTokens() {
		switch tok := p.state.Token(id); tok.Status {
		case workflow.Dispatched:
			send(t, p, state.TaskCompleted{Token: id, Attempt: tok.Attempt, Epoch: tok.Epoch})
		case workflow.WaitingForEvent:
			send(t, p, state.Signal{Name: "go"})
		case workflow.WaitingForApproval:
			send(t, p, state.Ballot{Token: id, By: "bob", Approved: true})
		case workflow.WaitingForChild:
			send(t, p, state.ChildEnded{Token: id, Attempt: tok.Attempt, Status: workflow.RunCompleted})
		case workflow.WaitingForOperator:
			send(t, p, state.Skip{Token: id})
		default:
			continue
		}
		return
	}
	_, fired := p.fire(p.state.Alarm())
	require.True(t, fired, "the run is stuck: %s\n%s", what, snapshot(p.state))
}

// output returns what the run has written to its output section.
func (p *player) output() map[string]any { return p.state.Section(state.SectionOutput) }
