//go:build race

package damagetest

// raced says that the race detector is on: everything takes ten times as long,
// so there is less of it.
const raced = true
