// Package timeout is arithmetic on instants: deadlines, the earliest alarm and
// the delays of retries. It never reads a clock; every instant is an argument.
//
// Instants are UTC in whole milliseconds. The zero [time.Time] means none.
// Everything saturates: no result wraps around, and none lies beyond [Far].
package timeout
