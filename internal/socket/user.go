//go:build linux || darwin || freebsd

package socket

import (
	"fmt"
	"net"
	"os"
)

// checkUser refuses a connection whose other end is a process of another user. peerOf asks the
// system whose it is.
func checkUser(c *net.UnixConn, peerOf func(fd int) (user uint32, err error)) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var user uint32
	var asked error
	if err := raw.Control(func(fd uintptr) { user, asked = peerOf(int(fd)) }); err != nil {
		return err
	}
	if asked != nil {
		return asked
	}
	if int(user) != os.Geteuid() {
		return fmt.Errorf("the other end is a process of user %d, not of %d", user, os.Geteuid())
	}
	return nil
}
