package zerotest

import (
	"context"
	"flag"
	"fmt"
	"maps"
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
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness"
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
	reflect.TypeFor[pawl.Engine]():    true,
	reflect.TypeFor[blob.Files]():     true,
	reflect.TypeFor[worker.Pool]():    true,
	reflect.TypeFor[worker.Client]():  true,
	reflect.TypeFor[workflow.Graph](): true,
}

// helpers are functions of tests, which panic without a testing.T as those of the standard library do, and those that
// panic by their names.
var helpers = map[string]bool{"build.Builder.MustDefinition": true, "workflow.MustParse": true, "pawltest.Play": true, "pawltest.Run": true, "pawltest.RunWith": true}

// trusting says whether a function is of a package that takes values of the JSON
// model from the packages above it, which have made them so.
func trusting(name string) bool { return strings.HasPrefix(name, "workflow.") }

// rounds is how often each function is called.
func rounds() int { return harness.Figure(4, 30, 3000) }

// seedOfDay returns the seed of the arguments: at the gate another one each day.
func seedOfDay(t *testing.T) uint64 {
	if harness.CurrentLevel() != harness.Gate {
		return *seed
	}
	seeds := make([]uint64, 1000)
	for i := range seeds {
		seeds[i] = *seed + uint64(i)
	}
	return harness.SampleOfDay(t, len(seeds), seeds)[0]
}

// Every exported function and method of the API, called with nil, zero and odd values,
// returns: an error, or what its documentation says. A context is never nil.
func TestZero(t *testing.T) {
	below := filepath.Join(t.TempDir(), "a", "b", "c")
	require.NoError(t, os.MkdirAll(below, 0o700))
	t.Chdir(below) // some make files where they are told to
	var targets []function
	for _, f := range functions {
		if !helpers[f.name] {
			targets = append(targets, f)
		}
	}
	opened := receivers(t)
	types := append(typesOf(slices.Concat(functions, opened)), hiddenTypes...)
	for _, typ := range types {
		opened = append(opened, function{typ.String(), reflect.New(typ).Interface()})
	}
	for _, r := range opened {
		v := reflect.ValueOf(r.f)
		for i := range v.NumMethod() {
			if name := r.name + "." + v.Type().Method(i).Name; !helpers[name] {
				targets = append(targets, function{name, v.Method(i).Interface()})
			}
		}
	}
	calls, panics, from := 0, 0, seedOfDay(t)
	for _, f := range targets {
		if !strings.HasPrefix(f.name, *only) {
			continue
		}
		bad := 0
		for round := range rounds() {
			m := newMaker(from*1_000_003+uint64(round), trusting(f.name), types)
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
const patience = 5 * time.Minute

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

// typesOf returns the types of the module whose values the functions and the methods of receivers take and return, and those in
// them, but for handles and interfaces, by their names.
func typesOf(from []function) []reflect.Type {
	seen := map[reflect.Type]bool{}
	var see func(reflect.Type)
	see = func(t reflect.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t.Kind() {
		case reflect.Func:
			for i := range t.NumIn() {
				see(t.In(i))
			}
			for i := range t.NumOut() {
				see(t.Out(i))
			}
		case reflect.Struct:
			for i := range t.NumField() {
				if t.Field(i).IsExported() {
					see(t.Field(i).Type)
				}
			}
		case reflect.Map:
			see(t.Key())
			see(t.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			see(t.Elem())
		}
		for i := range t.NumMethod() {
			see(t.Method(i).Type)
		}
	}
	for _, f := range from {
		see(reflect.TypeOf(f.f))
	}
	maps.DeleteFunc(seen, func(t reflect.Type, _ bool) bool {
		return handles[t] || t.Kind() == reflect.Interface || !strings.HasPrefix(t.PkgPath(), "github.com/pawl-run/pawl") || strings.Contains(t.PkgPath(), "/internal/")
	})
	return slices.SortedFunc(maps.Keys(seen), func(a, b reflect.Type) int { return strings.Compare(a.String(), b.String()) })
}
