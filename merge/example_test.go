package merge_test

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/merge"
)

func ExampleApply() {
	arrived := []merge.Branch{ // the third branch was first
		{Index: 2, Value: []any{"c"}},
		{Index: 0, Value: []any{"a", "b"}},
	}
	for _, s := range []merge.Strategy{merge.Append, merge.Collect, merge.Keyed, merge.Last} {
		v, _ := merge.Apply(s, arrived)
		fmt.Println(s, v)
	}
	// Output:
	// append [a b c]
	// collect [[a b] [c]]
	// keyed_by_branch map[0:[a b] 2:[c]]
	// last_wins [c]
}

func ExampleApply_object() {
	v, _ := merge.Apply(merge.Object, []merge.Branch{
		{Index: 1, Value: map[string]any{"city": "Oslo", "zip": "0150"}},
		{Index: 0, Value: map[string]any{"city": "Bergen", "name": "Ann"}},
	})
	fmt.Println(v)
	// Output: map[city:Oslo name:Ann zip:0150]
}

func ExampleError() {
	_, err := merge.Apply(merge.Object, []merge.Branch{{Index: 3, Value: "no object"}})
	var e *merge.Error
	if errors.As(err, &e) {
		fmt.Println(e.Index, e.Type)
	}
	fmt.Println(err)
	// Output:
	// 3 string
	// merge: merge_object: branch 3 is string, want an object
}
