package bombtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// expressions want to pass for false: their values are missing, of a wrong type
// or not bools.
func expressions() []string {
	return []string{
		// missing keys and indices
		"input.none", "input.none == 1", "input.none.deeper", "input['none']", "input.l[1000]", "input.l[-1]", "input.l['0']", "input.m[0]", "state.none > 0",
		"!input.none", "input.none || false", "false || input.none", "input.none && true", "input.none ? true : false", "input.l.exists(x, x.none)", "input.l.all(x, x.none == 1)",
		"nodes.gone.output == 1", "nodes.z.status == 'completed'", "count['gone'] > 0", "active['gone'] > 0", "has(input.none.deeper)", "has(input.n.x)",
		// type confusion
		"1", "0", "''", "'true'", "'false'", "null", "[]", "{}", "[false]", "input.n", "input.s", "input.l", "input.z", "now", "duration('1s')", "b'x'", "1.5", "type(input)",
		"input.n < 'a'", "input.s + 1 == 'a1'", "input.l + 1 == []", "input.m < input.m", "!input.n", "-input.s == 1", "input.n && true", "input.s || input.n", "input.z.x", "input.n.x", "input.s.x == 1",
		"int(input.s) > 0", "double('x') > 0.0", "timestamp('x') > now", "duration('x') > duration('1s')", "bool('maybe')", "input.s.matches('(')", "input.s.matches(input.n)",
		// arithmetic
		"1 / 0 == 1", "1 % 0 == 1", "9223372036854775807 + 1 > 0", "-9223372036854775807 - 2 < 0", "int(1e300) > 0", "input.n / (input.n - 7) > 0",
	}
}

// costly are expressions that want to be large, or to take for ever. Package
// internal/expr has 70 more.
func costly() []string {
	out := []string{
		"input.l.all(a, input.l.all(b, input.l.all(c, input.l.all(d, true))))", "input.l.map(a, input.l.map(b, input.l.map(c, input.l))).size() > 0",
		"input.l.filter(a, input.l.filter(b, input.l.filter(c, true).size() > 0).size() > 0).size() > 0", "lists.range(100000000).size() > 0", "lists.range(100000).map(x, lists.range(100000)).size() > 0",
		"input.big.matches('(a{1,30}){1,30}(a{1,30}){1,30}(a{1,30}){1,30}')", "input.l.map(x, input.big.matches('(a*)*(b*)*(x{1,100}y{1,10})*$')).size() > 0", "input.l.map(x, input.big.replace('', input.big)).size() > 0",
		"lists.range(60000).distinct().size() > 0", "input.l.map(x, input.big.split('')).size() > 0", "'%.1000000000f'.format([1.5]) == ''",
		"'a'.matches('" + strings.Repeat("a", 5000) + "')", "'a'.matches('" + strings.Repeat("a{999}|", 140) + "')",
	}
	double := `"0123456789"`
	for i := range 30 {
		double = fmt.Sprintf("cel.bind(x%d, %s, x%[1]d + x%[1]d)", i, double)
	}
	return append(out, double+" == ''", strings.Replace(double, `"0123456789"`, "[1]", 1)+" == []")
}

// refusedOutright are found before a run begins.
var refusedOutright = []string{
	"undeclared", "undeclared == 1", "input.l.map(x, y)", "item == 1", "nosuch(1)", "1 +", "1 < 'a'", "'a' + 1 == 'a'", "!1", "true && 1", "payload == 1", "input.s.nosuch()", "Message{}",
	strings.Repeat("(", 8000) + "true" + strings.Repeat(")", 8000), strings.Repeat("!", 200) + "(" + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + ")", strings.Repeat("-(", 5000) + "1" + strings.Repeat(")", 5000) + " == 1",
	"'" + strings.Repeat("a", 1<<20) + "' == ''", "false" + strings.Repeat("||false", 5000), "[" + strings.Repeat("input.l.map(x,x),", 1400) + "1] == []",
	strings.Repeat("true ? 1 : ", 1400) + "x", "input" + strings.Repeat(".a", 8000), strings.Repeat("[(", 8000), strings.Repeat("a.?[?:&&", 2000),
}

func celInput() map[string]any {
	l := make([]any, 100)
	for i := range l {
		l[i] = int64(i)
	}
	return map[string]any{"n": int64(7), "s": "text", "z": nil, "l": l, "m": map[string]any{"a": int64(1)}, "big": strings.Repeat("ab", 1<<18)}
}

// withExpression is a definition that asks an expression in one of the places
// where it decides something: what comes after it as if it were false is wrong.
func withExpression(place, source string) *workflow.Definition {
	d := &workflow.Definition{
		Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a"}, {ID: "z"}, {ID: "wrong", End: &workflow.EndSpec{Fail: "taken_as_false"}}},
		Transitions: []workflow.Transition{{From: "a", To: "z", Condition: source}, {From: "a", To: "wrong", Priority: 1}},
	}
	switch place {
	case "mapping":
		d.Nodes[0].Output = map[string]string{"state.ok": "(" + source + ") ? 1 : 2"}
		d.Transitions[0].Condition = ""
	case "foreach":
		d.Transitions[0].Condition, d.Transitions[0].Foreach = "", &workflow.Foreach{Collection: "(" + source + ") ? [1] : []"}
	case "until":
		d.Nodes[0].Wait = &workflow.WaitSpec{Until: "(" + source + ") ? now : now"}
		d.Transitions[0].Condition = ""
	}
	return d
}

// TestExpressionsAreNeverFalse: an expression that cannot be evaluated, or whose
// budget is spent, fails the node, wherever it stands, in bounded time of the
// processor; nothing takes it for false.
func TestExpressionsAreNeverFalse(t *testing.T) {
	harness.InTurn(t, 4)
	w, c, slowest := open(t), tally{}, time.Duration(0)
	cheap, level := expressions(), harness.CurrentLevel()
	for i, source := range append(cheap, costly()...) {
		places := []string{"condition", "mapping", "foreach", "until"}
		if level == harness.Quick || level == harness.Gate && i >= len(cheap) {
			places = places[:1]
		}
		if level == harness.Quick && i >= len(cheap) && i%8 > 0 {
			continue // package expr evaluates the like of each of them
		}
		for _, place := range places {
			c.tried++
			begin := processorTime(t)
			id := w.fresh()
			err := w.Start(t.Context(), workflow.Run{ID: id, Definition: withExpression(place, source)}, celInput())
			if err != nil { // its type is known
				var de *workflow.DefinitionError
				require.ErrorAs(t, err, &de, source)
			} else {
				out := w.outcome(id)
				require.Equal(t, workflow.RunFailed, out.Status, "%s %s", place, source)
				require.Contains(t, []string{workflow.CodeExpression, workflow.CodeLimit}, out.Failure.Code, "%s %s: %s", place, source, out.Failure.Message)
			}
			c.refused++
			slowest = max(slowest, processorTime(t)-begin)
		}
	}
	for _, source := range refusedOutright {
		c.tried++
		begin := processorTime(t)
		err := w.Start(t.Context(), workflow.Run{ID: w.fresh(), Definition: withExpression("condition", source)}, celInput())
		var de *workflow.DefinitionError
		require.ErrorAs(t, err, &de, "%.100s", source)
		c.refused++
		slowest = max(slowest, processorTime(t)-begin)
	}
	require.Less(t, slowest, 20*time.Second)
	c.report(t, fmt.Sprintf("expressions (the slowest took %v)", slowest.Round(time.Millisecond)))
}

// TestMatchesThatFail: an error in match is no match, and is told; the signal is
// kept for another.
func TestMatchesThatFail(t *testing.T) {
	w, c := open(t), tally{}
	for _, source := range []string{"payload.none", "payload", "1", "payload.n.x == 1", "input.l.all(a, input.l.all(b, input.l.all(c, input.l.all(d, true))))"} {
		d := withExpression("condition", "true")
		d.Nodes[0].Wait = &workflow.WaitSpec{Event: "e", Match: source}
		id := w.begin(d, celInput())
		require.NoError(t, w.Signal(t.Context(), id, workflow.Signal{Name: "e", Payload: map[string]any{"n": 1}}))
		snap, err := w.Inspect(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, workflow.RunRunning, snap.Status, source)
		require.Equal(t, 1, snap.Live)
		told := false
		for ev, err := range w.Events(t.Context(), id, pawl.EventsOptions{}) {
			require.NoError(t, err)
			told = told || ev.Type == workflow.EventSignalRejected
		}
		require.True(t, told, source)
		require.NoError(t, w.Cancel(t.Context(), id, ""))
		c.tried++
		c.refused++
	}
	c.report(t, "matches")
}

// TestCostBoundary: what an expression costs is exact: with one unit less than it
// needs it fails, with that and more it does not.
func TestCostBoundary(t *testing.T) {
	w, passed := open(t), 0
	for cost := 1; cost <= 60; cost++ {
		d := withExpression("condition", "input.l.all(x, x >= 0 && x < 4)")
		d.Limits.CELCost = uint64(cost)
		out := w.end(d, map[string]any{"l": []int{0, 1, 2, 3}}, nil)
		if out.Err() == nil {
			passed++
			continue
		}
		require.Zero(t, passed, "it passed with less")
		require.Equal(t, workflow.CodeLimit, out.Failure.Code)
	}
	require.Positive(t, passed)
	require.Less(t, passed, 60)
}
