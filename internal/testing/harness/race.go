//go:build race

package harness

// Raced says that the race detector is on: everything takes about ten times as
// long and processes start slowly, so tests do less.
const Raced = true
