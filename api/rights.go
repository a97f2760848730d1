package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/loopback"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// Rights are what a caller may see and do, any number of them together. They are a set of bits; each route names the rights that it
// needs, and a caller must have all of them. One right does not bring another: Define without Act cannot start a run.
type Rights uint8

// The rights. A caller without any sees only the health of the engine.
const (
	// View: runs and how they stand, their tokens, events and definitions, without the values in them.
	View Rights = 1 << iota
	// Values: inputs, outputs and data of runs, texts of errors, readings of conditions. It needs View as well.
	Values
	// Act: to start runs of published definitions, to store blobs for them, and to change runs in every way but by a patch.
	Act
	// Define: to publish definitions, to start runs of definitions that are not published, and to patch those of runs.
	Define

	// Files: to have the engine read and write files of its machine, wherever the caller says. Only programs
	// on the socket of the engine have it, unless a host gives it.
	Files

	// All rights but Files.
	All = View | Values | Act | Define
)

// Options say whom a Handler serves. The zero value serves this machine, reading only.
type Options struct {
	// Identify says who sends a request, from what the host knows: a session, a certificate, a
	// header that its proxy sets. Acts are done in that name; with "" the request itself names the actor. An *Error is answered
	// as it is, any other error with 401. It is called at the beginning of each request, from any goroutine, and again
	// every 15 s of a stream, which ends if the name or the rights have changed, and after a wait.
	//
	// Without it the handler serves requests from a loopback address to a loopback host which have come
	// through no proxy, with View and Values.
	Identify func(*http.Request) (who string, rights Rights, err error)
	// Redact returns what is shown in place of a value of a run, at a path such as output.card.number or
	// state.items[3]: the value itself, another one, or nil. It is called for every value, and then for the values inside its
	// result. If it is set, texts that may quote values, such as messages of errors, are left out. It must not modify its argument.
	Redact func(run workflow.RunID, path string, value any) any
	// Rate bounds how fast one caller sends requests, by the name that Identify gives: a request that comes too soon is
	// answered 429 with Retry-After. Callers without a name count as one.
	Rate Rate
	// MaxBlob bounds a blob that a caller stores, in bytes; 0 is 1 GiB. Programs on the socket of the engine have no bound.
	MaxBlob int64
}

// A caller is the sender of a request.
type caller struct {
	who    string
	rights Rights
}

// identifyCaller returns who sends a request, or an *Error. On the socket the options of a host do not count. An error of the hook that
// is no *Error is not quoted in the answer: it may say why a credential was wrong.
func (s *server) identifyCaller(r *http.Request) (caller, error) {
	identify := s.options.Identify
	if s.local {
		identify = identifyLocal
	}
	if identify == nil {
		if !loopback.SentRequest(r) {
			return caller{}, refusef(http.StatusForbidden, codeForbidden, "this handler does not know its callers, so it serves its own machine only: set Options.Identify of package api")
		}
		return caller{rights: View | Values}, nil
	}
	who, rights, err := identify(r)
	if err == nil {
		return caller{who, rights}, nil
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return caller{}, e
	}
	return caller{}, refusef(http.StatusUnauthorized, codeUnauthorized, "the caller is not known")
}

// NarrowLocal names in a request to the socket of an engine, which otherwise has all rights, the person for whom it is
// sent. The request then lacks the right Files, and with reading it has only View and Values. NarrowLocal is for programs
// that forward requests of others, as pawl serve does; it replaces headers that those have set. If r is nil, it does nothing.
func NarrowLocal(r *http.Request, who string, reading bool) { loopback.NarrowLocal(r, who, reading) }

// identifyLocal is the Options.Identify of what is served on the socket of an engine.
func identifyLocal(r *http.Request) (who string, rights Rights, err error) {
	switch s, err := loopback.SenderOf(r); {
	case err != nil:
		return "", 0, refusef(http.StatusForbidden, codeForbidden, "%s", err)
	case s.Reading:
		return s.Who, View | Values, nil
	case s.Files:
		return s.Who, All | Files, nil
	default:
		return s.Who, All, nil
	}
}

// plannedPaths are those whose answers plan again what was recorded. A dry run plans as well, and is known by its parameter.
var plannedPaths = []string{"/v1/runs/{run}/why", "/v1/runs/{run}/simulate", "/v1/runs/{run}/forks", "/v1/diff"}

// checkValues refuses what plans again on a run that has no values.
func (c *call) checkValues(r *route) error {
	if c.local && loopback.IsRedacted(c.r) && (slices.Contains(plannedPaths, r.path) || c.isDryRun()) {
		return invalidf("%v", replay.ErrRedacted)
	}
	return nil
}

// checkAgain refuses a caller who has not the name and the rights any more with which a request began. Streams and waits outlive the
// check at their beginning: somebody who was signed out would else go on reading for as long as the connection lasts.
func (c *call) checkAgain() error {
	now, err := c.identifyCaller(c.r)
	if err == nil && now != c.caller {
		err = refusef(http.StatusForbidden, codeForbidden, "the rights of the caller have changed since this began: ask again")
	}
	return err
}

// requireRights refuses a caller who lacks one of the rights. The refusal names the missing rights
// alone, so that a host sees what to give.
func (c caller) requireRights(needed Rights) error {
	if c.rights&needed == needed {
		return nil
	}
	var names []string
	for i, name := range []string{"View", "Values", "Act", "Define", "Files"} {
		if right := Rights(1) << i; needed&right != 0 && c.rights&right == 0 {
			names = append(names, name)
		}
	}
	return refusef(http.StatusForbidden, codeForbidden, "this takes the right %s, which the caller does not have", strings.Join(names, " and "))
}

// Local serves an engine to programs of the same user, with all rights, for pawl.Options.Socket. It returns when the listener is closed
// and the requests under way have been answered: streams end at once, and a request that does not end is cut off after 5 s.
func Local(e *pawl.Engine, l net.Listener) {
	if l == nil {
		return
	}
	closing, stop := context.WithCancel(context.Background())
	defer stop()
	// The options are zero: local replaces Identify, there is no hook that redacts, and the rate is not looked at.
	h := newServer(&server{engine: e, local: true, closing: closing.Done()})
	if p, ok := l.(loopback.Paged); ok { // as inspector.Local has it
		h = besidePages(closing, h, p.Pages)
	}
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of connections that break
	}
	_ = s.Serve(l) // until the listener is closed
	// Streams and waits end now, as their contexts do; the other requests are short.
	stop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.Shutdown(ctx) != nil {
		_ = s.Close() // nobody is left to be told
	}
}

// besidePages gives the requests for pages to a handler of theirs, until ctx is done. The API goes
// by its own closing, and pages, which know nothing of it, by the context of their requests.
func besidePages(ctx context.Context, api, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at := r.URL.Path; strings.HasPrefix(at, "/v1/") || at == "/healthz" || at == "/readyz" {
			api.ServeHTTP(w, r)
			return
		}
		mine, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		pages.ServeHTTP(w, r.WithContext(mine))
	})
}

// A Rate is how fast one caller may send requests. The two are independent: {PerSecond: 1, Burst:
// 60} lets a script send a minute's worth at once, and then one each second.
type Rate struct {
	PerSecond float64 // requests in the long run; 500 if it is 0, without a bound if it is negative
	Burst     int     // requests at once after a pause; 2,000 if it is below 1
}

// String returns the rate in words.
func (r Rate) String() string { return crowd.RateText(r.PerSecond, r.Burst) }
