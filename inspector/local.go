package inspector

import (
	"net"
	"net/http"
	"net/url"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/loopback"
)

// Local serves the API of an engine, as api.Local does, and its pages to programs of the same user, for
// pawl.Options.Socket. The command pawl serve shows them in a browser of this machine.
//
// Requests say in whose name they come and with which rights, which is believed since only the same user can open the socket.
func Local(e *pawl.Engine, l net.Listener) {
	if l == nil {
		return
	}
	s := newServer(e, Options{Identify: identifyLocal})
	s.local = true
	api.Local(e, loopback.Paged{Listener: l, Pages: s})
}

// identifyLocal is the Options.Identify of the pages on the socket of an engine.
func identifyLocal(r *http.Request) (who string, rights api.Rights, err error) {
	s, err := loopback.SenderOf(r)
	switch {
	case err != nil:
		return "", 0, &api.Error{Status: http.StatusForbidden, Code: "forbidden", Message: err.Error()}
	case s.Reading:
		return s.Who, api.View | api.Values, nil
	case s.Files:
		return s.Who, api.All | api.Files, nil
	default:
		return s.Who, api.All, nil
	}
}

// nameHeader has what NameLocal says.
const nameHeader = "Pawl-Name"

// NameLocal says in a request through the socket of an engine what stands at the top of its pages, as Options.Name
// does, in place of nothing. It is for programs that show the pages of several engines, as pawl serve does. Without a request it does
// nothing.
//
// The name is escaped as in a query, as a header must not have every character.
func NameLocal(r *http.Request, name string) {
	if r == nil {
		return
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set(nameHeader, url.QueryEscape(name))
}

// nameFor returns what stands at the top of a page.
//
// The header only counts on the socket: elsewhere anybody could send it, and make a page look like that of another engine.
func (s *server) nameFor(r *http.Request) string {
	if !s.local {
		return s.options.Name
	}
	name, err := url.QueryUnescape(r.Header.Get(nameHeader))
	if err != nil {
		return ""
	}
	return shortText(name, 60)
}
