package socket

import (
	"context"
	"net"
	"time"
)

// A Server is what a function serves on the socket of a directory.
type Server struct {
	listener net.Listener
	done     chan struct{} // closed when the function has returned
}

// Serve listens in a directory, and calls serve in a goroutine.
func Serve(path string, serve func(net.Listener)) (*Server, error) {
	l, err := Listen(path)
	if err != nil {
		return nil, err
	}
	s := &Server{l, make(chan struct{})}
	go func() { // until Stop
		defer close(s.done)
		serve(l)
	}()
	return s, nil
}

// Stop closes the socket, and returns when nobody is served any more: false if ctx was done or the time over before. It does nothing for nil.
func (s *Server) Stop(ctx context.Context, patience time.Duration) bool {
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
