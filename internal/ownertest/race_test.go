//go:build race

package ownertest

// raced says that the race detector is on: everything is slow, so there is less.
const raced = true
