package worker

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// A boundedListener keeps the number of open connections within a bound. At the bound a
// new connection takes the place of the oldest one that no request was served on yet, so that
// strangers do not keep workers out; where all have had one, the new one is closed.
//
// open counts the connections that Accept has returned and that are not closed; strangers are those of
// them on which no request was served, and closed says that no more may come. mu guards the three, and
// the fields place and gone of every connection.
type boundedListener struct {
	net.Listener
	most int

	mu        sync.Mutex
	open      int
	strangers list.List // of *boundedConn, the oldest first
	closed    bool
}

// Accept implements net.Listener.
// A connection that finds no room is closed and the next one waited for: an error would end the
// server.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &boundedConn{Conn: conn, listener: l}
		if l.addConn(c) {
			return c, nil
		}
		_ = conn.Close()
	}
}

// Close implements net.Listener. It closes the connections that no request was served on: a server that shuts down would wait
// for what they may have to say.
func (l *boundedListener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	l.closed = true // for a connection that was accepted just now
	var strangers []*boundedConn
	for e := l.strangers.Front(); e != nil; e = e.Next() {
		strangers = append(strangers, e.Value.(*boundedConn))
	}
	l.mu.Unlock()
	for _, c := range strangers {
		_ = c.Close()
	}
	return err
}

// addConn counts a connection, and says whether it is served: there is room for it, and the listener is open.
//
// The oldest stranger is closed without the lock, since its Close takes it; therefore room
// is looked
// for again afterwards.
func (l *boundedListener) addConn(c *boundedConn) bool {
	l.mu.Lock()
	var oldest *boundedConn
	if e := l.strangers.Front(); e != nil && l.open >= l.most {
		oldest = e.Value.(*boundedConn)
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most || l.closed {
		return false
	}
	l.open++
	c.place = l.strangers.PushBack(c)
	return true
}

// A boundedConn is a connection of a boundedListener. The listener's lock guards it.
// gone makes a second Close, which net/http may do, count once.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	place    *list.Element // among the strangers; nil once a request was served
	gone     bool
}

// trustConn notes that a request of the connection is served.
//
// requireAccess calls it when the caller is identified, so a peer without credentials stays a
// stranger, however many requests it sends.
func (c *boundedConn) trustConn() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.place != nil {
		c.listener.strangers.Remove(c.place)
		c.place = nil
	}
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.trustConn()
	c.listener.mu.Lock()
	if !c.gone {
		c.gone = true
		c.listener.open--
	}
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// connKey is under what the connection of a request is in its context.
type connKey struct{}

// withConn puts the connection into the context of its requests, for requireAccess. Over TLS net/http
// has the TLS connection around ours, which NetConn unwraps.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}
