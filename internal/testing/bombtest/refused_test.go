package bombtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// waiting is a definition whose runs wait for everything that a caller may give.
const waiting = `
name: waiting
start: s
signals: [news]
%s
nodes:
  - {id: s}
  - {id: t, task: hold}
  - {id: gate, approval: {quorum: 100000, rejectQuorum: 100000}}
  - {id: b, wait: {event: never}}
  - {id: z}
transitions:
  - {from: s, to: t}
  - {from: s, to: gate}
  - {from: s, to: b, foreach: {collection: "[1]"}, siblingGroup: g, open: true}
  - {from: b, to: z, synchronization: {siblingGroup: g}}
`

// A giver gives a value to a run; nil gives it as an input.
type giver struct {
	give func(w *world, id workflow.RunID, v any) error
}

var givers = map[string]giver{
	"signal": {give: func(w *world, id workflow.RunID, v any) error {
		return w.Signal(w.t.Context(), id, workflow.Signal{Name: "news", Payload: v})
	}},
	"vote": {give: func(w *world, id workflow.RunID, v any) error {
		w.next++
		return w.Vote(w.t.Context(), pawl.Target{Run: id, Node: "gate"}, workflow.Ballot{By: fmt.Sprint("v", w.next), Data: v})
	}},
	"branch": {give: func(w *world, id workflow.RunID, v any) error {
		return w.AddBranch(w.t.Context(), pawl.GroupTarget{Run: id, Group: "g"}, v)
	}},
	"skip": {give: func(w *world, id workflow.RunID, v any) error {
		w.settled(id)
		return w.Skip(w.t.Context(), pawl.Target{Run: id, Node: "t"}, v)
	}},
	"input": {},
}

// sizes are how the value of a giver may be too much.
var sizes = []struct {
	limit, key string
	lowered    int
	deflt      int
	beyond     int // also refused, before it is looked at closely
	of         func(n int) any
}{
	{"payloadBytes", "payloadBytes", 1000, 1 << 20, 20 << 20, func(n int) any { return object(n) }},
	{"jsonDepth", "jsonDepth", 5, 128, 10_001, func(n int) any { return map[string]any{"v": deep(n - 1)} }},
}

// TestCallersBeyondALimit: what a caller gives is taken at the limit and refused
// beyond it, with a *workflow.LimitError that names the limit and its value, and
// the run is as it was.
func TestCallersBeyondALimit(t *testing.T) {
	w, c := open(t), tally{}
	for name, g := range givers {
		for _, s := range sizes {
			for _, most := range []int{s.lowered, s.deflt} {
				limits := ""
				if most == s.lowered {
					limits = fmt.Sprintf("limits: {%s: %d}", s.key, most)
				}
				d := define(t, waiting, limits)
				for _, n := range harness.Figure([]int{most, most + 1}, []int{most - 1, most, most + 1, s.beyond}, []int{most - 1, most, most + 1, s.beyond}) {
					c.tried++
					at := fmt.Sprintf("%s, %s %d of %d", name, s.limit, n, most)
					if g.give == nil {
						w.startWith(&c, d, s.of(n), n > most, at, s.limit, most)
						continue
					}
					id := w.begin(d, nil)
					before := w.digest(id)
					if name == "skip" {
						w.settled(id)
						before = w.digest(id)
					}
					err := g.give(w, id, s.of(n))
					c.judge(t, err, n > most, at, s.limit, most)
					if n > most {
						require.Equal(t, before, w.digest(id), at)
					} else {
						require.NotEqual(t, before, w.digest(id), at)
					}
					require.NoError(t, w.Cancel(t.Context(), id, ""))
				}
			}
		}
	}
	c.report(t, "what callers give")
}

// judge checks that something was refused by a limit, or taken.
func (c *tally) judge(t *testing.T, err error, refused bool, at, limit string, most int) {
	t.Helper()
	if !refused {
		require.NoError(t, err, at)
		c.taken++
		return
	}
	var le *workflow.LimitError
	require.ErrorAs(t, err, &le, at)
	require.Equal(t, limit, le.Limit, at)
	if le.Max != int64(most) { // what is far beyond is refused by the engine's own bound
		require.Greater(t, le.Max, int64(most), at)
	}
	c.refused++
}

func (w *world) startWith(c *tally, d *workflow.Definition, input any, refused bool, at, limit string, most int) {
	w.t.Helper()
	id := w.fresh()
	err := w.Start(w.t.Context(), workflow.Run{ID: id, Definition: d}, input)
	c.judge(w.t, err, refused, at, limit, most)
	if refused {
		_, err = w.Inspect(w.t.Context(), id)
		require.ErrorIs(w.t, err, pawl.ErrRunNotFound, at)
		return
	}
	require.NoError(w.t, w.Cancel(w.t.Context(), id, ""))
}

// TestCountsBeyondALimit: as many as the limit are taken one after another, and
// the next is refused.
func TestCountsBeyondALimit(t *testing.T) {
	harness.InTurn(t, 4)
	w, c := open(t), tally{}
	for _, s := range []struct {
		limits, limit string
		giver         string
		most, there   int // those that are there at the beginning
	}{
		{"", "signals", "signal", limits.MaxSignals, 0}, // left out of a quick run: it takes long
		{"", "votes", "vote", limits.MaxVotes, 0},
		{"limits: {signalBytes: 21}", "signalBytes", "signal", 5, 0}, // of null
		{"limits: {foreach: 5}", "foreach", "branch", 5, 1},
		{"limits: {liveTokens: 7}", "liveTokens", "branch", 7, 3},
		{"limits: {tokens: 9}", "tokens", "branch", 9, 4},
	} {
		if s.most > 5000 && harness.CurrentLevel() == harness.Quick {
			continue
		}
		id := w.begin(define(t, waiting, s.limits), nil)
		w.settled(id)
		for n := s.there + 1; n <= s.most; n++ {
			c.tried++
			c.judge(t, givers[s.giver].give(w, id, nil), false, s.limit, s.limit, s.most)
		}
		before := w.digest(id)
		for range 2 {
			c.tried++
			c.judge(t, givers[s.giver].give(w, id, nil), true, s.limit, s.limit, s.most)
		}
		require.Equal(t, before, w.digest(id), s.limit)
		require.NoError(t, w.Cancel(t.Context(), id, ""))
	}
	c.report(t, "how many callers give")
}

// TestPatchesBeyondALimit: a patch has at most so many operations.
func TestPatchesBeyondALimit(t *testing.T) {
	w, c := open(t), tally{}
	id := w.begin(define(t, waiting, ""), nil)
	w.settled(id)
	for i, n := range []int{limits.MaxPatch - 1, limits.MaxPatch, limits.MaxPatch + 1, harness.Figure(20_000, 100_000, 100_000)} {
		c.tried++
		ops := make([]any, n)
		for k := range ops {
			ops[k] = map[string]any{"op": "add", "path": "/nodes/t/priority", "value": i + 1}
		}
		before := w.digest(id)
		_, err := w.Patch(t.Context(), id, pawl.Patch{Base: min(i, 2) + 1, Ops: ops})
		c.judge(t, err, n > limits.MaxPatch, fmt.Sprint(n, " operations"), "patch", limits.MaxPatch)
		require.Equal(t, n > limits.MaxPatch, before == w.digest(id))
	}
	c.report(t, "operations of a patch")
}

// TestIDsBeyondALimit: an id has at most 255 bytes.
func TestIDsBeyondALimit(t *testing.T) {
	w, d := open(t), define(t, "{name: x, start: a, nodes: [{id: a}]}")
	for n := 254; n <= 257; n++ {
		err := w.Start(t.Context(), workflow.Run{ID: workflow.RunID(strings.Repeat("i", n)), Definition: d}, nil)
		require.Equal(t, n > limits.MaxRunID, errors.Is(err, pawl.ErrInvalid), n)
	}
}

// TestDefinitionsBeyondALimit: nodes, transitions, bytes and the source of an
// expression, one less than the limit, at it and beyond.
func TestDefinitionsBeyondALimit(t *testing.T) {
	harness.InTurn(t, 4)
	w, c := open(t), tally{}
	for name, s := range map[string]struct {
		most int
		make func(n int) *workflow.Definition
	}{
		"nodes": {limits.MaxNodes, func(n int) *workflow.Definition {
			d := &workflow.Definition{Name: "x", Mode: workflow.ModeDAG}
			for i := range n {
				d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("n", i))})
			}
			return d
		}},
		"transitions": {limits.MaxTransitions, func(n int) *workflow.Definition {
			d := &workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a"}, {ID: "b"}}}
			for range n {
				d.Transitions = append(d.Transitions, workflow.Transition{From: "a", To: "b"})
			}
			return d
		}},
		"bytes": {limits.MaxDefinitionBytes, func(n int) *workflow.Definition {
			d := &workflow.Definition{Name: "x", Version: n, Start: "a", Nodes: []workflow.Node{{ID: "a"}}}
			d.State.Initial = map[string]any{"s": ""}
			raw, err := d.MarshalJSON()
			require.NoError(t, err)
			d.State.Initial["s"] = strings.Repeat("x", n-len(raw))
			return d
		}},
		"source": {limits.MaxExpression, func(n int) *workflow.Definition {
			return &workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a", Output: map[string]string{"state.s": "'" + strings.Repeat("x", n-2) + "'"}}}}
		}},
		"loop": {workflow.DefaultLimits().Loop, func(n int) *workflow.Definition {
			return &workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t"}}, Transitions: []workflow.Transition{{From: "a", To: "a", Loop: &workflow.Loop{MaxIterations: n}}}}
		}},
	} {
		for _, n := range []int{s.most - 1, s.most, s.most + 1} {
			if n <= s.most && s.most >= 10_000 && harness.CurrentLevel() == harness.Quick {
				continue
			}
			c.tried++
			d := s.make(n)
			d.Version = n
			_, err := w.Publish(t.Context(), d)
			if n <= s.most {
				require.NoError(t, err, "%s %d", name, n)
				c.taken++
				continue
			}
			var de *workflow.DefinitionError
			require.ErrorAs(t, err, &de, "%s %d", name, n)
			c.refused++
		}
	}
	c.report(t, "definitions")
}
