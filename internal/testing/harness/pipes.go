package harness

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Pipes is a listener for connections in memory, which have deadlines in virtual time.
type Pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once // closes ended
}

// NewPipes returns a listener without connections.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), ended: make(chan struct{})} }

// DialContext makes a connection; network and address are not looked at.
func (l *Pipes) DialContext(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (l *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Pipes) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

// Addr implements net.Listener.
func (l *Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// BusyClients returns clients of a handler, by the protocol that they speak, HTTP/1.1 and HTTP/2. The server gives each request the
// same short time to be read and to be answered; a handler that takes more must ask for it. stop ends them all. It is for a bubble of synctest.
func BusyClients(t testing.TB, h http.Handler, within time.Duration) (clients map[string]*http.Client, stop func()) {
	t.Helper()
	l, ended := NewPipes(), make(chan error)
	s := &http.Server{Handler: h, ReadTimeout: within, WriteTimeout: within, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { ended <- s.Serve(l) }()
	clients = map[string]*http.Client{}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{DialContext: l.DialContext, Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
		transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
		clients[protocol] = &http.Client{Transport: transport}
	}
	return clients, func() {
		for _, c := range clients {
			c.CloseIdleConnections()
		}
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	}
}
