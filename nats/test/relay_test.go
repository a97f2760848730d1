package natstest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A relay passes the bytes of connections to a server on, and holds, delays or loses them while it is told to.
type relay struct {
	port int
	to   string // where the server listens, which may be dead or come later

	mu  sync.Mutex
	now sync.Cond
	how link
	all map[net.Conn]bool
}

// A link is how the network between two processes is: the zero value passes everything on.
type link struct {
	down    bool          // nobody gets a connection
	out, in bool          // bytes to the server, or from it, are held: a link that is half open
	slow    time.Duration // how long bytes are under way
}

func startRelay(t testing.TB, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{port: l.Addr().(*net.TCPAddr).Port, to: to, all: map[net.Conn]bool{}}
	r.now.L = &r.mu
	t.Cleanup(func() { _ = l.Close(); r.set(link{}); r.cut() })
	go func() { // until the test ends
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			if server, err := net.Dial("tcp", to); err != nil || !r.joins(client, server) {
				_ = client.Close()
			}
		}
	}()
	return r
}

func (r *relay) url() string { return natsURL(r.port) }

// joins lets the bytes of two connections pass, unless the link is down.
func (r *relay) joins(client, server net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.how.down {
		_ = server.Close()
		return false
	}
	r.all[client], r.all[server] = true, true
	go r.pass(client, server, func() bool { return r.how.out }) // until one of them is closed
	go r.pass(server, client, func() bool { return r.how.in })
	return true
}

func (r *relay) pass(from, to net.Conn, held func() bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		for held() {
			r.now.Wait()
		}
		slow := r.how.slow
		r.mu.Unlock()
		if slow > 0 {
			<-time.After(slow)
		}
		if _, failed := to.Write(b[:n]); err == nil && failed == nil {
			continue
		}
		_ = to.Close()
		r.mu.Lock()
		delete(r.all, from)
		delete(r.all, to)
		r.mu.Unlock()
		return
	}
}

// set changes how the link is. A link that is down loses its connections, with the bytes that it
// held of them.
func (r *relay) set(how link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.how = how; how.down {
		r.closeAll()
	}
	r.now.Broadcast()
}

// cut closes the connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeAll()
}

func (r *relay) closeAll() {
	for c := range r.all {
		_ = c.Close()
	}
	clear(r.all)
}
