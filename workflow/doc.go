// Package workflow is the vocabulary of pawl: what a definition says, where a
// run of it stands, and what a run can be told.
//
//   - [Definition], [Node], [Transition], [Synchronization]: the graph, as data.
//     [ParseJSON] and [ParseYAML] read it, [Definition.Validate] reports every
//     problem at once, [Compile] turns it into a [Graph] that planners walk.
//   - [State], [Token], [Group], [Branch]: where a run stands. A State belongs
//     to one goroutine; its [State.Overlay] is what a planner plans on.
//   - [Message]: what a run receives. [Run], [Outcome], [Failure]: what callers
//     hold.
//
// The package is pure: it does no I/O and reads no clock.
package workflow
