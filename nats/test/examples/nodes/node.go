package main

import (
	"context"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/nats/natscluster"
	"github.com/pawl-run/pawl/nats/natspool"
)

// openNode opens a node whose tasks are performed by workers elsewhere. Each life of the engine has a pool of its own.
func openNode(ctx context.Context, conn *nats.Conn, dir, name string) (*cluster.Node, error) {
	backend, err := natscluster.Open(ctx, conn, natscluster.Options{Name: "orders"})
	if err != nil {
		return nil, err
	}
	return cluster.Open(ctx, filepath.Join(dir, name), backend, cluster.Options{
		Node: name, Engine: pawl.Options{Durability: pawl.ProcessCrash},
		Pool: func(ctx context.Context) (cluster.Pool, error) {
			return natspool.New(ctx, conn, natspool.Options{Name: "orders"})
		},
	})
}

// work is a worker. It does not know which node has the engine, nor that it moves.
func work(ctx context.Context, conn *nats.Conn, name string) error {
	w := &natspool.Worker{Conn: conn, ID: name, Name: "orders", Capacity: 8}
	return w.Run(ctx, pawl.Handlers{"pack": func(context.Context, pawl.Task) (any, error) { return "packed by " + name, nil }})
}
