package main

import (
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/pawl-run/pawl/internal/loopback"
)

// A door lets requests of this machine through that have a key: in the address, which is how a
// browser comes, in a header, which is how a program does, or typed. A browser gets a cookie in
// exchange, and an address without the key. It is what stands between the browsers of a machine,
// which several users may share, and an engine on whose socket its user may do everything: the
// loopback address alone tells nothing of who asks. Key and ticket are made for one process of pawl
// serve, and are worth nothing after it.
type door struct {
	at     string // host and port
	key    string
	ticket string // the value of the cookie
	cookie string // its name: ports of a machine share their cookies
	origin http.CrossOriginProtection
	behind http.Handler
}

//go:embed door.html
var doorPage []byte

// newDoor returns a door at an address of this machine, with a key and a ticket that nobody has had
// before. The ticket is another secret than the key, so that a cookie which leaks does not tell the
// key.
func newDoor(at string, behind http.Handler) *door {
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		port = "0" // it is the address of a listener
	}
	return &door{at: at, key: rand.Text(), ticket: rand.Text(), cookie: "pawl-" + port, behind: behind}
}

// address returns where a browser gets in.
func (d *door) address() string { return fmt.Sprintf("http://%s/?key=%s", d.at, d.key) }

// ServeHTTP implements http.Handler. In this order: requests that a proxy or the page of a stranger
// has sent are refused whatever they bring; then requests with the key are let in; then programs
// with the header and browsers with the cookie go through; everybody else sees the form.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !loopback.SentRequest(r) {
		http.Error(w, "These pages are for this machine, without a proxy.", http.StatusForbidden)
		return
	}
	if err := d.origin.Check(r); err != nil {
		http.Error(w, "A page of another site may not ask.", http.StatusForbidden)
		return
	}
	given := r.URL.Query().Get("key")
	if r.Method == http.MethodPost && r.URL.Path == "/" {
		// It is the form of askForKey, whose body is the key alone.
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		given = strings.TrimSpace(r.PostFormValue("key"))
	}
	switch bearer, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); {
	case isSecret(given, d.key):
		d.letIn(w, r)
	case isBearer && isSecret(bearer, d.key), d.hasTicket(r):
		d.behind.ServeHTTP(w, r)
	default:
		d.askForKey(w)
	}
}

// letIn gives a browser the cookie and leads it to the address without the key. The redirect leaves
// the key out of the address bar and of the history that a user might show; no Referer may carry it
// on. All slashes but one are cut from the path, as "//host/" would lead to another host.
func (d *door) letIn(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.ticket, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	to := *r.URL
	query := to.Query()
	query.Del("key")
	to.RawQuery = query.Encode()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, "/"+strings.TrimLeft(to.RequestURI(), "/"), http.StatusSeeOther)
}

func (d *door) hasTicket(r *http.Request) bool {
	c, err := r.Cookie(d.cookie)
	return err == nil && isSecret(c.Value, d.ticket)
}

// askForKey answers a request without the key with a form for it.
func (d *door) askForKey(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("WWW-Authenticate", `Bearer realm="pawl serve"`)
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write(doorPage) // nobody is left to be told
}

// isSecret compares in a time that does not tell how much is equal. Both are compared as bytes;
// only their lengths may be told by the time.
func isSecret(given, secret string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(secret)) == 1
}
