package pawl_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// A retrial is a run that fails or completes, and what comes of a rerun of a node of it. Tasks are named by their node; in
// a foreach also as node0, node1 and so on.
type retrial struct {
	name, text string
	takes      map[string]time.Duration // a second each, if nothing else is said
	fails      []string                 // in the original
	breaks     []string                 // in every run
	act        func(t *testing.T, e *pawl.Engine, id workflow.RunID)
	node       workflow.NodeID
	branch     int                   // of a foreach
	given      []workflow.ForkResult // to the rerun
	refused    []workflow.NodeID     // named by the error, without Again
	performed  []workflow.NodeID     // by the rerun
	output     map[string]any        // of the rerun
}

// A performer performs the tasks of a retrial. Each result names the node, the run and the input.
type performer struct {
	*retrial
	mu   sync.Mutex
	done map[workflow.RunID][]workflow.NodeID
}

func (p *performer) Execute(ctx context.Context, task pawl.Task) (any, error) {
	p.mu.Lock()
	p.done[task.Run] = append(p.done[task.Run], task.Node)
	p.mu.Unlock()
	name, takes := string(task.Node), time.Second
	for _, as := range []string{name, fmt.Sprint(name, task.Branch.Index)} {
		if d, ok := p.takes[as]; ok {
			takes = d
		}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(takes):
	}
	if p.isBroken(&task) {
		return nil, &workflow.Failure{Code: "down", Permanent: true}
	}
	in := map[string]any{}
	if err := task.Bind(&in); err != nil {
		return nil, err
	}
	return map[string]any{"of": name, "by": string(task.Run), "got": in["got"]}, nil
}

func (p *performer) isBroken(task *pawl.Task) bool {
	return slices.ContainsFunc([]string{string(task.Node), fmt.Sprint(task.Node, task.Branch.Index)}, func(name string) bool {
		return slices.Contains(p.breaks, name) || task.Run == "r" && slices.Contains(p.fails, name)
	})
}

// rerun plays the original, and performs its node again.
func (c *retrial) rerun(t *testing.T) {
	p := &performer{retrial: c, done: map[workflow.RunID][]workflow.NodeID{}}
	e := open(t, replays.Dir(t), pawl.Options{Executor: p})
	defer e.Close(context.Background())
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, c.text)}, nil))
	<-time.After(30 * time.Second) // virtual
	if c.act != nil {
		c.act(t, e, "r")
	}
	<-time.After(24 * time.Hour) // virtual
	from, o := pawl.Target{Run: "r"}, pawl.ForkOptions{Results: c.given}
	for token, err := range e.Tokens(t.Context(), "r", pawl.TokenFilter{Node: c.node}) {
		require.NoError(t, err)
		if token.Scope.Branch == c.branch || from.Token == 0 {
			from.Token = token.ID
		}
	}
	err := e.Rerun(t.Context(), from, "r2", o)
	if c.refused != nil {
		var again *pawl.AgainError
		require.ErrorAs(t, err, &again)
		require.Equal(t, c.refused, again.Nodes)
		o.Again = true
		err = e.Rerun(t.Context(), from, "r2", o)
	}
	require.NoError(t, err)
	sent, err := e.SentAgain(t.Context(), "r2")
	require.NoError(t, err)
	require.Subset(t, sent, c.refused)
	<-time.After(30 * time.Second) // virtual
	if c.act != nil {
		c.act(t, e, "r2")
	}
	out := outcomeOf(t, e, "r2")
	require.Equal(t, workflow.RunCompleted, out.Status, "%+v", out.Failure)
	p.mu.Lock()
	require.Equal(t, c.performed, slices.Sorted(slices.Values(p.done["r2"])))
	p.mu.Unlock()
	if c.output != nil {
		require.Equal(t, c.output, out.Output)
	}
}

func rerunEach(t *testing.T, cases []retrial) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.rerun(t) })
		})
	}
}

// An act that has come since the record of a rerun does not come again. A rerun is refused, before it loses results that
// came of one.
func TestRerunRefusesToLoseResults(t *testing.T) {
	rerunEach(t, []retrial{
		{
			name: "of an added branch", node: "work", branch: 1, fails: []string{"work1"}, takes: map[string]time.Duration{"work1": time.Hour}, text: `
name: order
start: fan
nodes: [{id: fan}, {id: work, task: t, input: {got: item}}, {id: last, task: t, output: {output.all: state.all}}]
transitions:
  - {from: fan, to: work, foreach: {collection: "['a', 'b']"}, siblingGroup: g}
  - {from: work, to: last, synchronization: {siblingGroup: g, merge: {source: result.got, target: state.all, strategy: collect}}}
`,
			act: func(t *testing.T, e *pawl.Engine, id workflow.RunID) {
				require.NoError(t, e.AddBranch(t.Context(), pawl.GroupTarget{Run: id, Group: "g"}, "c"))
			},
			refused: []workflow.NodeID{"work"}, performed: []workflow.NodeID{"last", "work", "work"}, output: map[string]any{"all": []any{"a", "b", "c"}},
		},
		{
			name: "behind a group with an added branch", node: "pay", fails: []string{"pay"}, takes: map[string]time.Duration{"pay": time.Hour}, text: `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: fan}, {id: hold, wait: {for: 1m}}, {id: next, task: t, input: {got: state.all}, output: {output.next: result}}]
transitions:
  - {from: s, to: pay}
  - {from: s, to: fan}
  - {from: fan, to: hold, foreach: {collection: "['a', 'b']"}, siblingGroup: g}
  - {from: hold, to: next, synchronization: {siblingGroup: g, merge: {source: item, target: state.all, strategy: collect}}}
`,
			act: func(t *testing.T, e *pawl.Engine, id workflow.RunID) {
				if id == "r" {
					require.NoError(t, e.AddBranch(t.Context(), pawl.GroupTarget{Run: id, Group: "g"}, "c"))
				}
			},
			refused: []workflow.NodeID{"next"}, performed: []workflow.NodeID{"next", "pay"},
			output: map[string]any{"next": map[string]any{"of": "next", "by": "r2", "got": []any{"a", "b"}}},
		},
		{
			name: "behind a closed group", node: "pay", fails: []string{"pay"}, takes: map[string]time.Duration{"pay": time.Hour}, text: `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: fan}, {id: work, task: t}, {id: next, task: t}]
transitions:
  - {from: s, to: pay}
  - {from: s, to: fan}
  - {from: fan, to: work, foreach: {collection: "['a', 'b']"}, open: true, siblingGroup: g}
  - {from: work, to: next, synchronization: {siblingGroup: g}}
`,
			act: func(t *testing.T, e *pawl.Engine, id workflow.RunID) {
				require.NoError(t, e.CloseGroup(t.Context(), pawl.GroupTarget{Run: id, Group: "g"}))
			},
			refused: []workflow.NodeID{"next"}, performed: []workflow.NodeID{"next", "pay"},
		},
		{
			name: "at a node that a patch has added", node: "pay", fails: []string{"pay"}, takes: map[string]time.Duration{"pay": time.Hour}, text: `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: hold, wait: {for: 1m}}]
transitions: [{from: s, to: pay}, {from: s, to: hold}]
`,
			act: func(t *testing.T, e *pawl.Engine, id workflow.RunID) {
				_, err := e.Patch(t.Context(), id, pawl.Patch{Base: 1, Ops: []any{
					map[string]any{"op": "add", "path": "/nodes/gate", "value": map[string]any{}},
					map[string]any{"op": "add", "path": "/nodes/extra", "value": map[string]any{"task": "t"}},
					map[string]any{"op": "add", "path": "/transitions/in", "value": map[string]any{"from": "hold", "to": "gate"}},
					map[string]any{"op": "add", "path": "/transitions/on", "value": map[string]any{"from": "gate", "to": "extra"}},
				}})
				require.NoError(t, err)
			},
			refused: []workflow.NodeID{"extra"}, performed: []workflow.NodeID{"pay"},
		},
	})
}

// A failure does not come again by itself. A rerun is refused if it would perform again what had come of it.
func TestRerunRefusesToRepeatWhatFollowedAFailure(t *testing.T) {
	rerunEach(t, []retrial{
		{
			name: "that was caught", node: "pay", fails: []string{"pay"}, breaks: []string{"reserve"}, takes: map[string]time.Duration{"pay": time.Minute}, text: `
name: order
start: s
nodes: [{id: s}, {id: reserve, task: t}, {id: refund, task: t}, {id: pay, task: t}]
transitions:
  - {from: s, to: reserve}
  - {from: s, to: pay}
  - {from: reserve, to: refund, outcome: error}
`,
			refused: []workflow.NodeID{"reserve", "refund"}, performed: []workflow.NodeID{"pay", "refund", "reserve"},
		},
		{
			name: "that a join tolerated", node: "pay", fails: []string{"pay"}, breaks: []string{"b"}, takes: map[string]time.Duration{"pay": time.Minute}, text: `
name: order
start: s
nodes: [{id: s}, {id: fan}, {id: a, task: t}, {id: b, task: t}, {id: next, task: t}, {id: pay, task: t}]
transitions:
  - {from: s, to: fan}
  - {from: s, to: pay}
  - {from: fan, to: a, siblingGroup: g}
  - {from: fan, to: b, siblingGroup: g}
  - {from: a, to: next, synchronization: {siblingGroup: g, tolerate: {failures: 1}}}
  - {from: b, to: next, synchronization: {siblingGroup: g, tolerate: {failures: 1}}}
`,
			refused: []workflow.NodeID{"next"}, performed: []workflow.NodeID{"b", "next", "pay"},
		},
		{
			name: "that let its branch win", node: "pay", fails: []string{"pay"}, breaks: []string{"b"}, takes: map[string]time.Duration{"pay": time.Minute, "slow": 10 * time.Second}, text: `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: fan}, {id: list}, {id: a, task: t}, {id: b, task: t}, {id: mid, task: t}, {id: slow, task: t}, {id: next, task: t, input: {got: state.won}, output: {output.next: result}}]
transitions:
  - {from: s, to: pay}
  - {from: s, to: fan}
  - {from: fan, to: list, siblingGroup: g}
  - {from: fan, to: slow, siblingGroup: g}
  - {from: list, to: a, siblingGroup: h}
  - {from: list, to: b, siblingGroup: h}
  - {from: a, to: mid, synchronization: {siblingGroup: h, tolerate: {failures: 1}}}
  - {from: b, to: mid, synchronization: {siblingGroup: h, tolerate: {failures: 1}}}
  - {from: mid, to: next, synchronization: &join {siblingGroup: g, strategy: any, remaining: ignore, merge: {source: result.of, target: state.won, strategy: collect}}}
  - {from: slow, to: next, synchronization: *join}
`,
			refused: []workflow.NodeID{"mid", "next"}, performed: []workflow.NodeID{"b", "mid", "next", "pay"},
			output: map[string]any{"next": map[string]any{"of": "next", "by": "r2", "got": []any{"slow"}}},
		},
		{
			name: "in a dag", node: "pay", fails: []string{"pay"}, breaks: []string{"reserve"}, takes: map[string]time.Duration{"pay": time.Minute}, text: `
name: order
mode: dag
nodes: [{id: reserve, task: t}, {id: refund, task: t}, {id: mail, task: t}, {id: pay, task: t}]
transitions: [{from: reserve, to: refund, outcome: error}, {from: refund, to: mail}]
`,
			refused: []workflow.NodeID{"reserve", "refund", "mail"}, performed: []workflow.NodeID{"mail", "pay", "refund", "reserve"},
		},
	})
}

// raced is a fan-out to pay, other and third, joined at next: it says who was there.
const raced = `
name: order
start: fan
nodes:
  - {id: fan}
  - {id: pay, task: t}
  - {id: other, task: t}
  - {id: third, task: t}
  - {id: next, task: t, input: {got: state.won}, output: {output.next: result}}
  - {id: last, task: t, output: {output.won: state.won}}
transitions:
  - {from: fan, to: pay, siblingGroup: g}
  - {from: fan, to: other, siblingGroup: g}
  - {from: fan, to: third, siblingGroup: g}
  - {from: pay, to: next, synchronization: &join {siblingGroup: g, %s, merge: {source: result.of, target: state.won, strategy: collect}}}
  - {from: other, to: next, synchronization: *join}
  - {from: third, to: next, synchronization: *join}
  - {from: next, to: last}
`

// Behind a join with a quorum follows what made the quorum, and nothing else.
func TestRerunKnowsWhoWonAJoin(t *testing.T) {
	takes := map[string]time.Duration{"other": 2 * time.Second, "third": 3 * time.Second, "next": 5 * time.Second}
	next := func(by string, got ...any) map[string]any {
		return map[string]any{"next": map[string]any{"of": "next", "by": by, "got": got}, "won": got}
	}
	rerunEach(t, []retrial{
		{
			name: "any, ignore: the winner", text: fmt.Sprintf(raced, "strategy: any, remaining: ignore"), takes: takes, fails: []string{"last"},
			node: "pay", performed: []workflow.NodeID{"last", "next", "pay"}, output: next("r2", "other"),
		},
		{
			name: "any, block: the winner", text: fmt.Sprintf(raced, "strategy: any, remaining: block"), takes: takes, fails: []string{"last"},
			node: "pay", performed: []workflow.NodeID{"last", "next", "pay"}, output: next("r2", "other"),
		},
		{
			name: "any, ignore: a straggler", text: fmt.Sprintf(raced, "strategy: any, remaining: ignore"), takes: takes, fails: []string{"last"},
			node: "other", performed: []workflow.NodeID{"last", "other"}, output: next("r", "pay"),
		},
		{
			name: "two of three: a winner", text: fmt.Sprintf(raced, "strategy: {mOfN: 2}, remaining: ignore"), takes: takes, fails: []string{"last"},
			node: "other", performed: []workflow.NodeID{"last", "next", "other"}, output: next("r2", "pay", "third"),
		},
		{
			name: "two of three: the straggler", text: fmt.Sprintf(raced, "strategy: {mOfN: 2}, remaining: ignore"), takes: takes, fails: []string{"last"},
			node: "third", performed: []workflow.NodeID{"last", "third"}, output: next("r", "pay", "other"),
		},
		{
			name: "all", text: fmt.Sprintf(raced, "strategy: all"), takes: takes, fails: []string{"last"},
			node: "other", performed: []workflow.NodeID{"last", "next", "other"}, output: next("r2", "pay", "other", "third"),
		},
		{
			name: "join: all, the first of two pairs", node: "pay", takes: map[string]time.Duration{"two": 2 * time.Second, "other": 3 * time.Second, "last": time.Minute}, fails: []string{"last"},
			refused: []workflow.NodeID{"next"}, performed: []workflow.NodeID{"last", "last", "next", "next", "pay"}, text: `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: other, task: t}, {id: one, task: t}, {id: two, task: t}, {id: x}, {id: y}, {id: next, task: t, join: all}, {id: last, task: t}]
transitions:
  - {from: s, to: pay}
  - {from: s, to: other}
  - {from: s, to: one}
  - {from: s, to: two}
  - {from: pay, to: x}
  - {from: other, to: x}
  - {from: one, to: y}
  - {from: two, to: y}
  - {from: x, to: next}
  - {from: y, to: next}
  - {from: next, to: last}
`,
		},
		{
			name: "a dag, any: the winner", node: "pay", takes: takes, fails: []string{"last"}, performed: []workflow.NodeID{"last", "next", "pay"}, text: racedInDAG,
		},
		{
			name: "a dag, any: not the winner", node: "other", takes: takes, fails: []string{"last"}, performed: []workflow.NodeID{"last", "other"}, text: racedInDAG,
		},
		{
			name: "a straggler within a branch", node: "other", takes: takes, fails: []string{"last"}, performed: []workflow.NodeID{"last", "other"}, text: `
name: order
start: fan
nodes: [{id: fan}, {id: race}, {id: pay, task: t}, {id: other, task: t}, {id: third, task: t}, {id: mid, task: t}, {id: next, task: t}, {id: last, task: t}]
transitions:
  - {from: fan, to: race, siblingGroup: g}
  - {from: fan, to: third, siblingGroup: g}
  - {from: race, to: pay, siblingGroup: h}
  - {from: race, to: other, siblingGroup: h}
  - {from: pay, to: mid, synchronization: {siblingGroup: h, strategy: any, remaining: ignore}}
  - {from: other, to: mid, synchronization: {siblingGroup: h, strategy: any, remaining: ignore}}
  - {from: mid, to: next, synchronization: {siblingGroup: g, remaining: ignore}}
  - {from: third, to: next, synchronization: {siblingGroup: g, remaining: ignore}}
  - {from: next, to: last}
`,
		},
	})
}

const racedInDAG = `
name: order
mode: dag
nodes: [{id: pay, task: t}, {id: other, task: t}, {id: next, task: t, join: any, needs: [pay, other]}, {id: last, task: t, needs: [next]}]
`

// Where a join has waited for a node, what is behind the join follows from it, also if nothing came from there. Such a
// rerun performs it again, and need not be asked to.
func TestRerunPerformsWhatHasWaitedForTheNode(t *testing.T) {
	rerunEach(t, []retrial{
		{
			name: "a branch that ended elsewhere", node: "pay", takes: map[string]time.Duration{"pay": 5 * time.Second}, fails: []string{"last"}, performed: []workflow.NodeID{"last", "next", "pay"}, text: `
name: order
start: fan
nodes: [{id: fan}, {id: pay, task: t}, {id: other, task: t}, {id: next, task: t}, {id: last, task: t}]
transitions:
  - {from: fan, to: pay, siblingGroup: g}
  - {from: fan, to: other, siblingGroup: g}
  - {from: pay, to: next, condition: "result.of == 'other'", synchronization: {siblingGroup: g}}
  - {from: other, to: next, synchronization: {siblingGroup: g}}
  - {from: next, to: last}
`,
		},
		{
			name: "a branch that was too late", node: "pay", takes: map[string]time.Duration{"pay": time.Hour}, fails: []string{"last"}, performed: []workflow.NodeID{"last", "next", "pay"}, text: `
name: order
start: fan
nodes: [{id: fan}, {id: pay, task: t}, {id: other, task: t}, {id: next, task: t}, {id: last, task: t}]
transitions:
  - {from: fan, to: pay, siblingGroup: g}
  - {from: fan, to: other, siblingGroup: g}
  - {from: pay, to: next, synchronization: {siblingGroup: g, timeout: 10s, onTimeout: proceed_with_available}}
  - {from: other, to: next, synchronization: {siblingGroup: g, timeout: 10s, onTimeout: proceed_with_available}}
  - {from: next, to: last}
`,
		},
		{
			name: "a branch that failed the group", node: "pay", takes: map[string]time.Duration{"pay": 5 * time.Second}, fails: []string{"pay", "last"}, performed: []workflow.NodeID{"next", "pay"}, text: `
name: order
start: fan
nodes: [{id: fan}, {id: pay, task: t}, {id: other, task: t}, {id: next, task: t}, {id: refund, task: t}, {id: last, task: t}]
transitions:
  - {from: fan, to: pay, siblingGroup: g}
  - {from: fan, to: other, siblingGroup: g}
  - {from: fan, to: refund, outcome: error}
  - {from: pay, to: next, synchronization: {siblingGroup: g}}
  - {from: other, to: next, synchronization: {siblingGroup: g}}
  - {from: refund, to: last}
`,
		},
		{
			name: "join: synchronize", node: "pay", takes: map[string]time.Duration{"pay": 5 * time.Second}, fails: []string{"last"}, performed: []workflow.NodeID{"last", "next", "pay"}, text: `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: other, task: t}, {id: next, task: t, join: synchronize}, {id: last, task: t}]
transitions:
  - {from: s, to: pay}
  - {from: s, to: other}
  - {from: pay, to: next, condition: "result.of == 'other'"}
  - {from: other, to: next}
  - {from: next, to: last}
`,
		},
		{
			name: "join: all", node: "pay", takes: map[string]time.Duration{"other": 5 * time.Second}, fails: []string{"last"}, performed: []workflow.NodeID{"last", "next", "pay"}, text: `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: other, task: t}, {id: next, task: t, join: all}, {id: last, task: t}]
transitions: [{from: s, to: pay}, {from: s, to: other}, {from: pay, to: next}, {from: other, to: next}, {from: next, to: last}]
`,
		},
		{
			name: "a dag", node: "pay", takes: map[string]time.Duration{"other": 5 * time.Second}, fails: []string{"last"}, performed: []workflow.NodeID{"last", "next", "pay"}, text: `
name: order
mode: dag
nodes: [{id: pay, task: t}, {id: other, task: t}, {id: next, task: t, needs: [pay, other]}, {id: last, task: t, needs: [next]}]
`,
		},
		{
			name: "a dag, behind a node that was skipped", node: "pay", takes: map[string]time.Duration{"other": 5 * time.Second}, fails: []string{"last"}, performed: []workflow.NodeID{"last", "next", "pay"}, text: `
name: order
mode: dag
nodes: [{id: pay, task: t}, {id: skip, task: t}, {id: other, task: t}, {id: next, task: t}, {id: last, task: t}]
transitions:
  - {from: pay, to: skip, condition: "false"}
  - {from: skip, to: next}
  - {from: other, to: next}
  - {from: next, to: last}
`,
		},
		{
			name: "a task to which a result is given", node: "pay", takes: map[string]time.Duration{"pay": time.Minute}, fails: []string{"pay"},
			given: []workflow.ForkResult{{Node: "stock", Output: map[string]any{}}}, performed: []workflow.NodeID{"pay", "ship"}, text: `
name: order
start: s
nodes: [{id: s}, {id: stock, task: t}, {id: ship, task: t}, {id: pay, task: t}]
transitions: [{from: s, to: pay}, {from: s, to: stock}, {from: stock, to: ship}]
`,
		},
	})
}

// A result is kept for the token whose it is, and for no other that has grown from the same one.
func TestRerunKeepsEachResultForItsToken(t *testing.T) {
	rerunEach(t, []retrial{
		{
			name: "beside an unfinished branch", node: "pay", takes: map[string]time.Duration{"pay": time.Minute, "work0": time.Hour}, fails: []string{"pay"}, performed: []workflow.NodeID{"next", "pay", "work"},
			output: map[string]any{"all": []any{"r2", "r", "r"}}, text: `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: list, task: t}, {id: work, task: t}, {id: next, task: t, output: {output.all: state.all}}]
transitions:
  - {from: s, to: pay}
  - {from: s, to: list}
  - {from: list, to: work, spawnCount: 3, siblingGroup: g}
  - {from: work, to: next, synchronization: {siblingGroup: g, merge: {source: result.by, target: state.all, strategy: collect}}}
`,
		},
		{
			name: "two groups that join at one node", node: "pay", takes: map[string]time.Duration{"pay": time.Minute, "slow": 5 * time.Second}, fails: []string{"pay"}, breaks: []string{"quick"},
			refused: []workflow.NodeID{"next"}, performed: []workflow.NodeID{"next", "pay", "quick"},
			output: map[string]any{"all": []any{
				map[string]any{"of": "next", "by": "r", "got": []any{"slow"}}, map[string]any{"of": "next", "by": "r2", "got": []any{}},
			}},
			text: `
name: order
start: s
nodes: [{id: s}, {id: pay, task: t}, {id: list, task: t}, {id: quick, task: t}, {id: slow, task: t}, {id: next, task: t, input: {got: result}, output: {"output.all[]": result}}]
transitions:
  - {from: s, to: pay}
  - {from: s, to: list}
  - {from: list, to: quick, siblingGroup: g}
  - {from: list, to: slow, siblingGroup: h}
  - {from: quick, to: next, synchronization: {siblingGroup: g, onShortfall: proceed, tolerate: {failures: 1}, merge: {source: result.of, strategy: collect}}}
  - {from: slow, to: next, synchronization: {siblingGroup: h, merge: {source: result.of, strategy: collect}}}
`,
		},
	})
}
