// Package decision is the closed set of changes that a planner can make to a
// run. Decisions are values: they are logged, compared and replayed. The
// meaning of a decision is written once, in [Evolve]; its events for the world,
// in [Events].
//
// Decisions carry results, not instructions: an applier branches on the type
// and on nothing else. Wide changes are narrow decisions: a fan-out, the close
// of a group and the end of a run are one decision each, however many tokens
// they concern.
//
// The variants are in files named after their nouns: token, task, branch, group,
// data, run, child, approval, signal, lock, budget, join (of a node), step (of a
// dag), patch and fork. Beside each type are the methods that say what it means.
package decision
