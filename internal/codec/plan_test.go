package codec

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

type (
	untagged struct{ A int }
	badName  struct {
		A int `json:"a b"`
	}
	hidden struct {
		a int
	}
	kindTaken struct {
		Kind string `json:"kind"`
	}
	withChan struct {
		C chan int `json:"c"`
	}
	withArray struct {
		A [2]int `json:"a"`
	}
	withPointers struct {
		P []*int `json:"p"`
	}
	withLists struct {
		L [][]int `json:"l"`
	}
	withMap struct {
		M map[int]int `json:"m"`
	}
	withTimeMap struct {
		M map[string]time.Time `json:"m"`
	}
	withInterface struct {
		I error `json:"i"`
	}
	withFloat32 struct {
		F float32 `json:"f"`
	}
	inner struct {
		U untagged `json:"u"`
	}
)

func TestNewRefuses(t *testing.T) {
	_ = hidden{}.a
	tests := []struct {
		variants []any
		want     string
	}{
		{[]any{nil}, "codec: variant <nil> is not a named struct"},
		{[]any{7}, "codec: variant int is not a named struct"},
		{[]any{&Empty{}}, "codec: variant *codec.Empty is not a named struct"},
		{[]any{struct{}{}}, "codec: variant struct {} is not a named struct"},
		{[]any{Empty{}, Empty{}}, "codec: two variants are named Empty"},
		{[]any{untagged{}}, "codec: codec.untagged.A needs a json tag with a plain name"},
		{[]any{inner{}}, "codec: codec.untagged.A needs a json tag with a plain name"},
		{[]any{badName{}}, "codec: codec.badName.A needs a json tag with a plain name"},
		{[]any{hidden{}}, `codec: codec.hidden.a is not exported; tag it json:"-" if it is not to be stored`},
		{[]any{kindTaken{}}, `codec: codec.kindTaken: the name "kind" is taken`},
		{[]any{withChan{}}, "codec: codec.withChan.C: cannot encode chan int"},
		{[]any{withArray{}}, "codec: codec.withArray.A: cannot encode [2]int"},
		{[]any{withPointers{}}, "codec: codec.withPointers.P: cannot encode []*int"},
		{[]any{withLists{}}, "codec: codec.withLists.L: cannot encode [][]int"},
		{[]any{withMap{}}, "codec: codec.withMap.M: cannot encode map[int]int"},
		{[]any{withTimeMap{}}, "codec: codec.withTimeMap.M: cannot encode map[string]time.Time"},
		{[]any{withInterface{}}, "codec: codec.withInterface.I: cannot encode error"},
		{[]any{withFloat32{}}, "codec: codec.withFloat32.F: cannot encode float32"},
	}
	for _, tt := range tests {
		assert.PanicsWithValue(t, tt.want, func() { New(tt.variants...) })
	}
}

func TestNewRefusesANameThatIsTaken(t *testing.T) {
	integer := reflect.TypeFor[int]()
	typ := reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: integer, Tag: `json:"a"`}, {Name: "B", Type: integer, Tag: `json:"a,omitzero"`},
	})
	assert.PanicsWithValue(t, "codec: "+typ.String()+`: the name "a" is taken`, func() { planner{}.planOf(typ) })
}

func TestNewRefusesWideStructs(t *testing.T) {
	fields := make([]reflect.StructField, maxFields+1)
	for i := range fields {
		letter := string(rune('A'+i/26)) + string(rune('a'+i%26))
		fields[i] = reflect.StructField{Name: letter, Type: reflect.TypeFor[int](), Tag: reflect.StructTag(`json:"` + letter + `"`)}
	}
	assert.Panics(t, func() { planner{}.planOf(reflect.StructOf(fields)) })
	assert.NotPanics(t, func() { planner{}.planOf(reflect.StructOf(fields[1:])) })
}

func TestPlansAreMadeOncePerType(t *testing.T) {
	plans := planner{}
	p := plans.planOf(reflect.TypeFor[failure]())
	assert.Same(t, p, p.fields[2].shape.elem.plan, "a failure's cause is a failure")
	assert.Same(t, p, plans.planOf(reflect.TypeFor[Nested]()).fields[1].shape.elem.plan)
}
