package loopback

import (
	"errors"
	"net"
	"net/http"
	"net/url"
)

// The headers of a request through the socket of an engine that say less than that its user sends it.
const (
	byHeader       = "Pawl-By"
	rightsHeader   = "Pawl-Rights"
	redactedHeader = "Pawl-Redacted" // the runs have no values
)

// NarrowLocal is api.NarrowLocal.
func NarrowLocal(r *http.Request, who string, reading bool) {
	if r == nil {
		return
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	// Somebody without a name is somebody all the same, and has no files read or written.
	r.Header[byHeader] = []string{url.QueryEscape(who)}
	r.Header.Del(rightsHeader)
	if reading {
		r.Header.Set(rightsHeader, "read")
	}
}

// A Sender sends a request on the socket of an engine: a program of the same user, or a person for whom it asks.
type Sender struct {
	Who     string
	Reading bool // it may see, and do nothing
	Files   bool // it may have files read and written
}

// SenderOf returns who sends a request on the socket of an engine: a program of the same user, which has all rights and may have files read and
// written, but for what the headers of NarrowLocal take away. The header with the name takes the files by being there, even if the name is
// empty. The headers are believed because the socket has mode 0600: a program that can write to it could do everything
// anyway. A request that comes through a program for somebody else has that header, and loses the files: nobody has files read or written
// through the program of another.
func SenderOf(r *http.Request) (Sender, error) {
	if r == nil {
		return Sender{}, errors.New("there is no request")
	}
	who, err := url.QueryUnescape(r.Header.Get(byHeader))
	rights := r.Header.Get(rightsHeader)
	if err != nil || rights != "" && rights != "read" {
		return Sender{}, errors.New(byHeader + " or " + rightsHeader + " is no header of NarrowLocal")
	}
	// Nobody asks through it without the header.
	return Sender{Who: who, Reading: rights == "read", Files: rights == "" && r.Header[byHeader] == nil}, nil
}

// MarkRedacted says in a request through the socket of an engine that the values of its runs were left out when they were
// exported. The runs are shown then, and a request to explain or to try something is refused as replay.ErrRedacted says, since it
// would plan on what stands for the values. It is for programs that open exports, as pawl does. Without a request it does nothing.
func MarkRedacted(r *http.Request) {
	if r == nil {
		return
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set(redactedHeader, "1")
}

// IsRedacted reports whether MarkRedacted has said so of a request.
func IsRedacted(r *http.Request) bool { return r != nil && r.Header.Get(redactedHeader) != "" }

// A Paged is a listener on the socket of an engine whose pages are served beside the API: the handler answers the requests for all paths but
// /v1/, /healthz and /readyz. The contexts of its requests are done when the listener is closed.
type Paged struct {
	net.Listener
	Pages http.Handler
}
