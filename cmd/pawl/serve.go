package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/user"
	"path/filepath"
	"time"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/loopback"
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
	Offline  bool   `help:"If no engine has the directory open, let the pages change runs: what comes of it begins when your program opens the directory."`
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

// runCommand serves until it is interrupted, which is no error, or the engine of a closed directory is started. Acts are possible where a live
// engine is asked, or where the user has agreed to commit offline; the pages of a file of runs only
// read.
func (c *serveCommand) runCommand(ctx context.Context, con *console) error {
	if !loopback.IsLoopback(c.Addr) {
		return fmt.Errorf("--addr %s: %w", c.Addr, errNotHere)
	}
	if c.By == "" {
		if u, err := user.Current(); err == nil {
			c.By = u.Username
		}
	}
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

// checkPages refuses an engine that has no pages. An engine with Socket: api.Local has the API and
// no pages; one icon tells.
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

// relayTo passes requests on to an engine, in the name of a person. NarrowLocal replaces what the
// browser may have sent in these headers, and the key of the door is not passed on: it is nobody's
// business behind it.
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
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "The engine does not answer; load this page again when your program runs.\n\n"+err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // an answer may come before the engine has read the question
		proxy.ServeHTTP(w, r)
	})
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
