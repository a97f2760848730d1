// Package workflow is the vocabulary of pawl: what a definition says, and how
// its nodes, its runs and their tokens are named.
//
//   - [Definition], [Node], [Transition], [Synchronization]: the graph, as data.
//     [ParseJSON] and [ParseYAML] read it, [Definition.Validate] reports every
//     problem at once, [Compile] turns it into a [Graph] that planners walk.
//   - [RunID], [TokenID], [GroupID], [Scope]: what the parts of a run are called.
//     [RunStatus], [TokenStatus], [Phase]: where they are in their lives.
//   - [Run], [Outcome], [Failure]: what callers hand over and get back. [Signal]
//     and [Ballot]: what callers tell a run. [EventType]: what a run tells of
//     itself.
//
// The state of a run is in package internal/state. This package is pure: it
// does no I/O and reads no clock.
package workflow
