//go:build unix

package servers

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// A Relay passes the bytes of connections to a server on, and holds, delays or loses them while it is told to.
type Relay struct {
	Port int // of the loopback address, where it listens

	listener net.Listener
	to       string
	mu       sync.Mutex
	now      sync.Cond
	how      Link
	all      map[net.Conn]bool
}

// A Link is how the network between two processes is: the zero value passes everything on.
type Link struct {
	Down    bool          // nobody gets a connection
	Out, In bool          // bytes to the server, or from it, are held: a link that is half open
	Slow    time.Duration // how long bytes are under way
}

// StartRelay starts a relay to a port of the loopback address, whose server may be dead or come later. It is closed after the test.
func StartRelay(t testing.TB, to int) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Port: l.Addr().(*net.TCPAddr).Port, listener: l, to: fmt.Sprintf("%s:%d", loopback, to), all: map[net.Conn]bool{}}
	r.now.L = &r.mu
	t.Cleanup(func() {
		if err := r.closeListener(); err != nil {
			t.Error(err)
		}
	})
	go func() { // until the test ends
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			if server, err := net.Dial("tcp", r.to); err != nil || !r.joinConns(client, server) {
				_ = client.Close()
			}
		}
	}()
	return r
}

// joinConns lets the bytes of two connections pass, unless the link is down.
func (r *Relay) joinConns(client, server net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.how.Down {
		_ = server.Close()
		return false
	}
	r.all[client], r.all[server] = true, true
	go r.passBytes(client, server, func() bool { return r.how.Out }) // until one of them is closed
	go r.passBytes(server, client, func() bool { return r.how.In })
	return true
}

// passBytes passes bytes in one way, until one of the two connections is closed.
func (r *Relay) passBytes(from, to net.Conn, held func() bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		for held() {
			r.now.Wait()
		}
		slow := r.how.Slow
		r.mu.Unlock()
		if slow > 0 {
			<-time.After(slow)
		}
		if _, failed := to.Write(b[:n]); err == nil && failed == nil {
			continue
		}
		_, _ = from.Close(), to.Close()
		r.mu.Lock()
		delete(r.all, from)
		delete(r.all, to)
		r.mu.Unlock()
		return
	}
}

// Set changes how the link is. A link that is down loses its connections, with the bytes that it held of them.
func (r *Relay) Set(how Link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.how = how; how.Down {
		r.closeAll()
	}
	r.now.Broadcast()
}

// Cut closes the connections.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeAll()
}

// closeListener ends the relay and its connections.
func (r *Relay) closeListener() error {
	err := r.listener.Close()
	r.Set(Link{Down: true})
	return err
}

// closeAll closes the connections. The lock is held.
func (r *Relay) closeAll() {
	for c := range r.all {
		_ = c.Close()
	}
	clear(r.all)
}
