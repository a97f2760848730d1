package workflow

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/merge"
)

// A drawer fills Go values with what the format can say, sound or not.
type drawer struct {
	t    *rapid.T
	name *rapid.Generator[string]
}

func (d drawer) chance() bool { return rapid.IntRange(0, 2).Draw(d.t, "chance") > 0 }

func (d drawer) fill(v reflect.Value) {
	if values := enumerated(v.Type()); values != nil && v.Kind() == reflect.String {
		v.SetString(rapid.SampledFrom(values).Draw(d.t, "value"))
		return
	}
	switch to := v.Addr().Interface().(type) {
	case *Strategy:
		*to = rapid.SampledFrom(append(Values[Strategy](), MOfN(1), MOfN(3))).Draw(d.t, "strategy")
		return
	case *Tolerance:
		*to = rapid.SampledFrom([]Tolerance{{}, TolerateFailures(0), TolerateFailures(2), TolerateRatio(0), TolerateRatio(0.25)}).Draw(d.t, "tolerance")
		return
	case *Join:
		*to = rapid.SampledFrom(append(Values[Join](), JoinNone, JoinMOfN(2))).Draw(d.t, "join")
		return
	case *EndSpec:
		if d.chance() {
			*to = EndSpec{Fail: d.name.Draw(d.t, "fail"), Message: rapid.String().Draw(d.t, "message")}
		}
		return
	case *time.Duration:
		*to = time.Duration(rapid.Int64Min(1).Draw(d.t, "duration"))
		return
	}
	d.fillKind(v)
}

func (d drawer) fillKind(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(d.name.Draw(d.t, "name"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(1, 1<<40).Draw(d.t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64Range(1, 1<<40).Draw(d.t, "uint"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64Range(0.25, 8).Draw(d.t, "float"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(d.t, "bool"))
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]any{"const": int64(1), "": []any{nil, "x", 0.5, true}}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(1, 3).Draw(d.t, "len"), 3))
		for i := range v.Len() {
			d.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(1, 3).Draw(d.t, "len") {
			e := reflect.New(v.Type().Elem()).Elem()
			d.fill(e)
			v.SetMapIndex(reflect.ValueOf(rapid.String().Draw(d.t, "key")), e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			inner := v.Type() == reflect.TypeFor[WaitSpec]() && v.Type().Field(i).Name == "Any" && rapid.IntRange(0, 3).Draw(d.t, "any") > 0
			if v.Type().Field(i).IsExported() && !inner && d.chance() {
				d.fill(v.Field(i))
			}
		}
	default:
		panic(v.Type())
	}
}

// plainName draws strings that JSON and YAML write in the same way, and that
// YAML takes for something else without quotes.
func plainName() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringMatching(`[ -~é日😀]{1,12}`), rapid.SampledFrom([]string{"yes", "1", "null", "~", "a: b", "- a", "# a", "0x1", "2024-01-01", "é\n", "'", "\"", "\\"}))
}

func drawDefinition(t *rapid.T, name *rapid.Generator[string]) *Definition {
	d := &Definition{}
	drawer{t, name}.fill(reflect.ValueOf(d).Elem())
	for i := range d.Nodes {
		dropNestedAny(d.Nodes[i].Wait)
	}
	drawMerge := func(y *Synchronization) {
		if y != nil && y.Merge != nil {
			y.Merge.Strategy = rapid.SampledFrom(append(textsOf(merge.All()), "")).Draw(t, "merge")
		}
	}
	for i := range d.Transitions {
		drawMerge(d.Transitions[i].Synchronization)
	}
	for _, name := range sortedKeys(d.Groups) {
		y := d.Groups[name]
		y.SiblingGroup = ""
		drawMerge(&y)
		d.Groups[name] = y
	}
	return d
}

func dropNestedAny(w *WaitSpec) {
	for i := 0; w != nil && i < len(w.Any); i++ {
		w.Any[i].Any = nil
	}
}

func TestRoundTripOfDrawnDefinitions(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		d := drawDefinition(t, plainName())
		data, err := d.MarshalJSON()
		require.NoError(t, err)
		again, err := ParseJSON(data)
		require.NoError(t, err, "%s", data)
		twice, err := again.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, string(data), string(twice))
		require.Equal(t, hashOfDefinition(t, d), hashOfDefinition(t, again))
		_ = d.Check() // whatever it says
		_ = again.Check()
	})
}

// TestRoundTripOfAnyNames takes every string that is UTF-8.
func TestRoundTripOfAnyNames(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		d := drawDefinition(t, rapid.StringN(1, -1, -1))
		data, err := json.Marshal(d)
		require.NoError(t, err)
		again := new(Definition)
		require.NoError(t, json.Unmarshal(data, again))
		require.Equal(t, hashOfDefinition(t, d), hashOfDefinition(t, again))
	})
}

// TestYAMLIsJSON reads what MarshalJSON writes as YAML.
func TestYAMLIsJSON(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		d := &Definition{Name: plainName().Draw(t, "name"), Start: NodeID(plainName().Draw(t, "start"))}
		d.Output.Mapping = map[string]string{plainName().Draw(t, "key"): plainName().Draw(t, "source")}
		requireRoundTrip(t, d)
	})
}

// TestMarshalJSONOfValue: a Definition need not be behind a pointer.
func TestMarshalJSONOfValue(t *testing.T) {
	data, err := json.Marshal(struct{ D Definition }{Definition{Name: "x"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"D": {"name": "x"}}`, string(data))
}
