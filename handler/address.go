package handler

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/pawl-run/pawl/internal/value"
)

// checkURL refuses a URL that the options do not allow. It gives the host the name in ASCII
// that is connected to.
func (h *requester) checkURL(u *url.URL) error {
	name, err := asciiName(u.Hostname())
	if err != nil {
		return permanentError(CodeHTTPDenied, "the host %s is no name: %v", quoteText(u.Host), err)
	}
	if name != u.Hostname() {
		u.Host = hostAndPort(name, u.Port())
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return permanentError(CodeHTTPDenied, "the scheme %s is not http or https", quoteText(u.Scheme))
	}
	if len(h.options.Hosts) > 0 && !slices.ContainsFunc(h.options.Hosts, func(allowed string) bool { return matchesHost(allowed, u) }) {
		return permanentError(CodeHTTPDenied, "the host %s is not among those that are allowed", quoteText(u.Host))
	}
	if err := h.checkPrepared(u); err != nil {
		return err
	}
	if h.options.Allow != nil {
		asked := *u
		asked.Host = hostAndPort(normalizedHost(u), u.Port())
		if err := h.options.Allow(&asked); err != nil {
			return permanentError(CodeHTTPDenied, "%s: %v", redactedURL(u), err)
		}
	}
	return nil
}

// checkPrepared refuses a URL to which the credentials of Prepare must not go.
func (h *requester) checkPrepared(u *url.URL) error {
	switch o := h.options; {
	case o.Prepare == nil || o.PrepareAnywhere:
		return nil
	case len(o.Hosts) == 0:
		return permanentError(CodeHTTPDenied, "HTTPOptions.Prepare is for the hosts that Hosts lists, and it lists none; or set PrepareAnywhere")
	case u.Scheme != "https":
		return permanentError(CodeHTTPDenied, "%s: what HTTPOptions.Prepare adds goes over https only, unless PrepareAnywhere is set", redactedURL(u))
	}
	return nil
}

// matchesHost reports whether an entry of Hosts stands for the host of u.
func matchesHost(allowed string, u *url.URL) bool {
	entry := &url.URL{Scheme: u.Scheme, Host: allowed}
	if strings.Count(allowed, ":") > 1 && !strings.HasPrefix(allowed, "[") { // a bare IPv6 address
		entry.Host = "[" + allowed + "]"
	}
	name, err := asciiName(entry.Hostname())
	if err != nil {
		return false
	}
	entry.Host = hostAndPort(name, entry.Port())
	return normalizedHost(entry) == normalizedHost(u) && (entry.Port() == "" || entry.Port() == effectivePort(u))
}

// asciiName returns the name of a host in ASCII, as net/http would look it up: the full-width
// letters of ｌocalhost, for one, are localhost (UTS 46).
func asciiName(host string) (string, error) {
	if !strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return host, nil
	}
	return idna.Lookup.ToASCII(host)
}

// hostAndPort returns the host of a URL: a name or an address, and a port unless it is "".
func hostAndPort(name, port string) string {
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if port == "" {
		return name
	}
	return name + ":" + port
}

func normalizedHost(u *url.URL) string { return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) }

func effectivePort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// maxQuotedURL bounds, in bytes, what a message quotes of a URL.
const maxQuotedURL = 256

// redactedURL returns a URL as a message shows it: without query, fragment and user,
// which may hold secrets.
func redactedURL(u *url.URL) string {
	return value.Shorten(u.Scheme+"://"+u.Host+u.EscapedPath(), maxQuotedURL)
}

// refusePrivate is a net.Dialer's Control: it refuses addresses that are not
// public.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !isPublicAddress(at.Addr()) {
		return permanentError(CodeHTTPDenied, "the address %s is not public", address)
	}
	return nil
}

// special are the blocks within the unicast space that are not, or not surely,
// hosts of the public Internet: the registries of special purpose addresses of
// IANA (RFC 6890 and its successors), and those that embed an IPv4 address.
var special = parsePrefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

func parsePrefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// global is what IANA gives out as public IPv6 addresses.
var global = netip.MustParsePrefix("2000::/3")

// isPublicAddress reports whether an address is one of the public Internet.
func isPublicAddress(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.Is6() && !global.Contains(a) {
		return false
	}
	return a.IsValid() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}
