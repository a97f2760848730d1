// Package reference is a second interpreter of definitions in graph mode, with
// which tests compare the planners of package planning.
//
// It says in the plainest way what a definition means: everything is in memory,
// nothing is counted or indexed, and after each single act it looks at
// everything again until nothing changes. It shares no code with the planners
// and knows nothing of time, data or expressions: a task ends with a number, and
// the condition of a transition is that the number is at least another.
//
// It has splits and tiers, error transitions, dead paths, bounded loops,
// cancels, node joins (all and synchronize), and groups with their joins.
package reference
