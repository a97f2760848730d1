// Package loopback tells what comes from this machine.
package loopback

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// IsLoopback says that a host, with or without a port, is this machine: localhost, or an
// address such as 127.0.0.1.
func IsLoopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	if strings.ContainsAny(port, "@/?#[]") { // such as in localhost:80@example.com; a port may have a name
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// SentRequest says that this machine sent a request, through no proxy, and that it names no
// other host, as a page of a stranger whose name was pointed here would. A proxy on this
// machine may bring others.
func SentRequest(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	return IsLoopback(r.RemoteAddr) && IsLoopback(r.Host)
}
