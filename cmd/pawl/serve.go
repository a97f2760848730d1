package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/loopback"
	"github.com/pawl-run/pawl/internal/refusal"
)

var serveVerb = verb{
	name:    "serve",
	help:    "Show the runs of an engine, live or closed, in a browser of this machine, until it is interrupted.",
	example: []string{"pawl serve", "pawl serve --dir /var/lib/shop --read-only", "ssh -L 8470:127.0.0.1:8470 host pawl serve   # from another machine"},
	command: func() command { return new(serveCommand) },
}

// A serveCommand serves the pages of package inspector, and the API, to requests with the key that it prints.
type serveCommand struct {
	Addr     string `default:"127.0.0.1:8470" placeholder:"HOST:PORT" help:"Where to listen, on this machine; port 0 is any."`
	By       string `placeholder:"NAME" help:"Who acts on the pages; the user of this process, if this is not given."`
	ReadOnly bool   `help:"Show runs and change nothing."`
	Offline  bool   `help:"If no engine has the directory open, let the pages change runs: what comes of it begins when your program opens the directory, and deadlines count from now."`
	dirFlag
}

// A serving is what the command prints when it is ready.
type serving struct {
	URL    string `json:"url"` // with the key
	Source string `json:"source"`
	Acts   bool   `json:"acts"` // runs can be changed
}

// String returns it for people.
func (s serving) String() string {
	acts := "Runs can be looked at, not changed."
	if s.Acts {
		acts = "Runs can be looked at and changed."
	}
	return fmt.Sprintf("%s\n%s. %s The address has the key to it. Interrupt ends it.", s.URL, s.Source, acts)
}

// errNotHere refuses to serve other machines.
var errNotHere = errors.New("these pages are for this machine: use ssh -L to reach them from another, or let your program serve inspector.Handler to those it knows")

// errNoPages says that a live engine has an API on its socket and no pages.
var errNoPages = errors.New("the engine answers, and has no pages: open it with pawl.Options{Socket: inspector.Local}")

// runCommand serves until it is interrupted, which is no error, or the engine of a closed directory is started. Acts are possible where a live engine
// is asked, or where the user has agreed to commit offline; the pages of a file of runs only read.
func (c *serveCommand) runCommand(ctx context.Context, con *console) error {
	if !loopback.IsLoopback(c.Addr) {
		return fmt.Errorf("--addr %s: %w", c.Addr, errNotHere)
	}
	c.By = userName(c.By)
	return c.withEngine(ctx, con, func(e *reached) error {
		if err := e.checkPages(ctx); err != nil {
			return err
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Addr)
		if err != nil {
			return fmt.Errorf("%w: --addr names another port", err)
		}
		acts := !c.ReadOnly && !e.fixed && (e.live || c.Offline)
		d := newDoor(l.Addr().String(), relayTo(e.carry, shown{e.nameFor(c.Dir), c.By, !acts}))
		con.writeLine(c.JSON, serving{d.address(), e.source, acts})
		if err := serveUntilDone(ctx, l, d); err != nil || !errors.Is(context.Cause(ctx), errGaveWay) {
			return err
		}
		return errGaveWay
	})
}

// checkPages refuses an engine that has no pages. An engine with Socket: api.Local has the API and no pages; one icon tells.
func (e *reached) checkPages(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/static/icon.svg", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := e.carry.RoundTrip(r)
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // nobody reads it
	if answer.StatusCode != http.StatusOK {
		return errNoPages
	}
	return nil
}

// A shown is how pages are shown: what they are called, in whose name, and whether for reading only.
type shown struct {
	name, who string
	reading   bool
}

// nameFor returns what stands at the top of the pages: which directory or file it is, and whether an engine has it.
func (e *reached) nameFor(dir string) string {
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	switch name := filepath.Base(dir); {
	case e.fixed:
		return e.source
	case e.live:
		return name + ", live"
	default:
		return name + ", files"
	}
}

// relayTo passes requests on to an engine, in the name of a person. NarrowLocal replaces what the browser may have sent in these headers, and the key
// of the door is not passed on: it is nobody's business behind it.
func relayTo(carry http.RoundTripper, as shown) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: carry,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // the answer says it
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "localhost"})
			r.Out.Host = r.In.Host // by which the pages tell a form of theirs
			r.Out.Header.Del("Authorization")
			api.NarrowLocal(r.Out, as.who, as.reading)
			inspector.NameLocal(r.Out, as.name)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if isOfAPI(r) {
				writeRefusal(w, lossOf(r, err))
				return
			}
			http.Error(w, "The engine does not answer; load this page again when your program runs.\n\n"+err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // an answer may come before the engine has read the question
		proxy.ServeHTTP(w, r)
	})
}

// isOfAPI reports whether a request is of a program, which is answered in JSON.
func isOfAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/") }

// writeRefusal answers a program with an error of the API.
func writeRefusal(w http.ResponseWriter, e *api.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(map[string]*api.Error{"error": e}) // nobody is left to be told
}

// lossOf says that no engine answers a request. Where one may have got it, and it acts, nobody knows what was done: a POST that
// simulates, and a dry run, only look.
func lossOf(r *http.Request, err error) *api.Error {
	lost := pawl.ErrClosed
	dry := r.URL.Query().Get("dryRun")
	looks := r.Method == http.MethodGet || r.Method == http.MethodHead || dry == "1" || dry == "true" || r.Method == http.MethodPost && path.Base(r.URL.Path) == "simulate"
	if !errors.Is(err, api.ErrNoEngine) && !looks {
		lost = pawl.ErrUnknown
	}
	row := refusal.Of(lost)
	return &api.Error{Status: row.Status, Code: row.Code, Message: "the engine does not answer; ask again when your program runs: " + err.Error()}
}

// serveUntilDone serves until ctx is done, and then ends what is under way. The contexts of
// requests end with ctx, so streams do not hold up the shutdown.
func serveUntilDone(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of connections that break
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.Shutdown(patience) != nil {
		_ = s.Close() // nobody is left to be told
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// A door lets requests of this machine through that have a key: in the address, which is how a browser comes, in a header, which is how a program
// does, or typed. A browser gets a cookie in exchange, and an address without the key. It is what stands between the browsers of a machine, which
// several users may share, and an engine on whose socket its user may do everything: the loopback address alone does not tell who asks. Key and
// ticket are made for one process of pawl serve, and are worth nothing after it.
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

// newDoor returns a door at an address of this machine, with a key and a ticket that nobody has had before. The ticket is another secret than the
// key, so that a cookie which leaks does not tell the key.
func newDoor(at string, behind http.Handler) *door {
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		port = "0" // it is the address of a listener
	}
	return &door{at: at, key: rand.Text(), ticket: rand.Text(), cookie: "pawl-" + port, behind: behind}
}

// address returns where a browser gets in.
func (d *door) address() string { return fmt.Sprintf("http://%s/?key=%s", d.at, d.key) }

// ServeHTTP implements http.Handler. In this order: requests that a proxy or the page of a stranger has sent are refused whatever they bring; then
// requests with the key are let in; then programs with the header and browsers with the cookie go through; everybody else sees the form.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !loopback.SentRequest(r) {
		forbidRequest(w, r, "These pages are for this machine, without a proxy.")
		return
	}
	if err := d.origin.Check(r); err != nil {
		forbidRequest(w, r, "A page of another site may not ask.")
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
		d.askForKey(w, r)
	}
}

// forbidRequest answers a request that no key lets in.
func forbidRequest(w http.ResponseWriter, r *http.Request, why string) {
	if isOfAPI(r) {
		writeRefusal(w, &api.Error{Status: http.StatusForbidden, Code: "forbidden", Message: why})
		return
	}
	http.Error(w, why, http.StatusForbidden)
}

// letIn gives a browser the cookie and leads it to the address without the key. The redirect leaves the key out of the address bar and of the history
// that a user might show; no Referer may carry it on. All slashes but one are cut from the path, as "//host/" would lead to another host.
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

// askForKey answers a request without the key: a browser with a form for it.
func (d *door) askForKey(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("WWW-Authenticate", `Bearer realm="pawl serve"`)
	if isOfAPI(r) {
		writeRefusal(w, &api.Error{Status: http.StatusUnauthorized, Code: "unauthorized", Message: `the key is missing or wrong: send "Authorization: Bearer KEY", with the key that pawl serve has printed`})
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write(doorPage) // nobody is left to be told
}

// isSecret compares in a time that does not tell how much is equal. Both are compared as bytes; only their lengths may be told by the time.
func isSecret(given, secret string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(secret)) == 1
}
