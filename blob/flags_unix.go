//go:build unix

package blob

import "syscall"

// noWait makes open not wait for the writer of a FIFO.
const noWait = syscall.O_NONBLOCK
