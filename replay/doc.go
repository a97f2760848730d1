// Package replay looks at recorded runs without an engine: at the files of runs, and at
// engine directories that nobody has open.
//
//	Check       plans a journal again and names the first difference: a gate for upgrades
//	Substitute  plays what a run was told on another definition: what it would have decided
//	Diff        finds where two runs part, what only one has, and the first other value
//	Coverage    counts over many runs what they went through, and lists what none did
//	Stepper     shows a run after any of its records
//	Query       asks many runs in SQL
//
// [All] finds the recordings below some paths, [Open] reads the file of one run. Nothing is
// written, and no task is executed.
package replay
