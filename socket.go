package pawl

import (
	"context"
	"net"
	"time"

	"github.com/pawl-run/pawl/internal/socket"
)

// A socketServer is what Options.Socket serves.
type socketServer struct {
	listener net.Listener
	done     chan struct{} // closed when the function has returned
}

// openSocket listens in the directory, if the options say so.
//
// It is the last thing that Open does: a client that connects finds an engine that works.
func (e *Engine) openSocket(path string) error {
	if e.options.Socket == nil {
		return nil
	}
	l, err := socket.Listen(path)
	if err != nil {
		return err
	}
	e.socket = &socketServer{l, make(chan struct{})}
	go func() { // until stop
		defer close(e.socket.done)
		e.options.Socket(e, l)
	}()
	return nil
}

// socketPatience is how long Close waits for the function Options.Socket to return.
const socketPatience = 10 * time.Second

// stop closes the socket, and returns when nobody is served any more: false if ctx was done or the time over before.
func (s *socketServer) stop(ctx context.Context, patience time.Duration) bool {
	if s == nil {
		return true
	}
	_ = s.listener.Close() // what is left of it is replaced by the next Open
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}
