// Service is an HTTP service that takes orders and sees each of them through. It closes in order
// when its supervisor sends SIGTERM, and loses nothing if the supervisor sends SIGKILL.
//
//	go run ./examples/service
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

//go:embed order.yaml
var orderYAML []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", "127.0.0.1:7296", "where the service listens")
	dir := flags.String("dir", "service-data", "the engine's directory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	engine, err := openEngine(ctx, *dir)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return errors.Join(err, closeEngine(engine))
	}
	fmt.Fprintf(stdout, "orders at http://%[1]s/orders, pages at http://%[1]s/ops/\n", listener.Addr())
	return errors.Join(serve(ctx, engine, listener), closeEngine(engine))
}

// openEngine opens the directory and publishes the definition. Runs that a process before this one left go on from here.
func openEngine(ctx context.Context, dir string) (*pawl.Engine, error) {
	order, err := workflow.ParseYAML(orderYAML)
	if err != nil {
		return nil, err
	}
	engine, err := pawl.Open(ctx, dir, pawl.Options{
		Executor: pawl.Handlers{"charge": pawl.Typed(chargeCard), "ship": pawl.Typed(shipItem)},
		Grace:    5 * time.Second, // Close lets running tasks go on for as long
		Socket:   inspector.Local, // the command pawl asks this process: pawl ls --dir service-data
	})
	if errors.Is(err, pawl.ErrLocked) {
		return nil, fmt.Errorf("the process before this one has not ended yet: %w", err)
	}
	if err != nil {
		return nil, err
	}
	if _, err := engine.Publish(ctx, order); err != nil {
		return nil, errors.Join(err, closeEngine(engine))
	}
	return engine, nil
}

// closeEngine closes the engine within 10 seconds. Runs that have not ended by then go on at the next Open.
func closeEngine(engine *pawl.Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return engine.Close(ctx)
}

// serve answers requests until ctx is done or the engine or the listener has failed, then lets the requests end that have begun.
func serve(ctx context.Context, engine *pawl.Engine, listener net.Listener) error {
	mux := http.NewServeMux()
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	streams, endStreams := context.WithCancel(context.Background())
	server.RegisterOnShutdown(endStreams)
	pages := http.StripPrefix("/ops", inspector.Handler(engine, inspector.Options{})) // for this machine only, without Identify
	mux.Handle("/ops/", endingWith(streams, pages))
	mux.HandleFunc("PUT /orders/{id}", func(w http.ResponseWriter, r *http.Request) { startOrder(engine, w, r) })
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) { showOrder(engine, w, r) })
	served := make(chan error, 1)
	ctx, endWait := context.WithCancel(ctx)
	defer endWait()
	go func() {
		served <- server.Serve(listener) // until Shutdown, or until it cannot go on
		endWait()
	}()
	failed := engine.AwaitFailure(ctx) // blocks until ctx is done, or the engine cannot go on
	if ctx.Err() != nil {
		failed = nil
	}
	shutdown, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := server.Shutdown(shutdown)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return errors.Join(failed, err)
}

// endingWith cancels the contexts of a handler's requests when ctx is done. The inspector and the API then end their streams, for which
// Shutdown would wait, and finish the changes that they have begun. A Server.BaseContext that ends would cut off starts of orders too.
func endingWith(ctx context.Context, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mine, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		handler.ServeHTTP(w, r.WithContext(mine))
	})
}

// startOrder starts the run that the path names. A client that got no answer sends the request again: the same order under
// the same id is one run, and another order under that id is 409.
func startOrder(engine *pawl.Engine, w http.ResponseWriter, r *http.Request) {
	input, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	run := workflow.Run{ID: workflow.RunID(r.PathValue("id")), Workflow: "order"}
	if err := engine.Start(r.Context(), run, json.RawMessage(input)); err != nil {
		http.Error(w, err.Error(), pawl.HTTPStatus(err))
		return
	}
	w.WriteHeader(http.StatusAccepted) // the order is on the disk
}

// showOrder tells how far an order has come.
func showOrder(engine *pawl.Engine, w http.ResponseWriter, r *http.Request) {
	order, err := engine.Summary(r.Context(), workflow.RunID(r.PathValue("id")))
	if err != nil {
		http.Error(w, err.Error(), pawl.HTTPStatus(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": order.Status, "output": order.Output}) // the client has gone
}

func chargeCard(ctx context.Context, in struct{ Amount int }) (string, error) {
	if in.Amount <= 0 {
		return "", pawl.Permanent(fmt.Errorf("the amount is %d, and must be positive", in.Amount))
	}
	return "charged under " + pawl.TaskFrom(ctx).EffectKey, nil
}

func shipItem(_ context.Context, in struct{ Item string }) (string, error) {
	return "parcel with " + in.Item, nil
}
