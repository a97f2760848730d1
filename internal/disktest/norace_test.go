//go:build !race

package disktest

// raced says that the race detector is on.
const raced = false
