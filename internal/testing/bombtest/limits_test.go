package bombtest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A bound is a limit that a node or the run meets by itself. The work of its runs
// grows with n; they are within the limit up to n = most.
type bound struct {
	name   string
	limits string // of the definition; "" has the default
	most   int
	code   string // of the failure beyond
	says   string // in its message
	fatal  bool   // it fails the run, and cannot be caught
	yaml   string // with a place for limits
	input  func(n int) any
	gives  func(n int) any
	slow   bool // only in a release, or only there at the default
}

func items(n int) any { return map[string]any{"l": make([]int, n)} }

func count(n int) any { return map[string]any{"n": n} }

func nothing(int) any { return nil }

// Every definition catches the failure of the node, or of the group, at a.
const (
	head = `
name: x
start: a
%s
`
	catch = `
  - {id: catch, from: a, to: caught, outcome: error}
`
	caught = `
  - {id: caught, output: {output.code: error.code, output.message: error.message}}
`
	giving = head + `
nodes:
  - {id: a, task: give}` + caught + `
transitions:` + catch
	spreading = head + `
nodes:
  - {id: a}
  - {id: b}` + caught + `
transitions:
  - {from: a, to: b, foreach: {collection: input.l}}` + catch
	computing = head + `
nodes:
  - {id: a, output: {state.x: "[[input.v]]"}}` + caught + `
transitions:` + catch
	merging = head + `
nodes:
  - {id: a}
  - {id: b, task: give}
  - {id: z}` + caught + `
transitions:
  - {from: a, to: b, spawnCount: 16, siblingGroup: g}
  - {from: b, to: z, synchronization: {siblingGroup: g, merge: {strategy: collect, target: state.all}}}` + catch
	recursing = `
name: self
start: s
%s
nodes:
  - {id: s}
  - {id: a, subworkflow: {name: self}, input: {n: input.n - 1}}
transitions:
  - {from: s, to: a, condition: input.n > 0}`
	nesting = head + `
nodes:
  - {id: a}
  - {id: b}
  - {id: z}` + caught + `
transitions:
  - {from: a, to: b, siblingGroup: g}
  - {from: b, to: a, condition: "count['back'] + 1 < input.n", id: back, loop: {maxIterations: 1000}}
  - {from: b, to: z, priority: 1}` + catch
	spinning = head + `
nodes:
  - {id: a}
  - {id: z}` + caught + `
transitions:
  - {from: a, to: a, id: again, condition: "count['again'] < input.n", loop: {maxIterations: 1000000}}
  - {from: a, to: z, priority: 1}` + catch
	// Live tokens: three groups, since one has at most 100,000.
	spreadWide = head + `
nodes:
  - {id: a}
  - {id: b, wait: {for: 1ms}}` + caught + `
transitions:
  - {id: one, from: a, to: b, foreach: {collection: input.l}}
  - {id: two, from: a, to: b, foreach: {collection: input.k}}
  - {id: three, from: a, to: b, foreach: {collection: input.m}}` + catch
	// Tokens: the start, one for each turn, and the last.
	working = head + `
nodes:
  - {id: a, task: echo}
  - {id: z}` + caught + `
transitions:
  - {from: a, to: a, id: again, condition: "count['again'] + 2 < input.n", loop: {maxIterations: 1000000}}
  - {from: a, to: z, priority: 1}` + catch
	inputting = `
name: x
start: s
%s
nodes:
  - {id: s, task: give, output: {state.v: result}}
  - {id: a, task: echo, input: {a: state.v, b: "''"}}` + caught + `
transitions:
  - {from: s, to: a}` + catch
	calling = head + `
nodes:
  - {id: a}
  - {id: b, subworkflow: {name: leaf}}
  - {id: z}` + caught + `
transitions:
  - {from: a, to: b, foreach: {collection: input.l}, siblingGroup: g, maxConcurrency: 50}
  - {from: b, to: z, synchronization: {siblingGroup: g}}` + catch
)

func bounds() []bound {
	e := func(limits string, b bound) bound { b.limits = limits; return b }
	foreach := bound{name: "foreach", most: 100_000, code: workflow.CodeLimit, says: "limit foreach: more than", yaml: spreading, input: items}
	live := bound{name: "liveTokens", most: 200_000, code: workflow.CodeLimit, says: "limit liveTokens: more than", yaml: spreadWide, input: func(n int) any {
		return map[string]any{"l": make([]int, n/3), "k": make([]int, n/3), "m": make([]int, n-n/3*2)}
	}, fatal: true, slow: true}
	tokens := bound{name: "tokens", most: 1_000_000, code: workflow.CodeLimit, says: "limit tokens: more than", yaml: working, input: count, fatal: true, slow: true}
	size := bound{name: "payloadBytes of a result", most: 1 << 20, code: workflow.CodeResultTooLarge, says: "bytes, at most", yaml: giving, gives: func(n int) any { return text(n) }}
	into := bound{name: "payloadBytes of a task's input", most: 1 << 20, code: workflow.CodeLimit, says: "limit payloadBytes", yaml: inputting, gives: func(n int) any {
		return text(n - len(`{"a":,"b":""}`))
	}}
	depth := bound{name: "jsonDepth of a result", most: 128, code: workflow.CodeLimit, says: "limit jsonDepth", yaml: giving, gives: deep}
	made := bound{name: "jsonDepth of an expression", most: 128, code: workflow.CodeLimit, says: "jsonDepth exceeds", yaml: computing, input: func(n int) any { return map[string]any{"v": deep(n - 2)} }}
	depths := bound{name: "subworkflowDepth", most: 16, code: workflow.CodeLimit, says: "limit subworkflowDepth", yaml: recursing, input: count, fatal: true}
	children := bound{name: "descendants", most: 10_000, code: workflow.CodeLimit, says: "limit descendants", yaml: calling, input: items, slow: true}
	return []bound{
		foreach, e("limits: {foreach: 7}", foreach.at(7)),
		live, e("limits: {liveTokens: 9}", live.at(9)),
		tokens, e("limits: {tokens: 50}", tokens.at(50)),
		size, e("limits: {payloadBytes: 100}", size.at(100)),
		into, e("limits: {payloadBytes: 100}", into.at(100)),
		e("limits: {jsonDepth: 5}", depth.at(5)),
		e("limits: {jsonDepth: 5}", made.at(5)),
		depths, e("limits: {subworkflowDepth: 3}", depths.at(3)),
		children, e("limits: {descendants: 5}", children.at(5)),
		{name: "merged value", most: limits.MaxMergedBytes, code: workflow.CodeLimit, says: "limit mergedBytes", yaml: merging, gives: merged},
		{name: "fan-outs inside each other", most: limits.MaxNesting, code: workflow.CodeLimit, says: "limit nesting: more than 256", yaml: nesting, input: count, fatal: true},
		{name: "artifacts", most: limits.MaxArtifacts, code: workflow.CodeLimit, says: "limit artifacts", yaml: giving, gives: handOver},
		{name: "decisions of one message", most: limits.MaxPlan, code: workflow.CodeLimit, says: "limit plan: more than 500000", yaml: spinning, input: decisions, fatal: true, slow: true},
	}
}

func (b bound) at(most int) bound {
	b.most, b.slow = most, false
	return b
}

// merged gives the branches values that merge to n bytes: of 16 values and 17
// brackets and commas.
func merged(n int) any {
	return func(_ context.Context, task pawl.Task) (any, error) {
		each := (n - 17) / 16
		if task.Branch.Index < (n-17)%16 {
			each++
		}
		return text(each), nil
	}
}

// handOver gives n artifacts.
func handOver(n int) any {
	return func(ctx context.Context, task pawl.Task) (any, error) {
		ref, err := task.Put(ctx, bytes.NewReader([]byte("x")), "text/plain")
		if err != nil {
			return nil, err
		}
		r := pawl.Result{Artifacts: make([]pawl.Artifact, n)}
		for i := range r.Artifacts {
			r.Artifacts[i] = pawl.Artifact{Name: fmt.Sprint("a", i), Blob: ref}
		}
		return r, nil
	}
}

// decisions lets a run turn so often that it takes n decisions, or one more: each
// turn is two, and six begin and end it.
func decisions(n int) any { return count((n - 5) / 2) }

// TestNodesAndRunsBeyondALimit: runs within a limit complete; beyond it the node
// fails with the code of the limit, which can be caught, or the run does, which
// cannot.
func TestNodesAndRunsBeyondALimit(t *testing.T) {
	harness.InTurn(t, 4)
	w, c, level := open(t), tally{}, harness.CurrentLevel()
	_, err := w.Publish(t.Context(), define(t, "{name: leaf, start: a, nodes: [{id: a}]}"))
	require.NoError(t, err)
	for _, b := range bounds() {
		if b.slow && level < harness.Release || b.most >= 10_000 && level < harness.Gate {
			continue
		}
		t.Run(b.name+" "+b.limits, func(t *testing.T) {
			for _, n := range []int{b.most - 1, b.most, b.most + 1} {
				c.tried++
				w.t = t
				out := w.bounded(b, n)
				if n <= b.most {
					require.NoError(t, out.Err(), "%d", n)
					c.taken++
					continue
				}
				c.refused++
				code, message := out.Output["code"], out.Output["message"]
				if b.fatal {
					require.Equal(t, workflow.RunFailed, out.Status)
					code, message = out.Failure.Code, out.Failure.Message
				} else {
					require.NoError(t, out.Err(), "it can be caught")
				}
				require.Equal(t, b.code, code, message)
				require.Contains(t, message, b.says)
			}
		})
	}
	w.t = t
	c.report(t, "what nodes and runs meet")
}

// bounded ends a run of b at n.
func (w *world) bounded(b bound, n int) workflow.Outcome {
	w.t.Helper()
	if b.input == nil {
		b.input = nothing
	}
	if b.gives == nil {
		b.gives = nothing
	}
	d := define(w.t, b.yaml, b.limits)
	d.Version = 1 + w.next%math.MaxInt32
	if d.Name == "self" {
		_, err := w.Publish(w.t.Context(), d)
		require.NoError(w.t, err)
	}
	return w.end(d, b.input(n), b.gives(n))
}
