package worker

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lateListener has accepted a connection when it is closed, and returns it only then.
type lateListener struct {
	net.Listener
	closed chan struct{}
	conns  []net.Conn
}

func (l *lateListener) Close() error {
	close(l.closed)
	return nil
}

func (l *lateListener) Accept() (net.Conn, error) {
	<-l.closed
	if len(l.conns) == 0 {
		return nil, net.ErrClosed
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

// A connection that is accepted while the listener closes is closed with the others: a server that shuts down would wait
// for it.
func TestConnectionAcceptedWhileClosing(t *testing.T) {
	ours, theirs := net.Pipe()
	l := &boundedListener{Listener: &lateListener{closed: make(chan struct{}), conns: []net.Conn{ours}}, most: 2}
	require.NoError(t, l.Close())
	_, err := l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = theirs.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, l.open)
}

// A listener that closes closes the connections that no request was served on, and no others: a server that shuts down would
// wait for what strangers may have to say.
func TestStrangersAreClosedWithTheListener(t *testing.T) {
	l := &boundedListener{Listener: &lateListener{closed: make(chan struct{})}, most: 2}
	var ends []net.Conn
	for range 2 {
		ours, theirs := net.Pipe()
		ends = append(ends, theirs)
		require.True(t, l.addConn(&boundedConn{Conn: ours, listener: l}))
	}
	known := l.strangers.Back().Value.(*boundedConn)
	known.trustConn()
	require.NoError(t, l.Close())
	require.Equal(t, 1, l.open, "a request may still come on it")
	_, err := ends[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, known.Close())
}
