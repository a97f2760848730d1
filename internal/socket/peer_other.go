//go:build !linux && !darwin && !freebsd

package socket

import "net"

// checkPeer takes every connection: here the modes of the socket and of its folder keep others out.
func checkPeer(*net.UnixConn) error { return nil }
