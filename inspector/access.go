package inspector

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

var (
	errElsewhere = errors.New("this inspector serves its own machine only")
	errMethod    = errors.New("this address can be read only")
)

// checkCaller refuses a request that does not come from this machine, or that names another
// host: a page of a stranger whose name was pointed here.
func (s *server) checkCaller(r *http.Request) error {
	if !isThisMachine(r.RemoteAddr) || !isThisMachine(r.Host) {
		return errElsewhere
	}
	return nil
}

// isThisMachine says that a host, with or without a port, is this machine.
func isThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
