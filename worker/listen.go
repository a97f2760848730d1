package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/pawl-run/pawl/internal/loopback"
)

// Listen serves the protocol at a TCP address until Close, and returns the bound
// address; port 0 stands for a free port. Name the host: "127.0.0.1:8080" serves this machine.
// Listen fails with ErrTokenNeeded unless Options has exactly one of Token, Identify and, for a loopback
// address only, NoToken; and for another address with ErrTLSNeeded unless it has TLS or PlainHTTP.
//
// The rules about loopback are checked on the address that was bound and not on the text, because a
// name such as localhost may stand for any. Listen may be called several times; Close ends all servers,
// and Listen then fails with pawl.ErrClosed.
func (p *Pool) Listen(address string) (net.Addr, error) {
	if err := p.options.checkAccess(); err != nil || p.options.NoToken && !loopback.IsLoopback(address) {
		return nil, fmt.Errorf("listen on %q: %w", address, ErrTokenNeeded)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve workers: %w", err)
	}
	if p.options.NoToken && !loopback.IsLoopback(listener.Addr().String()) { // what the name stands for decides
		return nil, errors.Join(fmt.Errorf("listen on %q: %w", address, ErrTokenNeeded), listener.Close())
	}
	if p.options.TLS == nil && !p.options.PlainHTTP && !loopback.IsLoopback(listener.Addr().String()) {
		return nil, errors.Join(fmt.Errorf("listen on %q: %w", address, ErrTLSNeeded), listener.Close())
	}
	s := p.newServer()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(errClosed, listener.Close())
	}
	p.servers = append(p.servers, s)
	p.group.Go(func() {
		if err := serveBounded(s, &boundedListener{Listener: listener, most: p.options.MaxConnections}); !errors.Is(err, http.ErrServerClosed) {
			p.options.Logger.Error("worker: the server ended", "address", listener.Addr().String(), "error", err)
		}
	})
	return listener.Addr(), nil
}

// newServer returns the server of one Listen.
//
// Its bounds are of what may come before a request is looked at: the headers' time and size, and an
// idle connection, which may rest for longer than the longest poll.
func (p *Pool) newServer() *http.Server {
	s := &http.Server{
		TLSConfig: p.options.TLS, Protocols: new(http.Protocols),
		Handler: p.Handler(), ReadHeaderTimeout: handshakeTime, IdleTimeout: 2 * maxWait, MaxHeaderBytes: 16 << 10, ConnContext: withConn,
		ErrorLog: slog.NewLogLogger(p.options.Logger.Handler(), slog.LevelWarn),
	}
	s.Protocols.SetHTTP1(true) // deadlines and the bound on connections are those of one connection for one worker
	return s
}

// serveBounded serves until the server is closed, over TLS if it is configured.
func serveBounded(s *http.Server, l *boundedListener) error {
	if s.TLSConfig != nil {
		return s.ServeTLS(l, "", "")
	}
	return s.Serve(l)
}
