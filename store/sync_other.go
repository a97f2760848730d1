//go:build !linux

package store

import (
	"errors"
	"os"
)

func syncAll(*os.File) error { return errors.ErrUnsupported }

const canSyncAll = false
