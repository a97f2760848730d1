package socket

import (
	"net"

	"golang.org/x/sys/unix"
)

// checkPeer refuses a connection with a process of another user.
func checkPeer(c *net.UnixConn) error {
	return checkUser(c, func(fd int) (uint32, error) {
		peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			return 0, err
		}
		return peer.Uid, nil
	})
}
