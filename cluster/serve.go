package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/pawl-run/pawl/api"
)

// headerPassed is the name of the node that has passed a request on: it is not passed on again.
//
// Two nodes that each take the other for the owner, while the lease changes hands, would send a request back and forth for ever.
const headerPassed = "Pawl-Passed-By"

// ownerHost stands in a URL for wherever the engine is.
//
// RFC 2606 reserves .invalid, so no request leaves for it if the transport should fail to replace it.
const ownerHost = "owner.invalid"

// ErrNoOwner says that no node has the engine open just now, or that the one which has it tells no address. Try again.
var ErrNoOwner = errors.New("no node that can be reached has the engine open")

// errTaken says that an engine was opened for nothing.
var errTaken = errors.New("another node took the lease while the engine was opened here")

// errLapsed says that a node does not know any more who has the lease, which was its own. The engine that it may have open is not asked.
var errLapsed = errors.New("this node has not renewed its lease for a term, and another may have taken over")

// ServeHTTP answers the API of the engine, as api.Handler does, if it is here; otherwise the request is passed on to the node that has it, with
// the headers of the caller, who needs the rights at both nodes (see Options.API) and gets none of this one's. If no node has the engine the
// answer is 503 with Retry-After. /healthz is about this process alone, and never passed on: a supervisor must not end one that stands by. It
// is not ok when Close has returned.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if w == nil {
		return
	}
	if n == nil || n.stop == nil || r == nil {
		refuseCall(w, ErrNoOwner)
		return
	}
	n.mu.Lock()
	here, status, over := n.serves, n.readStatus(), n.over
	if !n.hasLease() {
		here = nil
	}
	n.mu.Unlock()
	if here != nil {
		here.ServeHTTP(w, r)
		return
	}
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.URL.Path == "/healthz" {
		if over {
			refuseCall(w, fmt.Errorf("%w: this node is closed", ErrNoOwner))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.Health{Status: "ok"}) // the caller may be gone
		return
	}
	n.passRequest(w, r, status, over)
}

// passRequest sends a request to the node with the engine, and its answer back.
func (n *Node) passRequest(w http.ResponseWriter, r *http.Request, status Status, over bool) {
	owner := status.Owner
	by := r.Header.Get(headerPassed)
	from, err := n.identifySender(r)
	var to *url.URL
	if err == nil {
		to, err = addressOf(owner)
	}
	switch {
	case err == nil && by != "":
		err = fmt.Errorf("%w: %s has passed this on to a node that has lost it", ErrNoOwner, by)
	case err == nil && owner.Node == n.o.Node:
		err = fmt.Errorf("%w: it is being opened or closed here", ErrNoOwner)
	case errors.Is(err, ErrNoOwner) && over:
		err = fmt.Errorf("%w: this node is closed", ErrNoOwner)
	case errors.Is(err, ErrNoOwner) && errors.Is(status.Err, errLapsed):
		err = fmt.Errorf("%w: %w", ErrNoOwner, errLapsed)
	}
	if err != nil {
		refuseCall(w, err)
		return
	}
	proxy := httputil.ReverseProxy{
		Transport: n.passOn,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.SetXForwarded()
			p.Out.Header.Set(headerPassed, n.o.Node)
			p.Out.Header.Set(headerSender, from.String())
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuseCall(w, fmt.Errorf("%w: %s: %w", ErrNoOwner, owner.Node, err))
		},
		FlushInterval: -1, // streams
	}
	proxy.ServeHTTP(w, r)
}

// refuseCall answers a request that is not passed on: with the error of package api, or else that nobody can answer it now.
//
// It has the form of the errors of that package, whose clients repeat a call that is told busy.
func refuseCall(w http.ResponseWriter, err error) {
	e := (*api.Error)(nil)
	if !errors.As(err, &e) {
		e = &api.Error{Status: http.StatusServiceUnavailable, Code: "busy", Message: err.Error()}
		w.Header().Set("Retry-After", "1")
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": e}) // the caller may be gone
}

// addressOf returns where the API of an owner is.
func addressOf(owner Owner) (*url.URL, error) {
	switch {
	case owner.Node == "":
		return nil, ErrNoOwner
	case owner.Address == "":
		return nil, fmt.Errorf("%w: %s, which has it, tells no address: set cluster.Options.Address there", ErrNoOwner, owner.Node)
	}
	to, err := url.Parse(owner.Address)
	if err != nil {
		return nil, fmt.Errorf("%w: the address of %s: %w", ErrNoOwner, owner.Node, err)
	}
	return to, nil
}

// Client returns a client of the engine, wherever that is. Calls fail with [ErrNoOwner] while no node has it, and with
// pawl.ErrUnknown if its node dies while they are under way; they may be repeated. They go over HTTP, also to the engine
// of this node, and need the rights that Options.API of its node gives them.
func (n *Node) Client() *api.Client {
	if n == nil {
		return nil
	}
	return n.client
}

// passing is the transport of Client.
//
// A request of the client names ownerHost; RoundTrip puts the address of the owner there for each request anew, so that a client
// outlives any number of take-overs.
type passing Node

// RoundTrip implements http.RoundTripper: it sends a request to wherever the engine is. An http.RoundTripper closes the body also when
// it sends nothing.
func (p *passing) RoundTrip(r *http.Request) (*http.Response, error) {
	n := (*Node)(p)
	n.mu.Lock()
	owner := n.readStatus().Owner
	n.mu.Unlock()
	to, err := addressOf(owner)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was sent of it
		}
		return nil, err
	}
	// A RoundTripper must not change the request that it is given. The path of the address comes first, as its API may be below one;
	// both stay escaped as they are, since the %2F in the name of a definition is no slash.
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = to.Scheme, to.Host, to.Host
	out.URL.Path = strings.TrimSuffix(to.Path, "/") + r.URL.Path
	out.URL.RawPath = strings.TrimSuffix(to.EscapedPath(), "/") + r.URL.EscapedPath()
	send := n.o.HTTP.Transport
	if send == nil {
		send = http.DefaultTransport
	}
	return send.RoundTrip(out)
}
