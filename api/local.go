package api

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pawl-run/pawl"
)

// Local serves an engine to programs of the same user, with all rights, for pawl.Options.Socket. It
// returns when the listener is closed and the requests under way have been answered: streams end at once, what
// does not end is cut off after 5 s.
func Local(e *pawl.Engine, l net.Listener) {
	if l == nil {
		return
	}
	closing := make(chan struct{})
	s := &http.Server{
		Handler:           newServer(&server{engine: e, local: true, closing: closing}),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo), // of connections that break
	}
	_ = s.Serve(l) // until the listener is closed
	close(closing)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.Shutdown(ctx) != nil {
		_ = s.Close() // nobody is left to be told
	}
}
