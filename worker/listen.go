package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Listen serves the protocol at a TCP address, until Close, and returns the
// address, whose port is a free one for port 0. The host is to be named:
// "127.0.0.1:8080" serves this machine. Another address needs Options.Token or Authorize, and
// a proxy with TLS, since the token and the data go in clear.
func (p *Pool) Listen(address string) (net.Addr, error) {
	if err := p.options.checkAccess(); err != nil || p.options.NoToken && !isLoopback(address) {
		return nil, fmt.Errorf("listen on %q: %w", address, ErrTokenNeeded)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve workers: %w", err)
	}
	if p.options.NoToken && !isLoopback(listener.Addr().String()) { // what the name stands for decides
		return nil, errors.Join(fmt.Errorf("listen on %q: %w", address, ErrTokenNeeded), listener.Close())
	}
	s := &http.Server{
		Handler: p.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * maxWait, MaxHeaderBytes: 16 << 10, ConnContext: withConn,
		ErrorLog: slog.NewLogLogger(p.options.Logger.Handler(), slog.LevelWarn),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(ErrClosed, listener.Close())
	}
	p.servers = append(p.servers, s)
	p.group.Go(func() {
		if err := s.Serve(&boundedListener{Listener: listener, most: p.options.MaxConnections}); !errors.Is(err, http.ErrServerClosed) {
			p.options.Logger.Error("worker: the server ended", "address", listener.Addr().String(), "error", err)
		}
	})
	return listener.Addr(), nil
}
