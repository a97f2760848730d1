package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/nats/natscluster"
)

// nodeOrder is the environment variable that makes this program a node: the server, the directory and the name.
const nodeOrder = "PAWL_NATS_TAKEOVER_NODE"

// serveNode is a node. There is no line about leases, logs or the holder of the engine: cluster.Open does that.
func serveNode(ctx context.Context, order string) error {
	var url, dir, name string
	if _, err := fmt.Sscan(order, &url, &dir, &name); err != nil {
		return err
	}
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.Timeout(time.Minute))
	if err != nil {
		return err
	}
	defer conn.Close()
	backend, err := natscluster.Open(ctx, conn, natscluster.Options{Name: "orders"})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	node, err := cluster.Open(ctx, dir, backend, cluster.Options{
		Node: name, Address: "http://" + listener.Addr().String(), Term: time.Second,
		Engine: pawl.Options{Durability: pawl.ProcessCrash, Executor: pawl.Handlers{
			"work": func(context.Context, pawl.Task) (any, error) { return nil, nil },
		}},
		API: api.Options{Identify: func(*http.Request) (string, api.Rights, error) { // a service would look at a token
			return "", api.View | api.Values | api.Act | api.Define, nil
		}},
	})
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	s := http.Server{Handler: node, ReadHeaderTimeout: 10 * time.Second}
	return s.Serve(listener)
}
