//go:build !race

package crashtest

// raced says that the race detector is on.
const raced = false
