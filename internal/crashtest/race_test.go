//go:build race

package crashtest

// raced says that the race detector is on: processes start slowly, so there are
// fewer.
const raced = true
