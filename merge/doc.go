// Package merge folds the values of parallel branches into one value.
//
// Every strategy is a pure function of the branches and their indices: the
// order in which branches finished, and so the order in which they are given,
// never matters. Values are the engine's values: nil, bool, int64, float64,
// string, []any and map[string]any.
package merge
