//go:build race

package disktest

// raced says that the race detector is on: processes start slowly, so there are
// fewer.
const raced = true
