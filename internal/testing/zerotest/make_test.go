package zerotest

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A maker makes arguments: nil, zero and odd ones, the same from the same seed.
type maker struct {
	*rand.Rand
	fixed map[reflect.Type][]any // values of some types, beside nil and zero
	types []reflect.Type         // that may implement an interface
}

func newMaker(seed uint64, trusting bool, types []reflect.Type) *maker {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 1)), types: types}
	m.fixed = map[reflect.Type][]any{
		reflect.TypeFor[string]():       texts,
		reflect.TypeFor[time.Time]():    {time.Unix(0, 0), time.Unix(1<<62, 0), time.Unix(-1<<62, 5), time.Date(2262, 5, 1, 0, 0, 0, 0, time.UTC), time.Now()},
		reflect.TypeFor[any]():          values(trusting),
		reflect.TypeFor[error]():        {errors.New("an error"), (*workflow.Failure)(nil), (*pawl.TaskError)(nil), pawl.TaskError{}, pawl.ErrPending},
		reflect.TypeFor[io.Reader]():    {strings.NewReader(""), strings.NewReader("text"), iotest.ErrReader(errors.New("torn")), (*os.File)(nil), hasty{}},
		reflect.TypeFor[float64]():      {math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0.5, 1e300},
		reflect.TypeFor[*http.Client](): {&http.Client{}},
	}
	return m
}

// over is a context that has ended.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

var texts = []any{
	"a", liveRun, endedRun, ".", "..", "../x", "a/b", "a/1.1", "a\x00b", "\xff\xfe", "\n", "CON", "é", "*", "$blob", "pawl:x",
	"sha256:" + strings.Repeat("0", 64), strings.Repeat("0", 64), strings.Repeat("x", 300), strings.Repeat("long", 20000),
	liveRun + "#1.1.0000000000000001", "a#-1.0.0", "state.x[]", "1 +", "{", "root", "append", "work", "http://[::1]:namedport", "-1s",
}

// hasty is a reader that breaks the rules: it says that it has read more than
// there is room for.
type hasty struct{}

func (hasty) Read(p []byte) (int, error) { return len(p) + 1, nil }

// values are odd values where anything may stand; for a trusting function, which
// takes values of the JSON model, some of that.
func values(trusting bool) []any {
	self := map[string]any{}
	self["self"] = self
	loop := []any{nil}
	loop[0] = loop
	deep := any(nil)
	for range 5000 {
		deep = []any{deep}
	}
	if trusting {
		return []any{int64(0), int64(1) << 53, -0.5, "", "text", true, []any{}, []any{nil, int64(1)}, map[string]any{}, map[string]any{"$blob": int64(1)}}
	}
	return []any{
		0, -1, int64(math.MaxInt64), uint64(math.MaxUint64), math.NaN(), math.Inf(1), "", "text", "\xff", true, []any{}, []any{nil, 1},
		map[string]any{}, map[string]any{"$blob": 1}, map[string]any{"$blob": "sha256:x", "size": -1}, map[any]any{1: 2}, self, loop, deep,
		struct{ X any }{make(chan int)}, func() {}, (*int)(nil), []byte(nil), errors.New("value"), pawl.Result{}, &pawl.Result{},
		pawl.Result{Artifacts: []pawl.Artifact{{}}}, time.Time{}, [3]int{}, complex(1, 2),
	}
}

// make returns a value of a type.
func (m *maker) make(t reflect.Type, depth int) reflect.Value {
	switch t { // a context is never nil, and a graph comes from its constructor
	case reflect.TypeFor[context.Context]():
		return reflect.ValueOf(over)
	case reflect.TypeFor[*workflow.Graph]():
		return reflect.ValueOf(graph)
	}
	if m.IntN(4) == 0 || depth > 4 {
		return reflect.Zero(t)
	}
	if t == reflect.TypeFor[*testing.T]() {
		return reflect.Zero(t)
	}
	if odd := m.fixed[t]; len(odd) > 0 {
		return reflect.ValueOf(odd[m.IntN(len(odd))]).Convert(t)
	}
	switch t.Kind() {
	case reflect.String:
		return reflect.ValueOf(texts[m.IntN(len(texts))]).Convert(t)
	case reflect.Bool:
		return reflect.ValueOf(m.IntN(2) == 0).Convert(t)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float64:
		odd := []int64{1, -1, 2, 7, 255, math.MaxInt32, math.MinInt64, math.MaxInt64}
		return reflect.ValueOf(odd[m.IntN(len(odd))]).Convert(t)
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Struct, reflect.Pointer:
		return m.compose(t, depth)
	case reflect.Func:
		return reflect.MakeFunc(t, func([]reflect.Value) (out []reflect.Value) {
			for i := range t.NumOut() {
				out = append(out, reflect.Zero(t.Out(i)))
			}
			return out
		})
	case reflect.Interface:
		return m.implement(t, depth)
	}
	return reflect.Zero(t)
}

// compose returns a value that is made of others.
func (m *maker) compose(t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Slice:
		n := m.IntN(3)
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			v.Index(i).Set(m.make(t.Elem(), depth+1))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		if m.IntN(2) == 0 {
			v.SetMapIndex(m.make(t.Key(), depth+1), m.make(t.Elem(), depth+1))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(m.make(t.Field(i).Type, depth+1))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(m.make(t.Elem(), depth+1))
	}
	return v
}

// implement returns a value of an interface: of some type of the API.
func (m *maker) implement(t reflect.Type, depth int) reflect.Value {
	var fit []reflect.Type
	for _, typ := range m.types {
		for _, typ := range []reflect.Type{typ, reflect.PointerTo(typ)} {
			if typ.Implements(t) {
				fit = append(fit, typ)
			}
		}
	}
	v := reflect.New(t).Elem()
	if len(fit) > 0 {
		v.Set(m.make(fit[m.IntN(len(fit))], depth+1))
	}
	return v
}

// arguments returns arguments for a function; the first ones are zero.
func (m *maker) arguments(f reflect.Type, round int) (in []reflect.Value) {
	for i := range f.NumIn() {
		t := f.In(i)
		switch {
		case round == 0 && !f.IsVariadic() && !strings.HasPrefix(t.String(), "*workflow.") && t != reflect.TypeFor[context.Context]():
			in = append(in, reflect.Zero(t))
		case f.IsVariadic() && i == f.NumIn()-1:
			for range m.IntN(3) {
				in = append(in, m.make(t.Elem(), 1))
			}
		default:
			in = append(in, m.make(t, 0))
		}
	}
	return in
}
