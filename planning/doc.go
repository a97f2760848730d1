// Package planning decides what a run does next. Its functions are pure: the
// same state, message and instant always give the same plan. They do no I/O,
// read no clock, and never modify their arguments.
//
// [Step] answers one message with one [decision.Plan]: the whole cascade of
// completing, routing, creating, synchronizing, merging and finishing. It plans
// on an overlay of the state, folding in each decision as it makes it, so that
// later rules see the effect of earlier ones and the cost is that of what
// changes, not of what lives. [Pending] and [Alarm] derive from a state what it
// waits for: after a crash the state is the outbox.
//
// One file per verb: start, route, follow, begin, wait, complete, fail,
// synchronize, settle, join (over incoming transitions), ready (the in-degree
// queue of a dag), child, cancel, open, pause, expire, finish, operate.
package planning
