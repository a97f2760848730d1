package api

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
)

// Local serves an engine to programs of the same user, with all rights, for pawl.Options.Socket. It
// returns when the listener is closed and the requests under way have been answered: streams end at once, and
// a request that does not end is cut off after 5 s.
func Local(e *pawl.Engine, l net.Listener) { LocalWith(nil)(e, l) }

// LocalWith is Local with pages beside the API, as inspector.Local has them: the handler that pages returns for
// the engine answers the requests for all paths but /v1/, /healthz and /readyz. With nil there are no pages. The
// contexts of its requests are done when the listener is closed.
func LocalWith(pages func(*pawl.Engine) http.Handler) func(*pawl.Engine, net.Listener) {
	return func(e *pawl.Engine, l net.Listener) {
		if l == nil {
			return
		}
		closing, stop := context.WithCancel(context.Background())
		defer stop()
		// The options are zero: local replaces Identify, there is no hook that redacts, and the
		// rate is not looked at.
		h := newServer(&server{engine: e, local: true, closing: closing.Done()})
		if pages != nil {
			h = besidePages(closing, h, pages(e))
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
