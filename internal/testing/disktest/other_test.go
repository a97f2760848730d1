//go:build !linux || !(amd64 || arm64)

package disktest

import "errors"

func childMain(string) error { return errors.New("not on this system") }
