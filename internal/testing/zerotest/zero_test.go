package zerotest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

var (
	only = flag.String("zero.only", "", "the start of the names to call")
	seed = flag.Uint64("zero.seed", 1, "of the arguments")
)

// A function is an exported one, or a method of a receiver.
type function struct {
	name string
	f    any
}

// A call is one call of a function.
type call struct {
	name string
	f    reflect.Value
	in   []reflect.Value
}

// handles are the types whose values come from a constructor only.
var handles = map[reflect.Type]bool{
	reflect.TypeFor[pawl.Engine]():              true,
	reflect.TypeFor[store.Dir]():                true,
	reflect.TypeFor[store.Run]():                true,
	reflect.TypeFor[store.Inspection]():         true,
	reflect.TypeFor[store.Snapshot]():           true,
	reflect.TypeFor[replay.Recording]():         true,
	reflect.TypeFor[actor.Actor]():              true,
	reflect.TypeFor[blob.Files]():               true,
	reflect.TypeFor[worker.Pool]():              true,
	reflect.TypeFor[worker.Client]():            true,
	reflect.TypeFor[workflow.Graph]():           true,
	reflect.TypeFor[workflow.GraphNode]():       true,
	reflect.TypeFor[workflow.GraphTransition](): true,
	reflect.TypeFor[workflow.Schema]():          true,
	reflect.TypeFor[state.State]():              true,
}

// helpers are functions of tests: as those of the standard library do, they panic
// without a testing.T.
var helpers = map[string]bool{"pawltest.Play": true, "pawltest.Run": true, "pawltest.RunWith": true}

// invariants are functions that change a state, or tell what is changed, as a
// planner has decided on that very state, or take a state with the records that made it.
// Their documentation says that they panic where the arguments are not of it: the engine
// takes that for a fault of the run.
func invariants(name string) bool {
	method, ofState := strings.CutPrefix(name, "state.State.")
	changes := func(verb string) bool { return strings.HasPrefix(method, verb) }
	return strings.HasSuffix(name, ".Adopt") || slices.Contains([]string{"decision.Apply", "decision.ApplyTo", "decision.Events", "decision.Evolve", "decision.Withdrawn", "state.Restore"}, name) ||
		ofState && slices.ContainsFunc([]string{"Add", "Append", "Drop", "Put", "Restore", "Set"}, changes)
}

// callers call the function that they are given, and do nothing else with it.
var callers = map[string]bool{"store.Inspection.ReadIndex": true, "store.Inspection.Rebuild": true, "store.Snapshot.Replay": true}

// trusting says whether a function is of a package that takes values of the JSON
// model from the packages above it, which have made them so.
func trusting(name string) bool {
	pkg, _, _ := strings.Cut(name, ".")
	return slices.Contains([]string{"actor", "decision", "merge", "planning", "store", "workflow"}, pkg)
}

// rounds is how often each function is called.
func rounds() int { return harness.Figure(4, 60, 3000) }

// Every exported function and method, called with nil, zero and odd arguments,
// returns: an error, or what its documentation says.
func TestZero(t *testing.T) {
	below := filepath.Join(t.TempDir(), "a", "b", "c")
	require.NoError(t, os.MkdirAll(below, 0o700))
	t.Chdir(below) // some make files where they are told to
	var targets []function
	for _, f := range functions {
		if !helpers[f.name] && !invariants(f.name) {
			targets = append(targets, f)
		}
	}
	for _, r := range receivers(t) {
		v := reflect.ValueOf(r.f)
		for i := range v.NumMethod() {
			name := r.name + "." + v.Type().Method(i).Name
			if invariants(name) || callers[name] {
				continue
			}
			targets = append(targets, function{name, v.Method(i).Interface()})
		}
	}
	calls, panics := 0, 0
	for _, f := range targets {
		if !strings.HasPrefix(f.name, *only) {
			continue
		}
		bad := 0
		for round := range rounds() {
			m := newMaker(*seed*1_000_003+uint64(round), trusting(f.name))
			v := reflect.ValueOf(f.f)
			c := call{f.name, v, m.arguments(v.Type(), round)}
			calls++
			if text := c.do(m); text != "" {
				bad++
				t.Errorf("%s", text)
				break
			}
		}
		if bad > 0 {
			panics++
		}
	}
	t.Logf("%d functions and methods, %d calls, %d functions that panicked", len(targets), calls, panics)
	require.NotZero(t, calls)
}

// patience is how long a call may take before it counts as stuck.
const patience = time.Minute

// do calls a function, and what it returns. It says what is wrong.
func (c call) do(m *maker) string {
	done := make(chan string, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Sprintf("%s: panic: %v\n  with %s\n%s", c.name, r, c.text(), stack())
			}
		}()
		for _, out := range c.f.Call(c.in) {
			follow(out)
		}
		done <- ""
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case text := <-done:
		return text
	case <-timer.C:
		buf := make([]byte, 1<<20)
		return fmt.Sprintf("%s: stuck with %s\n%s", c.name, c.text(), buf[:runtime.Stack(buf, true)])
	}
}

func (c call) text() string {
	var out []string
	for _, v := range c.in {
		out = append(out, fmt.Sprintf("%.150s", describe(v)))
	}
	return strings.Join(out, " | ")
}

func describe(v reflect.Value) (text string) {
	defer func() {
		if recover() != nil {
			text = v.Type().String()
		}
	}()
	if k := v.Kind(); k == reflect.Interface && v.IsNil() {
		return "nil"
	}
	return fmt.Sprintf("%v(%#v)", v.Type(), v)
}

// stack returns where the module panicked.
func stack() string {
	lines := strings.Split(string(debug.Stack()), "\n")
	lines = slices.DeleteFunc(lines, func(s string) bool {
		return !strings.Contains(s, ".go:") || strings.Contains(s, "zerotest") || strings.Contains(s, "/reflect/")
	})
	return strings.Join(lines[:min(8, len(lines))], "\n")
}

// follow goes on with what a function has returned: lists are read, functions are
// called, what is open is closed.
func follow(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Interface:
		if !v.IsNil() {
			follow(v.Elem())
		}
		return
	case v.Kind() == reflect.Func && !v.IsNil() && v.Type().CanSeq2():
		n := 0
		for range v.Seq2() {
			if n++; n > 10 {
				break
			}
		}
		return
	case v.Kind() == reflect.Func && !v.IsNil() && v.Type().CanSeq():
		for range v.Seq() {
			break
		}
		return
	case v.Kind() == reflect.Func && !v.IsNil() && v.Type().NumIn() == 2 && v.Type().In(0) == reflect.TypeFor[context.Context]():
		v.Call([]reflect.Value{reflect.ValueOf(over), reflect.Zero(v.Type().In(1))})
		return
	case v.Kind() == reflect.Pointer && v.IsNil():
		return
	}
	switch x := v.Interface().(type) {
	case interface{ Close() error }:
		_ = x.Close()
	case interface{ Close(context.Context) error }:
		_ = x.Close(over)
	case error:
		_ = fmt.Sprint(x)
	}
}
