package inspector

import (
	"bytes"
	"errors"
	"html"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A page answers one request.
//
// It belongs to one goroutine. newPage makes it, checkCaller sets who and rights, markLive streams, live and seq. The field now holds the
// instant that the page shows as now.
type page struct {
	w        http.ResponseWriter
	r        *http.Request
	s        *server
	root     string // leads from the page to the first one: "", or ../ as often as the page is deep
	now      time.Time
	who      string
	rights   api.Rights
	redacted bool   // the runs have no values: nothing is explained or tried
	streams  bool   // as frames, to whoever watches it
	live     bool   // the page changes with what it shows
	seq      int64  // of the run in view
	framed   bool   // it is a frame
	stale    bool   // something in it is of an earlier record
	leave    func() // gives back the place among those for which whole runs are read; nil without one
	title    string
	theme    string // light, dark, or "" as the reader prefers
}

// A frame is what every page has around its body.
//
// It is what templates get; Body is what the template of the page itself knows.
type frame struct {
	Title  string
	Name   string // of the inspector
	Root   string
	Here   string // the section of the page, as in its address
	Theme  string
	Return string // the page itself, from the first one
	Who    string
	Told   string // what was done last
	Live   string // where its frames come from; "" if it does not change
	AsOf   string // when it was made, of a list of what changes; "" of others, such as a run, which says its record
	Seq    int64
	Body   any
}

// newPage begins the answer to a request. Until checkCaller nobody is known, and there are no rights.
func (s *server) newPage(w http.ResponseWriter, r *http.Request) *page {
	p := &page{w: w, r: r, s: s, now: s.now()}
	// Links are relative, as the server does not know below which path it is seen. The escaped path counts, as browsers count slashes
	// there: a %2F in an id is not a slash.
	p.root = strings.Repeat("../", strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/"))
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		p.theme = c.Value
	}
	return p
}

// showPage writes a page with a body that the template of that name writes.
func (p *page) showPage(name, title, here string, body any) error {
	return p.showStatus(http.StatusOK, name, title, here, body)
}

// showStatus is showPage with another status. here is the section that the navigation marks.
func (p *page) showStatus(status int, name, title, here string, body any) error {
	f := frame{Title: title, Name: p.s.nameFor(p.r), Root: p.root, Here: here, Theme: p.theme, Who: p.who, Told: p.findTold(), AsOf: p.asOfText(name), Body: body}
	p.title = html.UnescapeString(string(showControls([]byte(html.EscapeString(title)))))
	// A page that answers a form has no address that could be loaded again: then the choice of colours leads to the first page.
	if p.r.Method == http.MethodGet {
		f.Return = strings.TrimPrefix(p.r.URL.EscapedPath(), "/")
		if p.r.URL.RawQuery != "" {
			f.Return += "?" + p.r.URL.RawQuery
		}
	}
	// The stream has the address of the page behind live/.
	if p.live {
		f.Live, f.Seq = p.root+"live/"+f.Return, p.seq
	}
	// The page is made whole before anything is written, so that an error of a template can still become a page of its own.
	var b bytes.Buffer
	if err := readTemplates().ExecuteTemplate(&b, name, f); err != nil {
		return err
	}
	p.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	p.w.WriteHeader(status)
	if p.r.Method != http.MethodHead {
		_, _ = p.w.Write(showControls(b.Bytes())) // whom it does not reach has gone
	}
	return nil
}

// asOfText says when a page was made that lists what changes.
//
// A frame does not: it is sent to nobody while it is the same as the one before, and the browser, which knows when it came, says that.
func (p *page) asOfText(template string) string {
	switch template {
	case "home.html", "runs.html", "inbox.html", "workers.html", "schedules.html", "schedule.html":
		if p.framed {
			return "now"
		}
		return p.now.UTC().Format("15:04:05 UTC")
	}
	return ""
}

// showError writes a page that says what went wrong.
//
// The status of an error of the engine is that of pawl.HTTPStatus, as in the API. Should even the page of the error fail, a line of text
// is left.
func (p *page) showError(err error) {
	status := pageStatus(err)
	if busy, again := busyStatus(err); busy != 0 {
		status = busy
		p.w.Header().Set("Retry-After", again)
	}
	body := struct {
		Status        int
		Text, Message string
	}{status, http.StatusText(status), p.errorAt(err)}
	if err := p.showStatus(status, "error.html", body.Text, "", body); err == nil {
		return
	}
	http.Error(p.w, body.Text, status)
}

// pageStatus returns the status of an error for which a request did not come too soon.
func pageStatus(err error) int {
	switch {
	case errors.Is(err, errNoPage):
		return http.StatusNotFound
	case errors.Is(err, errElsewhere), errors.Is(err, errForbidden):
		return http.StatusForbidden
	case errors.Is(err, errUnknown):
		return http.StatusUnauthorized
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errAct), errors.Is(err, replay.ErrRedacted):
		return http.StatusBadRequest
	case errors.Is(err, errTooLong):
		return http.StatusUnprocessableEntity
	case errors.Is(err, errMethod):
		return http.StatusMethodNotAllowed
	}
	return pawl.HTTPStatus(err)
}

// themeCookie is light, dark or auto. It concerns the reader alone, and is the only thing that a page keeps in a browser by itself.
const themeCookie = "pawl-theme"

// maxThemeForm bounds that form, in bytes: the address to go back to is in it.
const maxThemeForm = 64 << 10

// keepTheme keeps the reader's choice of colours in a cookie, and leads back.
//
// It is a POST like the acts, but needs no right to act: nothing of the engine changes.
func (p *page) keepTheme() error {
	form, err := p.parseForm(p.r.Body, maxThemeForm)
	if err != nil {
		return err
	}
	value := form.Get("theme")
	if value != "light" && value != "dark" {
		value = "auto"
	}
	http.SetCookie(p.w, &http.Cookie{Name: themeCookie, Value: value, MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	return p.goTo(form.Get("return"))
}

// goTo leads to a page of this inspector, by its address from the first one.
//
// The address may come from a form. An address that would lead out of the inspector leads to its first page: another host, a path from
// the root or upwards, and backslashes, which browsers take for slashes.
func (p *page) goTo(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.IsAbs() || u.Host != "" || strings.HasPrefix(u.EscapedPath(), "/") || strings.Contains(address, "\\") || leadsUp(u) {
		u = &url.URL{}
	}
	to := u.String()
	if to == "" || strings.HasPrefix(to, "?") {
		to = "./" + to
	}
	p.w.Header().Set("Location", p.root+to) // http.Redirect would make it absolute below the mount
	p.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// leadsUp reports whether an address leads upwards from the first page, be it only on its way. Browsers take a segment for dots that is escaped.
func leadsUp(u *url.URL) bool {
	depth := 0
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		switch text, _ := url.PathUnescape(segment); text {
		case "", ".": // an empty one is a level to browsers, and none to some proxies
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

// runLink returns the address of a run, with the parameters given in pairs.
//
// Pairs whose value is "" are left out, so callers give all that a page may have.
func (p *page) runLink(id workflow.RunID, pairs ...string) string {
	return p.root + runAddress(id, pairs...)
}

// pageLink returns the address of a page that is named after its section.
func (p *page) pageLink(section string, pairs ...string) string {
	return p.root + section + queryOf(nil, pairs)
}

// runAddress returns the address of a run from the first page: its id is the end of the path,
// with the slashes that the ids of children have, so that everybody counts the same depth.
//
// order-42 is run/order-42, and a child of it run/order-42/3.1 for example. An id with an empty segment or dots would be changed on the
// way, and is run/?id=a%2F%2Fb instead.
func runAddress(id workflow.RunID, pairs ...string) string {
	segments := strings.Split(string(id), "/")
	for i, segment := range segments {
		if segment == "" || segment == "." || segment == ".." { // which browsers and proxies take away
			return "run/" + queryOf(url.Values{"id": {string(id)}}, pairs)
		}
		segments[i] = url.PathEscape(segment)
	}
	return "run/" + strings.Join(segments, "/") + queryOf(nil, pairs)
}

// queryOf returns the parameters of an address; empty ones are left out.
//
// Pairs are added to q itself, which may be nil. The order is by name, so equal parameters are equal addresses.
func queryOf(q url.Values, pairs []string) string {
	if q == nil {
		q = url.Values{}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}
