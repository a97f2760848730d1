//go:build race

package pawltest

// raced says that the race detector is on, which makes SQLite ten times slower.
const raced = true
