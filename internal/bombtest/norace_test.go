//go:build !race

package bombtest

// raced says that the race detector is on.
const raced = false
