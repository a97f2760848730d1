//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
	"github.com/pawl-run/pawl/workflow"
)

type (
	object = map[string]any
	list   = []any
)

func js(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// doubling is a schema of few bytes that applies 2^n schemas to one value.
func doubling(n int) object {
	defs := object{"a0": object{"type": "integer"}}
	for i := range n {
		below := object{"$ref": fmt.Sprint("#/$defs/a", i)}
		defs[fmt.Sprint("a", i+1)] = object{"allOf": list{below, below}}
	}
	return object{"$defs": defs, "$ref": fmt.Sprint("#/$defs/a", n)}
}

// taking returns a definition of one node, with fields of its own.
func taking(schema any) object {
	return object{"name": "x", "start": "a", "input": object{"schema": schema}, "nodes": list{object{"id": "a"}}}
}

func nodes(nodes ...any) object { return object{"name": "x", "start": "a", "nodes": nodes} }

// Texts that are refused before a run begins.
func refusedTexts() map[string]struct {
	text, want string
} {
	laughs := "a: &a [x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'n'; c++ {
		laughs += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	many := object{}
	for i := range 2_000 {
		many[fmt.Sprint("f", i)] = fmt.Sprintf("input.a * %d + input.b", i)
	}
	type refusal = struct{ text, want string }
	return map[string]refusal{
		"YAML tags":          {"%TAG ! tag:" + strings.Repeat("x", 25_000) + "\n---\n" + strings.Repeat("- !y z\n", 4_000), "syntax"},
		"YAML aliases":       {laughs, "syntax"},
		"a large text":       {`{"name": "` + strings.Repeat("x", 8<<20) + `"}`, "too_large"},
		"a deep text":        {`{"state": {"initial": ` + strings.Repeat("[", 30_000), "too_large"},
		"many expressions":   {js(nodes(object{"id": "a", "task": "transform", "input": many})), "too_large"},
		"a doubling schema":  {js(taking(doubling(40))), "schema"},
		"a pattern":          {js(taking(object{"pattern": strings.Repeat("a?", 900)})), "schema"},
		"a large expression": {js(nodes(object{"id": "a", "output": object{"output.x": strings.Repeat("1+", 20_000) + "1"}})), "too_large"},
		"a task of the host": {js(nodes(object{"id": "a", "task": "shell"})), "unknown_value"},
		"a child run":        {js(nodes(object{"id": "a", "subworkflow": object{"name": "bob.x", "version": 1}})), "unknown_value"},
		"endless retries":    {js(nodes(object{"id": "a", "task": "fetch", "retry": object{"maxAttempts": 1_000_000}})), "unknown_value"},
		"a million loops":    {`{"name": "x", "start": "a", "nodes": [{"id": "a"}], "transitions": [{"from": "a", "to": "a", "loop": {"maxIterations": 1000000}}]}`, "out_of_range"},
	}
}

// These are refused before anything of them is kept, in YAML as well.
func TestTextsThatAreRefused(t *testing.T) {
	s := beginSiege(t, offers{})
	for name, attack := range refusedTexts() {
		s.withstand(name, func(t *testing.T) {
			_, err := s.start(t.Context(), "eve", []byte(attack.text), nil)
			var refused *workflow.DefinitionError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, attack.want, refused.Problems[0].Code, "%.500s", err)
		})
		if strings.HasPrefix(name, "YAML") {
			s.withstand(name+" where YAML is taken", func(t *testing.T) {
				_, err := bounds().ParseYAML([]byte(attack.text))
				var refused *workflow.DefinitionError
				require.ErrorAs(t, err, &refused)
			})
		}
	}
	assertNothingIsKept(t, s)
}

func assertNothingIsKept(t *testing.T, s *siege) {
	for r, err := range s.engine.Runs(t.Context(), pawl.RunFilter{Prefix: "eve:"}) {
		require.NoError(t, err)
		assert.Fail(t, "a run was kept", r.Run)
	}
}

// asking returns a definition of one task, whose input are expressions.
func asking(task string, input object) object {
	return nodes(object{"id": "a", "task": task, "input": input, "output": object{"output.got": "result"}})
}

// Runs that begin, and end at a bound.
func boundedRuns(partner string) map[string]struct {
	def   object
	input any
	want  string
} {
	type attack = struct {
		def   object
		input any
		want  string
	}
	const cube = "input.xs.map(a, input.xs.map(b, input.xs.map(c, a * b * c)))"
	hundred, long := object{"xs": make([]int, 100)}, object{"x": strings.Repeat("a", 40_000)}
	fetch := func(url string) attack {
		return attack{asking("fetch", object{"url": "'" + url + "'"}), nil, handler.CodeHTTPDenied}
	}
	_, port, _ := strings.Cut(partner, ":")
	return map[string]attack{
		"steps of an expression":      {nodes(object{"id": "a", "output": object{"output.x": cube}}), hundred, "limit_exceeded"},
		"steps of one that is data":   {asking("transform", object{"expression": "'data.map(a, data.map(b, data.map(c, a * b * c)))'", "data": "input.xs"}), hundred, "limit_exceeded"},
		"a result that is too large":  {asking("transform", object{"expression": "'[data, data]'", "data": "input.x"}), long, "limit_exceeded"},
		"a state that doubles":        {growing("state.x + state.x"), long, "limit_exceeded"},
		"a state that grows":          {growing("state.x + input.x"), long, "limit_exceeded"},
		"a pattern":                   {nodes(object{"id": "a", "output": object{"output.x": "input.x.matches('((a{10}b){10}c){10}d{900}e{900}')"}}), long, "limit_exceeded"},
		"branches":                    {spawning(1_900), nil, "limit_exceeded"},
		"a cycle":                     {object{"name": "x", "limits": object{"tokens": 1_000_000}, "start": "a", "nodes": list{object{"id": "a"}}, "transitions": list{object{"from": "a", "to": "a"}}}, nil, "limit_exceeded"},
		"this machine":                fetch("http://127.0.0.1:" + port),
		"this machine by name":        fetch("http://localhost:" + port),
		"full-width letters":          fetch("http://ｌocalhost:" + port),
		"the metadata of a cloud":     fetch("http://169.254.169.254/latest/meta-data"),
		"another host as partner":     {asking("partner", object{"url": "'http://localhost:" + port + "'"}), nil, handler.CodeHTTPDenied},
		"another protocol (101)":      {asking("partner", object{"url": "'http://" + partner + "'"}), nil, "http_1xx"},
		"a program":                   {asking("count", object{"argv": "['sh', '-c', 'id']"}), nil, handler.CodeInvalidInput},
		"a variable":                  {asking("count", object{"operands": "['x']", "env": "{'LD_PRELOAD': '/tmp/x.so'}"}), nil, handler.CodeExecDenied},
		"an option as second operand": {asking("count", object{"operands": "['x', '--file=/etc/passwd']"}), nil, handler.CodeInvalidInput},
	}
}

// growing returns a definition that writes an expression into its state, in a loop of the
// highest number of rounds.
func growing(expression string) object {
	return object{"name": "x", "start": "a", "state": object{"initial": object{"x": ""}}, "nodes": list{
		object{"id": "a", "output": object{"state.x": "input.x"}}, object{"id": "b", "output": object{"state.x": expression}},
	}, "transitions": list{
		object{"from": "a", "to": "b"}, object{"from": "b", "to": "b", "loop": object{"maxIterations": 100}},
	}}
}

// spawning returns a definition that fans out twice, n branches of n.
func spawning(n int) object {
	return object{"name": "x", "start": "a", "nodes": list{object{"id": "a"}, object{"id": "b"}, object{"id": "c"}}, "transitions": list{
		object{"from": "a", "to": "b", "spawnCount": n}, object{"from": "b", "to": "c", "spawnCount": n},
	}}
}

func TestRunsThatEndAtABound(t *testing.T) {
	partner := switching(t)
	s := beginSiege(t, offers{partner: partner})
	for name, attack := range boundedRuns(partner) {
		s.withstand(name, func(t *testing.T) {
			id, err := s.start(t.Context(), "eve", []byte(js(attack.def)), attack.input)
			require.NoError(t, err)
			s.goOn() // while it runs
			outcome, err := s.engine.Wait(t.Context(), id)
			require.NoError(t, err)
			require.NotNil(t, outcome.Failure)
			assert.Equal(t, attack.want, outcome.Failure.Code, outcome.Failure.Message)
		})
	}
}

// The program looks for an operand that looks like an option, and does not obey it.
func TestOperandsAreNoOptions(t *testing.T) {
	s := beginSiege(t, offers{})
	for _, operand := range []string{"--file=/etc/passwd", "--version", "-r", "--"} {
		s.withstand(operand, func(t *testing.T) {
			def := asking("count", object{"operands": "[input.operand]", "stdin": "input.operand", "text": "true"})
			id, err := s.start(t.Context(), "eve", []byte(js(def)), object{"operand": operand})
			require.NoError(t, err)
			outcome, err := s.engine.Wait(t.Context(), id)
			require.NoError(t, err)
			require.NoError(t, outcome.Err())
			assert.Equal(t, "1\n", outcome.Output["got"].(object)["stdout"])
		})
	}
}

// Inputs and signals have bounds of their own, and so has the number of them.
func TestInputsAndSignalsAreBounded(t *testing.T) {
	s := beginSiege(t, offers{})
	var deep any = int64(1)
	for range 25 {
		deep = list{deep}
	}
	twice := object{"items": object{"$ref": "#/$defs/twice"}}
	doubling := object{"$defs": object{"twice": object{"allOf": list{twice, twice}}}, "properties": object{"x": object{"$ref": "#/$defs/twice"}}}
	for name, attack := range map[string]struct {
		schema object
		input  any
		limit  string
	}{
		"a large input":            {object{}, object{"x": strings.Repeat("x", 70_000)}, "payloadBytes"},
		"a deep input":             {object{}, object{"x": list{list{list{list{list{list{list{list{deep}}}}}}}}}, "jsonDepth"},
		"an input that is checked": {doubling, object{"x": deep}, "schemaCost"},
	} {
		s.withstand(name, func(t *testing.T) {
			_, err := s.start(t.Context(), "eve", []byte(js(taking(attack.schema))), attack.input)
			var limit *workflow.LimitError
			require.ErrorAs(t, err, &limit)
			assert.Equal(t, attack.limit, limit.Limit)
		})
	}
	def := nodes(object{"id": "a", "wait": object{"event": "never"}})
	def["signals"] = list{"spam"}
	id, err := s.start(t.Context(), "eve", []byte(js(def)), nil)
	require.NoError(t, err)
	s.withstand("signals", func(t *testing.T) {
		var unknown *workflow.SignalError
		require.ErrorAs(t, s.signal(t.Context(), "eve", id, "mistyped", nil), &unknown)
		var limit *workflow.LimitError
		require.ErrorAs(t, s.signal(t.Context(), "eve", id, "spam", strings.Repeat("x", 70_000)), &limit)
		for range maxSignals {
			err = errors.Join(err, s.signal(t.Context(), "eve", id, "spam", "x"))
		}
		require.ErrorIs(t, err, errTooMany)
		require.ErrorIs(t, s.signal(t.Context(), "eve", s.innocent, "go", nil), errNotYours)
	})
	s.withstand("runs", func(t *testing.T) {
		for range maxRuns - 1 {
			_, err := s.start(t.Context(), "eve", []byte(js(def)), nil)
			require.NoError(t, err)
		}
		_, err := s.start(t.Context(), "eve", []byte(js(def)), nil)
		require.ErrorIs(t, err, errTooMany)
		_, err = s.start(t.Context(), "bob", []byte(js(def)), nil)
		require.NoError(t, err)
		_, err = s.start(t.Context(), "eve:x", []byte(js(def)), nil)
		require.ErrorContains(t, err, "a colon")
	})
}
