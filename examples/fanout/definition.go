package main

import (
	"github.com/pawl-run/pawl/build"
	"github.com/pawl-run/pawl/workflow"
)

// definition is the workflow: one branch per file, a join, and one task that
// makes totals of what came together.
//
//	split --foreach file--> count ==join==> reduce
//
// It needs no line of code that knows about crashes, queues or counters.
func definition() *workflow.Definition {
	b := build.New(name)
	// A gateway only routes. The fan-out makes a branch for each element of a list, all in one group, whose name is how
	// the join finds them. In a branch, file is the element that the branch was made for.
	b.Gateway("split").To("count").ForEach("input.files", "file").InGroup("files")
	// The fan-in: when every branch has come, their results become a list, in the order of the branches, whichever was first.
	b.Task("count").Input("path", "file").Input("share", "input.share").To("reduce").Joins("files")
	b.Group("files", workflow.Synchronization{Merge: &workflow.Merge{Source: "result", Target: "state.counts", Strategy: "collect"}})
	b.Task("reduce").Input("counts", "state.counts").Output("output", "result")
	return b.MustDefinition()
}

// The list that reduce gets is one task input, so it is at most 1 MiB, and
// every branch has an equal share of that. A branch returns its most frequent
// identifiers only, as many as fit into its share: the more files, the fewer
// of each. The rest of what it returns, numbers and a hash, takes overhead.
const (
	listBytes = 1_000_000
	overhead  = 150
	maxShare  = 20_000
	maxFiles  = 5_000 // leaves a share of 50 bytes
)

// share returns how many bytes of identifiers each of n files may return.
func share(n int) int {
	return min(listBytes/max(n, 1)-overhead, maxShare)
}
