// Package planning decides what a run does next. Its functions are pure: the
// same state, message and instant always give the same plan. They do no I/O,
// read no clock, and never modify their arguments.
//
// [Step] answers one message with one [decision.Plan]: the whole cascade of
// completing, routing, creating, synchronizing, merging and finishing. It plans
// on an overlay of the state, folding in each decision as it makes it, so that
// later rules see the effect of earlier ones and the cost is that of what
// changes, not of what lives. [Pending] and [Children] derive from a state what it
// waits for, and state.State.Alarm when time will change it: after a crash the
// state is the outbox.
//
// [Step] and its loop are in step.go, what one message asks for is in the file
// of its noun. A token begins at its node (begin.go), waits there (wait.go,
// signal.go, approval.go, child.go), completes or fails (complete.go, fail.go,
// retry.go, expire.go), and takes transitions (route.go, follow.go). Three rules
// have a file each: how branches are made (fanout.go), how they meet (fanin.go,
// with block.go for the occurrences that wait for stragglers), and how a node waits
// for its incoming transitions (nodejoin.go, with reach.go for what can still come
// and standoff.go for joins that wait for each other or for ever; in a dag, dag.go).
package planning
