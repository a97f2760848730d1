//go:build !unix

package ownertest

import "errors"

// host is for systems where a process can be told to end.
func (*served) host(command) reply { return failed("not hosted", errors.ErrUnsupported) }

// stopSelf is for systems where a process can be stopped.
func stopSelf() error { return errors.ErrUnsupported }
