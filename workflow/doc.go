// Package workflow is the vocabulary of pawl: the parts of a definition, and the
// names of its nodes, its runs and their tokens.
//
//   - [Definition], [Node], [Transition], [Synchronization]: the graph, as data.
//     [ParseJSON] and [ParseYAML] read it, [Definition.Validate] reports every
//     problem at once, [Compile] turns it into a [Graph] that planners walk.
//   - [RunID], [TokenID], [GroupID], [Scope]: the names of a run's parts.
//     [RunStatus], [TokenStatus], [Phase]: the stages of their lives.
//   - [Run], [Outcome], [Failure]: what callers pass in and get back. [Signal]
//     and [Ballot]: what callers send to a run. [EventType]: what a run reports.
//
// The state of a run is in package internal/state. This package is pure: it
// does no I/O and reads no clock.
package workflow
