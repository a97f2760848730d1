//go:build !linux

package store

import (
	"errors"
	"os"
)

func syncAll(*os.File) error { return errors.ErrUnsupported }

func syncData(f *os.File) error { return f.Sync() }

const tellsRoom = false

func hasRoom(*os.File, int64) bool { return false } // it cannot be told

func allocateBlocks(*os.File, int64) error { return nil }

const canSyncAll = false
