// Package drawn tells what of the format of definitions the definitions have that a test draws. A field or a value that
// is added to the format, and that a generator does not draw, makes the test of that generator fail. It is for tests only.
package drawn

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl/merge"
	"github.com/pawl-run/pawl/workflow"
)

// Missing returns what the format has and none of defs, sorted: fields as "Node.Lock", values of enumerations as
// "Remaining block", kinds of nodes as "Kind wait". except has, by such a name or by that of a whole struct as
// "InputSpec", why the generator does not draw it; an exception that is drawn, and one that the format does not have,
// are returned as well.
func Missing(defs []*workflow.Definition, except map[string]string) []string {
	had := tally{}
	for _, d := range defs {
		had.visit(reflect.ValueOf(d).Elem())
	}
	known := tally{}
	known.expect(reflect.TypeFor[workflow.Definition]())
	excepted := func(name string) bool {
		owner, _, _ := strings.Cut(name, ".")
		return except[name] != "" || except[owner] != ""
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(known)) {
		switch {
		case !had[name] && !excepted(name):
			out = append(out, name+" is not drawn")
		case had[name] && except[name] != "":
			out = append(out, name+" is drawn, although "+except[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(except)) {
		if !known[name] {
			out = append(out, name+" is not of the format")
		}
	}
	return out
}

// lists returns the texts of the values of the enumerated types of the format.
var lists = sync.OnceValue(func() map[reflect.Type][]string {
	out := map[reflect.Type][]string{}
	list(out, workflow.Values[workflow.Mode]())
	list(out, workflow.Values[workflow.On]())
	list(out, workflow.Values[workflow.Remaining]())
	list(out, workflow.Values[workflow.JoinTimeout]())
	list(out, workflow.Values[workflow.Shortfall]())
	list(out, workflow.Values[workflow.ApprovalTimeout]())
	list(out, workflow.Values[workflow.Exhausted]())
	list(out, workflow.Values[workflow.Unmatched]())
	list(out, workflow.Values[workflow.Strategy]())
	list(out, workflow.Values[workflow.MergeAs]())
	list(out, workflow.Values[workflow.Join]())
	list(out, workflow.Values[workflow.Kind]())
	return out
})

func list[T any](to map[reflect.Type][]string, values []T) {
	goType := reflect.TypeFor[T]()
	for _, v := range values {
		to[goType] = append(to[goType], fmt.Sprint(v))
	}
	if _, ok := goType.MethodByName("Quorum"); ok {
		to[goType] = append(to[goType], "mOfN")
	}
}

// Values returns the texts of the values of an enumerated type, with mOfN for a type that has quorums; nil for another
// type. It panics for a type of the format that is a text, or has no field, and no list here.
func Values(goType reflect.Type) []string {
	values := lists()[goType]
	if values == nil && goType.PkgPath() == reflect.TypeFor[workflow.Definition]().PkgPath() {
		switch {
		case slices.Contains(free, goType):
		case goType.Kind() == reflect.String, goType.Kind() == reflect.Struct && !hasField(goType):
			panic(fmt.Sprintf("drawn: %s has no list of its values", goType))
		}
	}
	return values
}

// free are the types of the format that are no structs with fields and have no list of values.
var free = []reflect.Type{reflect.TypeFor[workflow.NodeID](), reflect.TypeFor[workflow.TransitionID](), reflect.TypeFor[workflow.Tolerance]()}

func hasField(goType reflect.Type) bool {
	for i := range goType.NumField() {
		if goType.Field(i).IsExported() {
			return true
		}
	}
	return false
}

// A tally is a set of fields and values.
type tally map[string]bool

// expect notes what a type of the format may have.
func (y tally) expect(goType reflect.Type) {
	for goType.Kind() == reflect.Pointer || goType.Kind() == reflect.Slice || goType.Kind() == reflect.Map {
		goType = goType.Elem()
	}
	for _, v := range Values(goType) {
		y[goType.Name()+" "+v] = true
	}
	if y[goType.Name()] || goType.Kind() != reflect.Struct || Values(goType) != nil {
		return
	}
	y[goType.Name()] = true
	for i := range goType.NumField() {
		if f := goType.Field(i); f.IsExported() {
			y[goType.Name()+"."+f.Name] = true
			y.expect(f.Type)
		}
	}
	switch goType {
	case reflect.TypeFor[workflow.Node]():
		y.expect(reflect.TypeFor[workflow.Kind]())
	case reflect.TypeFor[workflow.Merge]():
		for _, s := range merge.All() {
			y["Merge "+string(s)] = true
		}
	case reflect.TypeFor[workflow.Tolerance]():
		y["Tolerance failures"], y["Tolerance failureRatio"] = true, true
	}
}

// visit notes what a value has.
func (y tally) visit(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			y.visit(v.Elem())
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			y.visit(v.Index(i))
		}
		return
	case reflect.Map:
		for _, key := range v.MapKeys() {
			y.visit(v.MapIndex(key))
		}
		return
	default:
	}
	if Values(v.Type()) != nil {
		text, _, _ := strings.Cut(fmt.Sprint(v), "(") // mOfN(2)
		y[v.Type().Name()+" "+text] = true
		return
	}
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
		y.visitStruct(v)
	}
}

func (y tally) visitStruct(v reflect.Value) {
	y[v.Type().Name()] = true
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
			y[v.Type().Name()+"."+f.Name] = true
			y.visit(v.Field(i))
		}
	}
	switch x := v.Interface().(type) {
	case workflow.Node:
		y.visit(reflect.ValueOf(x.Kind()))
	case workflow.Merge:
		y["Merge "+x.Strategy] = true
	case workflow.Synchronization:
		y.visit(reflect.ValueOf(x.Strategy)) // zero is all
	case workflow.Tolerance:
		kind := "failures"
		if x == workflow.TolerateRatio(0) || x.Exceeded(1, 1<<30) != x.Exceeded(1, 1) {
			kind = "failureRatio"
		}
		y["Tolerance "+kind] = true
	}
}
