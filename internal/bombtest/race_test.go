//go:build race

package bombtest

// raced says that the race detector is on: all is slow, so samples are
// smaller.
const raced = true
