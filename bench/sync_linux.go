package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes the contents of a file durable, and of its size what it takes to read them.
func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
