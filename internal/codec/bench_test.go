package codec

import (
	"strings"
	"testing"
)

var small = Small{Token: 123456, Node: "reserve-stock", Attempt: 2, Open: true}

func BenchmarkAppendSmall(b *testing.B) {
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		dst, _ = changes.Append(dst[:0], small, nil)
	}
	b.SetBytes(int64(len(dst)))
}

func BenchmarkDecodeSmall(b *testing.B) {
	b.ReportAllocs()
	text, _ := changes.Append(nil, small, nil)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := changes.Decode(text, nil); err != nil {
			b.Fatal(err)
		}
	}
}

var wide = Nested{
	Place:  place{Group: 3, Index: 17},
	Error:  &failure{Code: "timeout"},
	Writes: []write{{Path: "state.quotes", Value: map[string]any{"price": int64(7), "by": "ann"}}},
	IDs:    []id{1, 2, 3},
	Counts: map[name]int{"retry": 2, "again": 1},
}

func BenchmarkAppendNested(b *testing.B) {
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		dst, _ = changes.Append(dst[:0], wide, nil)
	}
}

func BenchmarkDecodeNested(b *testing.B) {
	b.ReportAllocs()
	text, _ := changes.Append(nil, wide, nil)
	for b.Loop() {
		if _, err := changes.Decode(text, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// The whole list of a large foreach counts as one value.
func BenchmarkAppendLargeList(b *testing.B) {
	b.ReportAllocs()
	list := make([]any, 100_000)
	for i := range list {
		list[i] = map[string]any{"sku": strings.Repeat("x", 8), "n": int64(i)}
	}
	var dst []byte
	for b.Loop() {
		var values Values
		dst, _ = changes.Append(dst[:0], Data{List: list}, &values)
	}
}
