//go:build darwin || freebsd

package socket

import (
	"net"

	"golang.org/x/sys/unix"
)

// checkPeer refuses a connection with a process of another user.
func checkPeer(c *net.UnixConn) error {
	return checkUser(c, func(fd int) (uint32, error) {
		peer, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err != nil {
			return 0, err
		}
		return peer.Uid, nil
	})
}
