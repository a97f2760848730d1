// Package server runs a NATS server with JetStream in this process, for tests and examples.
package server

import (
	"fmt"
	"net/url"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Start returns a server that listens on a port of the loopback address; -1 chooses one. Its
// files are in dir. The caller shuts it down.
func Start(port int, dir string) (*natsserver.Server, error) {
	return start(&natsserver.Options{Port: port, StoreDir: dir})
}

// StartSynced is Start of a server that syncs what it acknowledges.
func StartSynced(port int, dir string) (*natsserver.Server, error) {
	return start(&natsserver.Options{Port: port, StoreDir: dir, SyncAlways: true})
}

// A Member is one of the servers of a cluster, all of this machine. Its JSON is an order to start it.
type Member struct {
	Number int    // from 0
	Ports  []int  // of all, for clients
	Routes []int  // of all, for each other
	Via    []int  // where it reaches those of the others, unless that is at Routes; then clients are told of no other server
	Dir    string // of its files
	Lazy   bool   // it does not sync what it has acknowledged
}

// Start returns a server of a cluster. The user "system" is of its system account.
func (m Member) Start() (*natsserver.Server, error) {
	o := &natsserver.Options{
		ServerName: fmt.Sprint("n", m.Number), Port: m.Ports[m.Number], StoreDir: m.Dir, SyncAlways: !m.Lazy,
		Cluster: natsserver.ClusterOpts{Name: "pawl", Host: loopback, Port: m.Routes[m.Number]},
	}
	reached := m.Routes
	if m.Via != nil {
		reached = m.Via
		o.Cluster.NoAdvertise, o.Cluster.Advertise = true, nowhere
	}
	for i, port := range reached {
		if m.Via != nil && i == m.Number {
			continue
		}
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprint(loopback, ":", port)})
	}
	if err := o.ProcessConfigString(accounts); err != nil {
		return nil, fmt.Errorf("read the accounts of a NATS server: %w", err)
	}
	return start(o)
}

// accounts are those of a cluster: whoever connects without a name is in the first.
const accounts = `
accounts {
  APP: {jetstream: enabled, users: [{user: app, password: app}]}
  SYS: {users: [{user: system, password: system}]}
}
system_account: SYS
no_auth_user: app
`

const loopback = "127.0.0.1"

// nowhere is where a server says that the others reach it which has other ways to them: nobody listens there.
const nowhere = loopback + ":1"

// readyTime is how long a server may take until it listens, on a machine that does much else.
const readyTime = time.Minute

func start(o *natsserver.Options) (*natsserver.Server, error) {
	o.Host, o.JetStream, o.NoSigs, o.NoLog = loopback, true, true, true
	s, err := natsserver.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("make a NATS server: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(readyTime) {
		s.Shutdown()
		return nil, fmt.Errorf("the NATS server is not ready after %v", readyTime)
	}
	return s, nil
}
