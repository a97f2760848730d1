//go:build unix

package store

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the id of the user to whom a file belongs, -1 if it cannot be told.
func ownerOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
