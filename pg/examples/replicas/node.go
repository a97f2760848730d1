package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/pg"
)

// nodeOrder is the environment variable that makes this program a node: the database, the directory and the name.
const nodeOrder = "PAWL_REPLICAS_NODE"

// serveNode is one of the two processes: a service would have these lines. It ends with SIGTERM.
func serveNode(ctx context.Context, order string) error {
	var url, dir, name string
	if _, err := fmt.Sscan(order, &url, &dir, &name); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	db, backend, err := openBackend(ctx, url)
	if err != nil {
		return err
	}
	defer db.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := "http://" + listener.Addr().String()
	node, err := cluster.Open(ctx, dir, backend, cluster.Options{
		Node: name, Address: address, Term: time.Second,
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
	var ending atomic.Bool
	s := http.Server{Handler: probes(node, &ending), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }() // until Shutdown
	fmt.Println(address)
	<-ctx.Done()
	ending.Store(true) // the balancer sends no more calls
	inGrace := func(end func(context.Context) error) error {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return end(grace)
	}
	err = errors.Join(inGrace(node.Close), inGrace(s.Shutdown)) // the other one takes over at once
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// openBackend opens what the nodes share. It tries again as long as the database does not answer, until ctx is done.
func openBackend(ctx context.Context, url string) (*pg.Database, cluster.Backend, error) {
	for {
		db, err := pg.Open(ctx, url, pg.Options{})
		if err == nil {
			var b cluster.Backend
			if err = db.Migrate(ctx); err == nil {
				b, err = db.OpenBackend(ctx, "orders") // the one line that would be another with NATS
			}
			if err == nil {
				return db, b, nil
			}
			db.Close()
		}
		if ctx.Err() != nil || errors.Is(err, pawl.ErrInvalid) || errors.Is(err, pg.ErrUnsafeServer) {
			return nil, cluster.Backend{}, err
		}
		fmt.Fprintln(os.Stderr, "the database cannot be used yet:", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// probes adds what Kubernetes asks to the API of a node, which has /healthz (the process lives): whether calls may be sent to it, and
// whether it has the engine.
func probes(node *cluster.Node, ending *atomic.Bool) http.Handler {
	answer := func(yes func() bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if !yes() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", node)
	mux.Handle("GET /ready", answer(func() bool { return !ending.Load() && node.Status().Owner.Node != "" }))
	mux.Handle("GET /leader", answer(func() bool { return node.Engine() != nil }))
	return mux
}
