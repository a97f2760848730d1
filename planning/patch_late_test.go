package planning_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// Planners since version 6 refuse what comes too late for a run. Journals may have it from those before, and are planned
// as they were.
func TestLateForEarlierPlanners(t *testing.T) {
	const lasting = `
name: w
start: s
nodes: [{id: s}, {id: a, task: t, heartbeat: 10s}, {id: b, task: t}, {id: j}]
transitions:
  - {from: s, to: a, siblingGroup: g, open: true}
  - {from: s, to: b, siblingGroup: g, open: true}
  - {id: aj, from: a, to: j, synchronization: {siblingGroup: g}}
  - {id: bj, from: b, to: j, synchronization: {siblingGroup: g}}
`
	merge := map[string]any{"target": "output.r", "strategy": "collect"}
	for name, test := range map[string]struct {
		source  string
		message state.Message
		want    string
	}{
		"lock": {lasting, state.Patch{Base: 1, Ops: []any{operation("add", "/nodes/a/lock", "l")}}, "patch refused: /nodes/a/lock: t2 has begun there without the lock, and its next attempt would not wait for it"},
		"merge": {
			lasting, state.Patch{Base: 1, Ops: []any{operation("add", "/transitions/aj/synchronization/merge", merge), operation("add", "/transitions/bj/synchronization/merge", merge)}},
			"patch refused: /transitions/bj/synchronization/merge: t3 waits there and has brought no value: a merge would come too late",
		},
		"open group": {
			lasting, state.Patch{Base: 1, Ops: []any{operation("add", "/nodes/a/input", map[string]any{"k": "result"})}},
			"patch refused: /transitions/s->a: it adds branches to the open group g1 of \"g\", and the result that they would begin with was not kept: result cannot be asked for",
		},
		"item": {lasting, state.AddBranch{Group: "g", Item: "x"}, "nothing there waits for this: the branches of \"g\" have no item, since \"s->a\" has no foreach; add the branch without one"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlayer(t, compile(t, test.source))
			_, err := p.send(state.Start{})
			require.NoError(t, err)
			require.NoError(t, p.complete(3, nil))
			p.state.Rules = 5
			_, err = planning.Step(p.state, test.message, p.now)
			require.NoError(t, err, "journals may have it")
			p.state.Rules = 0
			_, err = p.send(test.message)
			require.EqualError(t, err, test.want)
		})
	}
}

// A node was enough for earlier planners to retry or skip its task beside one that a pause holds back from its next attempt.
func TestOperatorsOfEarlierPlanners(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: w
start: s
nodes: [{id: s}, {id: a, task: t, retry: {maxAttempts: 9, initialInterval: 10s}}, {id: j}]
transitions:
  - {from: s, to: a, spawnCount: 2, siblingGroup: g}
  - {from: a, to: j, synchronization: {siblingGroup: g}}
`))
	send := func(m state.Message) {
		_, err := p.send(m)
		require.NoError(t, err)
	}
	failed := workflow.Failure{Code: "x", Message: "m"}
	send(state.Start{})
	send(state.TaskFailed{Token: 2, Attempt: 1, Epoch: p.state.Epoch, Failure: failed})
	send(state.Pause{})
	p.now = p.now.Add(10 * time.Second)
	send(state.AlarmFired{At: p.now.UnixMilli()})
	send(state.TaskFailed{Token: 3, Attempt: 1, Epoch: p.state.Epoch, Failure: failed})
	require.True(t, p.state.Token(2).Held)
	for _, m := range []state.Message{state.Retry{Node: "a"}, state.Skip{Node: "a", Output: int64(1)}} {
		for rules := 1; rules <= planning.Version; rules++ {
			p.state.Rules = rules
			_, err := planning.Step(p.state, m, p.now)
			if rules < 6 {
				require.NoError(t, err, "journals may have it")
				continue
			}
			require.ErrorIs(t, err, state.ErrAmbiguous)
		}
	}
}

// A timer that an earlier planner began has not kept the result that its until reads: it stays as it is.
func TestPatchOfATimerOfAnEarlierPlanner(t *testing.T) {
	for name, ops := range map[string][]any{
		"until":   {operation("replace", "/nodes/w/wait/until", "timestamp(result.at) + duration('1h')")},
		"event":   {operation("replace", "/nodes/w/wait", map[string]any{"any": []any{map[string]any{"until": "timestamp(result.at)"}, map[string]any{"event": "go"}}})},
		"timeout": {operation("replace", "/nodes/w/timeout", "3h")},
		"retry":   {operation("add", "/nodes/w/retry", map[string]any{"maxAttempts": int64(2)})},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlayer(t, compile(t, `{name: w, start: s, nodes: [{id: s, task: t}, {id: w, wait: {until: timestamp(result.at)}, timeout: 5h}], transitions: [{from: s, to: w}]}`))
			p.state.Rules = 5
			_, err := p.send(state.Start{})
			require.NoError(t, err)
			require.NoError(t, p.complete(1, map[string]any{"at": dawn.Add(time.Hour).Format(time.RFC3339)}))
			require.Nil(t, p.state.Token(2).Input)
			p.state.Rules = 0
			_, err = p.send(state.Patch{Base: 1, Ops: ops})
			require.EqualError(t, err, "patch refused: /nodes/w: t2 stands there, and the result that it came with was not kept: result cannot be asked for")
			_, err = p.send(state.Patch{Base: 1, Ops: []any{operation("replace", "/nodes/w/wait", map[string]any{"for": "2h"})}})
			require.NoError(t, err, "it asks for no result")
		})
	}
}

// A wait that came with null has kept that, in each of its attempts: its until may be patched, and asks for it.
func TestPatchOfATimerThatKeepsNull(t *testing.T) {
	const until = "result == null ? now + duration('%s') : timestamp(result.at)"
	for name, retry := range map[string]string{"once": "", "again": ", timeout: 30m, retry: {maxAttempts: 9, initialInterval: 1s}"} {
		t.Run(name, func(t *testing.T) {
			p := newPlayer(t, compile(t, fmt.Sprintf(`{name: w, start: s, nodes: [{id: s, task: t}, {id: w, wait: {until: "`+until+`"}%s}], transitions: [{from: s, to: w}]}`, "1h", retry)))
			_, err := p.send(state.Start{})
			require.NoError(t, err)
			require.NoError(t, p.complete(1, nil))
			for p.state.Token(2).Attempt < 2 && retry != "" {
				_, due := p.fire(p.state.Alarm())
				require.True(t, due)
			}
			_, err = p.send(state.Patch{Base: 1, Ops: []any{operation("replace", "/nodes/w/wait/until", fmt.Sprintf(until, "2h"))}})
			require.NoError(t, err)
			require.Equal(t, p.now.Add(2*time.Hour), p.state.Token(2).Due)
		})
	}
}

// A time-out of an attempt and its silence are told as earlier planners did in their journals.
func TestLimitsThatAPatchRemoves(t *testing.T) {
	p := newPlayer(t, compile(t, `{name: w, start: s, nodes: [{id: s, task: t, timeout: 1m, heartbeat: 10s}]}`))
	_, err := p.send(state.Start{})
	require.NoError(t, err)
	_, err = p.send(state.Patch{Base: 1, Ops: []any{operation("remove", "/nodes/s/timeout"), operation("remove", "/nodes/s/heartbeat")}})
	require.NoError(t, err)
	beat := state.Heartbeat{Token: 1, Attempt: 1, Epoch: p.state.Epoch}
	for rules, want := range map[int]struct {
		message string
		beats   int
	}{5: {"no heartbeat within 0s", 0}, 6: {"no heartbeat in time", 1}} {
		p.state.Rules = rules
		plan, err := planning.Step(p.state, state.AlarmFired{At: dawn.Add(10 * time.Second).UnixMilli()}, p.now)
		require.NoError(t, err)
		require.Contains(t, plan.Decisions[0].String(), want.message)
		plan, err = planning.Step(p.state, beat, p.now)
		require.NoError(t, err)
		require.Len(t, plan.Decisions, want.beats)
	}
	p.state.Rules = 0
	_, err = p.send(beat)
	require.NoError(t, err)
	require.Zero(t, p.state.Token(1).Beat)
	require.Equal(t, dawn.Add(time.Minute), p.state.Token(1).Alarm(), "its own time runs on")
	require.Equal(t, workflow.Dispatched, p.state.Token(1).Status)
}
