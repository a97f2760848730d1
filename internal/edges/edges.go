// Package edges names the transitions of definitions that have no id of their own.
//
// The package is pure: no clock, no I/O, no randomness.
package edges

import "strconv"

// NameEdges gives each of n edges without an id its default: FROM->TO, or the first of FROM->TO#2, FROM->TO#3 and
// so on that is not taken. Example: three edges from a to b without ids are a->b, a->b#2 and a->b#3. An id that
// another edge has already is passed over, wherever that one stands.
func NameEdges[ID, Node ~string](n int, edge func(i int) (id *ID, from, to Node)) {
	taken := make(map[ID]bool, n)
	for i := range n {
		id, _, _ := edge(i)
		taken[*id] = true
	}
	// The number that was given last is kept for each pair of nodes: a search from 2 each time would cost the square
	// of their number.
	last := map[ID]int{}
	for i := range n {
		at, from, to := edge(i)
		if *at != "" {
			continue
		}
		id := ID(from) + "->" + ID(to)
		*at = id
		for n := max(last[id], 1) + 1; taken[*at]; n++ {
			*at, last[id] = id+"#"+ID(strconv.Itoa(n)), n
		}
		taken[*at] = true
	}
}
