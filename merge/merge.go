package merge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// A Branch is the value that one sibling of a fan-out brought to its join.
type Branch struct {
	Index int // position among its siblings, from 0
	Value any
}

// A Strategy names a way to fold branches into one value. Its text is what
// definitions and journals hold.
type Strategy string

// The strategies. Without branches they give [], [], {}, {} and null.
const (
	Append  Strategy = "append"          // a list; if every value is a list they are concatenated, one level
	Collect Strategy = "collect"         // a list with one element per branch, never flattened
	Object  Strategy = "merge_object"    // the union of objects, shallow; the higher index wins
	Keyed   Strategy = "keyed_by_branch" // an object from branch index to value; indices may be sparse
	Last    Strategy = "last_wins"       // the value of the highest index
)

var all = []Strategy{Append, Collect, Object, Keyed, Last}

// All returns the strategies: the one list from which definitions, their schema and the drawn definitions of the tests
// take them.
func All() []Strategy { return slices.Clone(all) }

// Valid reports whether s is one of the strategies.
func (s Strategy) Valid() bool { return slices.Contains(all, s) }

// An Error says which branch a strategy could not fold, and why.
type Error struct {
	Strategy Strategy
	Index    int    // the branch, from 0
	Type     string // the type of its value: null, bool, int, double, string or list
}

// Error describes e in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("merge: %s: branch %d is %s, want an object", e.Strategy, e.Index, e.Type)
}

// Apply folds branches with s, by index. It modifies neither branches nor
// their values; the result may share elements with them. Where two branches
// have one index, the order in which they were given decides. It returns an
// *[Error] if s is [Object] and a value is not an object (the lowest such
// index), and another error if s is not a strategy.
func Apply(s Strategy, branches []Branch) (any, error) {
	sorted := sortedByIndex(branches)
	switch s {
	case Append:
		return appendLists(sorted), nil
	case Collect:
		return collectValues(sorted), nil
	case Object:
		return unionOfObjects(sorted)
	case Keyed:
		return keyedByIndex(sorted), nil
	case Last:
		return lastValue(sorted), nil
	default:
		return nil, fmt.Errorf("merge: unknown strategy %q", string(s))
	}
}

// sortedByIndex returns branches in the order of their indices: the argument itself
// if it is in order, which is the usual case.
func sortedByIndex(branches []Branch) []Branch {
	compare := func(a, b Branch) int { return cmp.Compare(a.Index, b.Index) }
	if slices.IsSortedFunc(branches, compare) {
		return branches
	}
	sorted := slices.Clone(branches)
	slices.SortStableFunc(sorted, compare)
	return sorted
}

// appendLists concatenates the lists, or collects the values if one is not a list.
func appendLists(bs []Branch) any {
	size := 0
	for _, b := range bs {
		list, ok := b.Value.([]any)
		if !ok {
			return collectValues(bs)
		}
		size += len(list)
	}
	out := make([]any, 0, size)
	for _, b := range bs {
		out = append(out, b.Value.([]any)...)
	}
	return out
}

func collectValues(bs []Branch) any {
	out := make([]any, len(bs))
	for i, b := range bs {
		out[i] = b.Value
	}
	return out
}

func unionOfObjects(bs []Branch) (any, error) {
	out := map[string]any{}
	for _, b := range bs {
		object, ok := b.Value.(map[string]any)
		if !ok {
			return nil, &Error{Strategy: Object, Index: b.Index, Type: typeName(b.Value)}
		}
		maps.Copy(out, object)
	}
	return out, nil
}

func keyedByIndex(bs []Branch) any {
	out := make(map[string]any, len(bs))
	for _, b := range bs {
		out[strconv.Itoa(b.Index)] = b.Value
	}
	return out
}

func lastValue(bs []Branch) any {
	if len(bs) == 0 {
		return nil
	}
	return bs[len(bs)-1].Value
}

// typeName names the type of v as expressions know it.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "double"
	case string:
		return "string"
	case []any:
		return "list"
	default:
		return fmt.Sprintf("%T", v)
	}
}
