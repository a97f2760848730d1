//go:build !unix

package store

import "io/fs"

// ownerOf returns -1: this system has no ids of users.
func ownerOf(fs.FileInfo) int { return -1 }
