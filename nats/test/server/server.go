// Package server runs a NATS server with JetStream in this process, for tests and examples.
package server

import (
	"errors"
	"fmt"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Start returns a server that listens on a port of the loopback address; -1 chooses one. Its
// files are in dir. The caller shuts it down.
func Start(port int, dir string) (*natsserver.Server, error) {
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make a NATS server: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the NATS server is not ready after 10s")
	}
	return s, nil
}
