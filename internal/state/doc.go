// Package state holds the state of one run in memory: what a planner reads,
// what decisions change and what a store keeps.
//
//   - [State] has the run's [Facts], its tokens, groups and branches, its data,
//     and the order in which tokens wait. It belongs to one goroutine. Its
//     [State.Overlay] is what a planner plans on.
//   - [Token], [Group], [Branch], [Step]: the rows of a state. They are
//     immutable: a change replaces the row.
//   - [Message]: what a run receives. [Messages] encodes messages for the
//     journal, under the names of their types.
//   - [Changes] and [Rows]: what a store writes after a commit, and the whole
//     that it reads; [Restore] makes a state of them.
//
// The package is pure: it does no I/O and reads no clock.
package state
