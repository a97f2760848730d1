package cluster

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/api"
)

// headerSender says who has sent a request that is passed on: the rights and the name that Identify gave at the node that passes it on.
//
// It only takes rights away, so it does no harm that anybody can set it. The node with the engine asks Identify as well, about a request
// that comes from the address of another node, over its connection and by its transport. If Identify should go by one of these, the
// caller still has no more rights than at the node that was asked, and no other name.
const headerSender = "Pawl-Passed-For"

// A sender is who has sent a request, as Identify says.
type sender struct {
	who    string
	rights api.Rights
}

// String returns the value of headerSender.
func (s sender) String() string {
	return strconv.Itoa(int(s.rights)) + " " + url.QueryEscape(s.who)
}

// parseSender is the inverse of String.
func parseSender(text string) (s sender, ok bool) {
	bits, name, _ := strings.Cut(text, " ")
	rights, err := strconv.ParseUint(bits, 10, 8)
	who, unescaped := url.QueryUnescape(name)
	return sender{who, api.Rights(rights)}, err == nil && unescaped == nil
}

// openPaths are the paths of the API that take no rights. /healthz is one for methods that it does not have.
var openPaths = []string{"/healthz", "/readyz", "/v1/openapi.yaml"}

// identifySender returns who has sent a request that is to be passed on, or an *api.Error as the API of this node would answer it.
//
// The rights of the sender are not compared with those that the path needs: the node with the engine does that.
func (n *Node) identifySender(r *http.Request) (sender, error) {
	at := r.URL.EscapedPath()
	switch {
	// The server of the other node may have more than the API, for callers at its own address for example.
	case path.Clean(at) != at || !strings.HasPrefix(at, "/v1/") && !slices.Contains(openPaths, at):
		return sender{}, &api.Error{Status: http.StatusNotFound, Code: "not_found", Message: "there is no such path: see /v1/openapi.yaml"}
	case slices.Contains(openPaths, at):
		return sender{}, nil
	case n.o.API.Identify == nil:
		return sender{}, &api.Error{Status: http.StatusForbidden, Code: "forbidden", Message: "this node does not know its callers, so it passes nothing on: set API.Identify in cluster.Options"}
	}
	who, rights, err := n.o.API.Identify(r)
	if e := (*api.Error)(nil); errors.As(err, &e) {
		return sender{}, e
	}
	if err != nil {
		return sender{}, &api.Error{Status: http.StatusUnauthorized, Code: "unauthorized", Message: "the caller is not known"}
	}
	return sender{who, rights}, nil
}

// limitPassed returns options by which a request that was passed on has the rights that its sender has at both nodes, under one name.
//
// Without Identify they stay as they are: a request that has come through another program is refused then.
func limitPassed(o api.Options) api.Options {
	identify := o.Identify
	if identify == nil {
		return o
	}
	o.Identify = func(r *http.Request) (string, api.Rights, error) {
		who, rights, err := identify(r)
		passed := r.Header.Values(headerSender)
		if err != nil || len(passed) == 0 {
			return who, rights, err
		}
		s, ok := parseSender(passed[0])
		if !ok || len(passed) > 1 || s.who != who {
			return "", 0, &api.Error{Status: http.StatusForbidden, Code: "forbidden", Message: "the node that has passed this on knows the caller by another name than this one: see PassOn and API in cluster.Options"}
		}
		return who, rights & s.rights, nil
	}
	return o
}

// copyWithoutCredentials returns a transport for requests of others that goes the way of one that the node uses for itself.
//
// A transport that is no *http.Transport may add a token, or anything else: nothing of it can be used.
func copyWithoutCredentials(of http.RoundTripper) *http.Transport {
	if of == nil {
		of = http.DefaultTransport
	}
	from, ok := of.(*http.Transport)
	if !ok {
		from = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, MaxIdleConns: 100, IdleConnTimeout: 90 * time.Second,
		}
	}
	t := from.Clone()
	t.DialTLS, t.DialTLSContext = nil, nil //nolint:staticcheck // which may show a certificate
	if c := t.TLSClientConfig; c != nil {
		// A session that is resumed has the certificate with which it began.
		c.Certificates, c.GetClientCertificate, c.ClientSessionCache = nil, nil, nil
	}
	if len(t.TLSNextProto) > 0 { // HTTP/2 that the host has added, and whose connections the copy would share
		t.TLSNextProto, t.ForceAttemptHTTP2 = nil, true
	}
	return t
}
