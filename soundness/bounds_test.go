package soundness_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

// TestBounds says which bound was reached, and then tells nothing that needs all states.
func TestBounds(t *testing.T) {
	text, err := os.ReadFile("testdata/join_choice.yaml")
	require.NoError(t, err)
	d, err := workflow.ParseYAML(text)
	require.NoError(t, err)
	tests := []struct {
		name string
		o    soundness.Options
		want string
	}{
		{"states", soundness.Options{States: 2}, "not all states were looked at: the search ends at 2"},
		{"plans", soundness.Options{Plans: 3}, "only 3 plans were made"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := soundness.Check(d, tt.o)
			require.NoError(t, err)
			require.False(t, r.Complete)
			require.Equal(t, []string{tt.want}, r.Bounds)
			require.Empty(t, r.Faults())
			require.Contains(t, r.String(), "undecided: "+tt.want)
		})
	}
}

// TestTheWholeRunIsRead: a condition may read the variable run as a whole, which has instants.
func TestTheWholeRunIsRead(t *testing.T) {
	d, err := workflow.ParseYAML([]byte(`{name: whole, start: a, nodes: [{id: a}, {id: b}], transitions: [{from: a, to: b, condition: "'id' in run"}]}`))
	require.NoError(t, err)
	r, err := soundness.Check(d, soundness.Options{})
	require.NoError(t, err)
	require.Empty(t, r.Faults())
}

// TestLikeBranchesAreOne explores a fan-out of 30 alike: its states are as many as there are
// numbers of branches that have arrived and failed, not as there are sets of them.
func TestLikeBranchesAreOne(t *testing.T) {
	d, err := workflow.ParseYAML([]byte(`
name: wide
start: begin
nodes: [{id: begin}, {id: part, task: work}, {id: sum, task: work}]
transitions:
  - {from: begin, to: part, spawnCount: 30, siblingGroup: parts}
  - {from: part, to: sum, synchronization: {siblingGroup: parts}}
`))
	require.NoError(t, err)
	r, err := soundness.Check(d, soundness.Options{})
	require.NoError(t, err)
	require.True(t, r.Complete, "%v", r)
	require.Empty(t, r.Faults())
	require.Less(t, r.States, 100)
}

// TestRunsWithTooManyTokens are not followed, which is said.
func TestRunsWithTooManyTokens(t *testing.T) {
	d, err := workflow.ParseYAML([]byte(`
name: crowd
start: begin
nodes: [{id: begin}, {id: part, task: work}]
transitions: [{from: begin, to: part, spawnCount: 600}]
`))
	require.NoError(t, err)
	r, err := soundness.Check(d, soundness.Options{})
	require.NoError(t, err)
	require.False(t, r.Complete)
	require.Equal(t, []string{"runs that make more than 500 threads were not followed"}, r.Bounds)
}

func TestAnInvalidDefinition(t *testing.T) {
	_, err := soundness.Check(&workflow.Definition{Name: "none"}, soundness.Options{})
	var invalid *workflow.DefinitionError
	require.ErrorAs(t, err, &invalid)
}

// TestNoTimeout warns of tasks that may stay out for ever, unless the engine looks after them.
func TestNoTimeout(t *testing.T) {
	d, err := workflow.ParseYAML([]byte("name: a\nstart: b\nnodes: [{id: b, task: c}]\n"))
	require.NoError(t, err)
	r, err := soundness.Check(d, soundness.Options{})
	require.NoError(t, err)
	require.Empty(t, r.Faults())
	require.Len(t, r.Findings, 1)
	require.Equal(t, soundness.NoTimeout, r.Findings[0].Code)
	r, err = soundness.Check(d, soundness.Options{StallAfter: true})
	require.NoError(t, err)
	require.Empty(t, r.Findings)
}

// TestConditionsThatNoValueMakesTrue are told: what is behind them was not looked at.
func TestConditionsThatNoValueMakesTrue(t *testing.T) {
	for condition, decided := range map[string]bool{
		"result.y == 'zz'":               true,
		"result.y.size() * 7 == 91":      false,
		"result.y.matches('^a{7}b$')":    false,
		"result.y > 3 && result.y < 2":   true, // whatever it is
		"'it is' == 'never true'":        true,
		"result.y * result.y == 1522756": false,
	} {
		d, err := workflow.ParseYAML([]byte(`
name: far
start: a
nodes: [{id: a, task: x, timeout: 1m}, {id: b}, {id: c}]
transitions:
  - {from: a, to: b, condition: "` + condition + `"}
  - {from: a, to: c, priority: 1}
`))
		require.NoError(t, err)
		r, err := soundness.Check(d, soundness.Options{})
		require.NoError(t, err)
		require.Equal(t, decided, r.Complete, condition)
		if !decided {
			require.Equal(t, []string{`no value was found for which transition "a->b" is taken: its condition is ` + condition}, r.Bounds)
		}
	}
}

// TestBoundsOfSchemas makes up values that schemas allow, whatever bounds they have: without one, a node that needs it could never end,
// and nothing behind it would be looked at.
func TestBoundsOfSchemas(t *testing.T) {
	for _, bounds := range []string{
		`type: number, exclusiveMinimum: 0, exclusiveMaximum: 1`,
		`type: number, minimum: 0.5, maximum: 0.75`,
		`type: number, exclusiveMinimum: 0.5, maximum: 0.75`,
		`type: number, exclusiveMaximum: 0.1`,
		`type: integer, exclusiveMinimum: 7`,
		`type: integer, exclusiveMaximum: -7`,
		`type: integer, exclusiveMinimum: 3.5, exclusiveMaximum: 4.5`,
		`type: integer, minimum: 2.5`,
		`type: integer, minimum: 0, exclusiveMinimum: 10`,
		`type: integer, exclusiveMaximum: -3.5`,
		`type: number, minimum: 5, maximum: 5`,
		`type: string, minLength: 3`,
		`type: array, minItems: 2, items: {type: number, exclusiveMinimum: 0, maximum: 0.1}`,
	} {
		d, err := workflow.ParseYAML([]byte(`
name: bounds
start: rate
nodes: [{id: rate, task: work, outputSchema: {type: object, required: [score], properties: {score: {` + bounds + `}}}}, {id: last, task: work}]
transitions: [{from: rate, to: last}]
`))
		require.NoError(t, err)
		r, err := soundness.Check(d, soundness.Options{})
		require.NoError(t, err)
		require.True(t, r.Complete, "%s: %v", bounds, r)
		require.Empty(t, r.Faults(), bounds)
	}
}

// TestStop ends the search at many of the moments at which it asks. It says so, asks for no more, and claims no fault that the
// whole search does not find.
func TestStop(t *testing.T) {
	for _, name := range []string{"join_choice", "type_sum", "loop_counter"} {
		text, err := os.ReadFile("testdata/" + name + ".yaml")
		require.NoError(t, err)
		d, err := workflow.ParseYAML(text)
		require.NoError(t, err)
		asked := 0
		whole, err := soundness.Check(d, soundness.Options{Stop: func() bool { asked++; return false }})
		require.NoError(t, err)
		require.NotEmpty(t, whole.Faults())
		require.Greater(t, asked, 10)
		for at := 1; at <= asked; at += 1 + at/8 {
			n := 0
			r, err := soundness.Check(d, soundness.Options{Stop: func() bool { n++; return n >= at }})
			require.NoError(t, err)
			require.Equal(t, at, n, "it asked again")
			require.Contains(t, r.Bounds, "the search was ended before it was done")
			require.False(t, r.Complete)
			for _, f := range r.Faults() {
				require.True(t, slices.ContainsFunc(whole.Faults(), func(g soundness.Finding) bool {
					return f.Code == g.Code && f.Node == g.Node && f.Transition == g.Transition
				}), "%d: %v", at, f)
			}
		}
	}
}

// TestScenariosHaveABound: each scenario repeats the definition, so that a large definition with many faults has some without.
func TestScenariosHaveABound(t *testing.T) {
	text := "name: large\nstart: n0\ninput: {schema: {description: " + strings.Repeat("x", 3<<20) + "}}\nnodes: [{id: n30}"
	for i := range 30 {
		text += fmt.Sprintf(", {id: n%d}", i)
	}
	text += "]\ntransitions:\n"
	for i := range 30 {
		text += fmt.Sprintf("  - {from: n%d, to: n%d}\n  - {from: n%d, to: n%d, priority: 1}\n", i, i+1, i, i+1)
	}
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	r, err := soundness.Check(d, soundness.Options{})
	require.NoError(t, err)
	require.Len(t, r.Faults(), 30)
	written, sum := 0, 0
	for _, f := range r.Faults() {
		if sum += len(f.Scenario); f.Scenario != "" {
			written++
		}
	}
	require.Equal(t, 21, written)
	require.LessOrEqual(t, sum, 64<<20)
	require.Contains(t, r.String(), "undecided: the scenarios of some faults were left out")
}

// TestManyFields asks for a field more than values are made of: each of the values would have all fields.
func TestManyFields(t *testing.T) {
	harness.InTurn(t, 4)
	text := "name: fields\nstart: a\nnodes: [{id: a, task: t}, {id: b, task: t}]\ntransitions:\n"
	for i := range 700 {
		text += fmt.Sprintf("  - {from: a, to: b, id: t%d, priority: %d, condition: has(result.f%d) && result.f%d == 1}\n", i, i, i, i)
	}
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	r, err := soundness.Check(d, soundness.Options{})
	require.NoError(t, err)
	require.Empty(t, r.Faults())
	require.Contains(t, r.Bounds, "result of a has so many fields that decide something that not all of their values were tried")
}

// TestMisses tells the expression for which no value was found, and where it is: the node whose result was made up may have nothing to do
// with it.
func TestMisses(t *testing.T) {
	const found = "no input was found with which a run begins: "
	tests := []struct{ name, text, want string }{
		{
			"an expression that always fails", "start: a\nnodes: [{id: a, output: {state.x: input.a + state.missing.foo}}]",
			found + `node "a": input.a + state.missing.foo: 1:24: no such key: missing; a schema of input may help`,
		},
		{
			"behind another one", "start: a\nnodes: [{id: a, output: {state.x: \"int(input.a)\", state.y: state.none.b}}]",
			found + `node "a": state.none.b: 1:11: no such key: none`,
		},
		{
			"a pattern", "start: a\ninput: {schema: {required: [k], properties: {k: {type: string, pattern: \"^[0-9]{3}-x$\"}}}}\nnodes: [{id: a, task: t}]",
			found + `input does not fit the schema: at "/k": it does not match the pattern "^[0-9]{3}-x$"`,
		},
		{
			"an earlier value", `start: a
nodes:
  - {id: a, task: t, output: {state.n: result.n}, outputSchema: {type: object, required: [n], properties: {n: {type: string}}}}
  - {id: b, task: t}
  - {id: c, task: t, input: {x: state.n * 2}}
transitions: [{from: a, to: b}, {from: b, to: c}]`,
			`at node "b" no value was found with which what follows can be evaluated: node "c": state.n * 2: 1:9: no such overload: _*_`,
		},
		{
			"a result without a schema", `start: a
nodes: [{id: a, task: t, output: {state.n: result.n}}, {id: b, task: t, input: {x: "state.n.matches('^[0-9]{3}-x$') ? 1 : state.none.a"}}]
transitions: [{from: a, to: b}]`,
			`at node "a" no value was found with which what follows can be evaluated: node "b": state.n.matches('^[0-9]{3}-x$') ? 1 : state.none.a: 1:16: no such overload: matches; an outputSchema of "a" may help`,
		},
		{
			"an event", "start: a\nnodes: [{id: a, wait: {event: e, match: \"payload.x.matches('^[0-9]{3}-x$')\"}}]",
			`at node "a" no value was found with which what follows can be evaluated: node "a": no payload was found that its match accepts`,
		},
		{
			"an approval", `start: a
nodes: [{id: a, approval: {message: x}, timeout: 1h, unmatched: fail}, {id: b}]
transitions: [{from: a, to: b, condition: result.aproved}]`,
			`at node "a" no value was found with which what follows can be evaluated: node "a": result.aproved: 1:7: no such key: aproved`,
		},
		{
			"a wait", "start: a\nnodes: [{id: a, wait: {event: e}, output: {state.x: result.paylod}}]",
			`at node "a" no value was found with which what follows can be evaluated: node "a": result.paylod: 1:7: no such key: paylod`,
		},
		{
			"a dag", "mode: dag\nnodes: [{id: a, task: a, timeout: 1s}, {id: b, task: b, needs: [a], timeout: 1s, input: {x: result.x}}]",
			`at node "a" no value was found with which what follows can be evaluated: node "b": result.x: 1:7: no such key: x`,
		},
		{
			"time", "start: a\nnodes: [{id: a, wait: {for: 1m}, output: {state.x: \"state.none.a\"}}]",
			`no value was found with which what follows when time passes, or a group gets a branch or is closed, can be evaluated: node "a": state.none.a: 1:11: no such key: none`,
		},
		{
			"a long one", "start: a\nnodes: [{id: a, output: {state.x: \"state.none" + strings.Repeat(" + 1", 90) + "\"}}]",
			found + `node "a": state.none` + strings.Repeat(" + 1", 47) + " +...: 1:6: no such key: none",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := workflow.ParseYAML([]byte("name: misses\ntimeout: 1h\n" + tt.text))
			require.NoError(t, err)
			r, err := soundness.Check(d, soundness.Options{})
			require.NoError(t, err)
			require.Equal(t, []string{tt.want}, r.Bounds)
		})
	}
}

// TestCyclesWithoutARun keep the code and the place of the warning of Definition.Check.
func TestCyclesWithoutARun(t *testing.T) {
	for text, want := range map[string]string{
		"nodes: [{id: a, task: t}, {id: b, task: t}]\ntransitions: [{from: a, to: b}, {from: b, to: a}]":                                     `warning: node "a": a cycle without a bounded loop or an exit: a -> b -> a; no run was found that shows it (endless_cycle)`,
		"nodes: [{id: a, task: t}, {id: b}]\ntransitions: [{from: a, to: b, condition: 'result.x * result.x == 1522756'}, {from: b, to: b}]": `warning: node "b": a cycle without a bounded loop or an exit: b -> b; no run was found that shows it (endless_cycle)`,
		`nodes: [{id: a, task: t}, {id: b, task: t}, {id: z}]
transitions:
  - {from: a, to: b, spawnCount: 2, siblingGroup: g, loop: {maxIterations: 2}}
  - {from: a, to: z, priority: 1}
  - {from: b, to: a, synchronization: {siblingGroup: g}}`: `warning: transition "a->b": this bound does not count across the join of "g": put the loop on the synchronizing transition, or on the way back; no run was found that shows it (endless_cycle)`,
	} {
		d, err := workflow.ParseYAML([]byte("name: cycles\ntimeout: 1h\nstart: a\n" + text))
		require.NoError(t, err)
		r, err := soundness.Check(d, soundness.Options{States: 100})
		require.NoError(t, err)
		require.Contains(t, r.String(), want)
		require.Empty(t, r.Faults())
	}
}

// TestTimersThatOthersOvertake fire behind shorter ones that begin anew as they end, and the search looks at what they lead to.
func TestTimersThatOthersOvertake(t *testing.T) {
	const ticking = `
start: begin
nodes:
  - {id: begin}
  - {id: tick, wait: {for: 1m}}
  - {id: deadline, wait: {for: 1h}, output: {state.over: "true"}}
`
	tests := map[string]struct {
		definition string
		want       []string
	}{
		"an end": {"name: a" + ticking + `  - {id: stop, end: complete}
transitions: [{from: begin, to: tick}, {from: begin, to: deadline}, {from: tick, to: tick}, {from: deadline, to: stop}]
`, nil},
		"the timeout of the run": {`
name: a
start: tick
timeout: 1h
nodes: [{id: tick, wait: {for: 1m}}, {id: tock, wait: {for: 1m}}]
transitions: [{from: tick, to: tock}, {from: tock, to: tick}]
`, nil},
		"behind a task that is polled": {`
name: a
start: begin
nodes: [{id: begin}, {id: tick, wait: {for: 1m}}, {id: poll, task: t, timeout: 30s}, {id: deadline, wait: {for: 1h}}, {id: stop, end: complete}]
transitions: [{from: begin, to: tick}, {from: begin, to: deadline}, {from: tick, to: poll}, {from: poll, to: tick}, {from: deadline, to: stop}]
`, nil},
		"nothing, as the run ends before": {`
name: a
start: begin
nodes: [{id: begin}, {id: a, wait: {for: 1m}}, {id: b, wait: {for: 1m}}, {id: deadline, wait: {for: 1h}}, {id: meet, join: all}, {id: stop, end: complete}]
transitions:
  - {from: begin, to: a}
  - {from: begin, to: deadline}
  - {from: a, to: b}
  - {from: b, to: stop}
  - {from: b, to: meet, condition: "false", priority: -1}
  - {from: deadline, to: meet}
`, nil},
		"a deadlock": {"name: a" + ticking + `  - {id: pick, task: t, timeout: 1h}
  - {id: meet, join: all}
transitions:
  - {from: begin, to: tick}
  - {from: begin, to: deadline}
  - {from: tick, to: meet, condition: has(state.over)}
  - {from: tick, to: tick, priority: 1}
  - {from: deadline, to: pick}
  - {from: pick, to: meet, condition: result.ok}
`, []string{"deadlock at meet"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d, err := workflow.ParseYAML([]byte(tt.definition))
			require.NoError(t, err)
			r, err := soundness.Check(d, soundness.Options{})
			require.NoError(t, err)
			require.True(t, r.Complete, "%v", r)
			var found []string
			for _, f := range r.Faults() {
				found = append(found, f.Code+" at "+string(f.Node))
				playScenario(t, f)
			}
			require.Equal(t, tt.want, found, "%v", r)
		})
	}
}

// TestSchemasOfLargeValues are told: neither lists of long lists nor many fields with such are made up.
func TestSchemasOfLargeValues(t *testing.T) {
	long := func(items string) string { return "{type: array, minItems: 100, items: " + items + "}" }
	var fields []string
	for i := range 101 {
		fields = append(fields, fmt.Sprintf("f%d: %s", i, long("{type: integer}")))
	}
	for name, tt := range map[string]struct {
		schema string
		told   bool
	}{
		"a list of lists of lists": {long(long(long("{type: integer}"))), true},
		"many lists":               {"{type: object, required: [f0], properties: {" + strings.Join(fields, ", ") + "}}", true},
		"a list":                   {long("{type: object, properties: {a: {type: integer}, b: {type: string}}}"), false},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := workflow.ParseYAML([]byte(`
name: large
start: a
input: {schema: {type: object, required: [x], properties: {x: ` + tt.schema + `}}}
nodes: [{id: a}]
`))
			require.NoError(t, err)
			r, err := soundness.Check(d, soundness.Options{})
			require.NoError(t, err)
			require.Equal(t, tt.told, slices.Contains(r.Bounds, "a schema asks for values with more than 10000 others in them, which were not tried"), "%v", r)
			require.Equal(t, !tt.told, r.Complete, "%v", r)
		})
	}
}
