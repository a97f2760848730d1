package pawl

import (
	"net"

	"github.com/pawl-run/pawl/internal/socket"
)

// A socketServer is what Options.Socket serves.
type socketServer struct {
	listener net.Listener
	done     chan struct{} // closed when the function has returned
}

// openSocket listens in the directory, if the options say so.
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

// stop closes the socket, and returns when nobody is served any more.
func (s *socketServer) stop() {
	if s == nil {
		return
	}
	_ = s.listener.Close() // what is left of it is replaced by the next Open
	<-s.done
}
