package inspector

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/pawl-run/pawl/api"
)

// Errors of requests that are refused.
var (
	errElsewhere = errors.New("this inspector does not know its callers, so it serves its own machine only: set Options.Identify of package inspector")
	errUnknown   = errors.New("the caller is not known")
	errMethod    = errors.New("this address can be read only")
	errForbidden = errors.New("you may not do that here")
)

// FromThisMachine returns an Options.Identify that takes whoever sends a request from this
// machine to a loopback host, through no proxy, for who, with these rights, and refuses all
// others. Every program and every user of the machine can send such a request.
func FromThisMachine(who string, rights api.Rights) func(*http.Request) (string, api.Rights, error) {
	return func(r *http.Request) (string, api.Rights, error) {
		if !isFromThisMachine(r) {
			return "", 0, errElsewhere
		}
		return who, rights, nil
	}
}

// checkCaller finds out who sends a request, and refuses those who may not even look.
func (s *server) checkCaller(p *page) (err error) {
	identify := s.options.Identify
	if identify == nil {
		identify = FromThisMachine("", api.View|api.Values)
	}
	if p.who, p.rights, err = identify(p.r); err != nil {
		if errors.Is(err, errElsewhere) {
			return errElsewhere
		}
		return errUnknown
	}
	if p.rights&api.View == 0 {
		return errForbidden
	}
	return nil
}

// isFromThisMachine reports whether a request comes from this machine, and names no other
// host, as a page of a stranger whose name was pointed here would. A proxy may bring others.
func isFromThisMachine(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	return isThisMachine(r.RemoteAddr) && isThisMachine(r.Host)
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
