// Nodes shows three nodes that keep one engine directory, and two workers that perform its tasks, whichever node has the engine. That
// node is closed again and again while orders come in; each order is packed, and nobody waits for a node that is gone. Server, nodes and workers are in this
// process; in a service each would be one of its own.
//
//	go run -C nats/test ./examples/nodes
//
// Read node.go, which is what a service would have.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/nats/test/server"
	"github.com/pawl-run/pawl/workflow"
)

const (
	orders   = 40
	handOver = 10 // orders between two closes of the node with the engine
)

// definition is an order that is packed in two parcels, one after the other.
const definition = `{"name": "order", "start": "first",
  "nodes": [{"id": "first", "task": "pack"}, {"id": "second", "task": "pack"}],
  "transitions": [{"from": "first", "to": "second"}]}`

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stdout io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "pawl-nats-nodes-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := server.Start(-1, filepath.Join(dir, "nats"))
	if err != nil {
		return err
	}
	defer s.WaitForShutdown()
	defer s.Shutdown()
	f := &fleet{url: s.ClientURL(), dir: dir, nodes: map[string]*cluster.Node{}}
	defer func() { err = errors.Join(err, f.close(ctx)) }()
	for _, name := range []string{"ann", "ben", "cat"} {
		if err := f.open(ctx, name); err != nil {
			return err
		}
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var endings []func() // of the workers
	defer func() {
		stop()
		for _, end := range endings {
			end()
		}
	}()
	for _, name := range []string{"dan", "eve"} {
		conn, err := nats.Connect(f.url, nats.MaxReconnects(-1), nats.Timeout(time.Minute))
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- work(working, conn, name) }()
		endings = append(endings, func() { err = errors.Join(err, <-ended); conn.Close() })
	}
	return f.takeOrders(ctx, stdout)
}

// A fleet is the nodes.
type fleet struct {
	url, dir string
	conns    []*nats.Conn
	nodes    map[string]*cluster.Node
	closed   int // how often one was closed that had the engine
}

// open opens a node with a connection of its own.
func (f *fleet) open(ctx context.Context, name string) error {
	conn, err := nats.Connect(f.url, nats.MaxReconnects(-1), nats.Timeout(time.Minute))
	if err != nil {
		return err
	}
	f.conns = append(f.conns, conn)
	f.nodes[name], err = openNode(ctx, conn, f.dir, name)
	return err
}

func (f *fleet) close(ctx context.Context) (err error) {
	for _, n := range f.nodes {
		err = errors.Join(err, n.Close(ctx))
	}
	for _, c := range f.conns {
		c.Close()
	}
	return err
}

// takeOrders starts the orders, closes the node with the engine now and then, and waits until all orders are packed.
func (f *fleet) takeOrders(ctx context.Context, stdout io.Writer) error {
	def, err := workflow.ParseJSON([]byte(definition))
	if err != nil {
		return err
	}
	for i := range orders {
		if i%handOver == handOver-1 {
			if err := f.closeOwner(ctx); err != nil {
				return err
			}
		}
		err := f.ask(ctx, func(e *pawl.Engine) error {
			return e.Start(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprint("order-", i)), Definition: def}, nil)
		})
		if err != nil {
			return err
		}
	}
	for i := range orders {
		err := f.ask(ctx, func(e *pawl.Engine) error {
			outcome, err := e.Wait(ctx, workflow.RunID(fmt.Sprint("order-", i)))
			if err == nil {
				err = outcome.Err()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%d orders, all of them packed; the node that had the engine was closed %d times\n", orders, f.closed)
	return nil
}

// closeOwner closes the node with the engine, as the new version of a service does, and opens it again. If that node
// loses the engine before it is closed, it closes the node that has the engine then.
func (f *fleet) closeOwner(ctx context.Context) error {
	for {
		var owner *pawl.Engine
		if err := f.ask(ctx, func(e *pawl.Engine) error { owner = e; return nil }); err != nil {
			return err
		}
		for name, n := range f.nodes {
			if n.Engine() != owner {
				continue
			}
			f.closed++
			if err := n.Close(ctx); err != nil {
				return err
			}
			return f.open(ctx, name)
		}
	}
}

// patience is for how long somebody asks again whom nobody could answer.
const patience = time.Minute

// ask asks the engine, wherever it is, until it answers.
func (f *fleet) ask(ctx context.Context, question func(*pawl.Engine) error) error {
	failed := cluster.ErrNoOwner
	for began := time.Now(); time.Since(began) < patience; {
		for _, n := range f.nodes {
			if e := n.Engine(); e != nil {
				if failed = question(e); failed == nil {
					return nil
				}
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return failed
}
