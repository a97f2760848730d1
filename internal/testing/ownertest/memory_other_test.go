//go:build !linux

package ownertest

import "errors"

func useMemory() error { return errors.New("only Linux limits the address space of a Go program") }
