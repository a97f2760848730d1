// Inspector opens a shop whose runs never end, with the page that shows them: orders that wait
// for people, imports with hundreds of branches, tasks that fail, loops, child runs.
//
//	go run ./examples/inspector
package main

import (
	"context"
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
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "inspector:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("inspector", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("address", "127.0.0.1:7295", "where the page is served; another port is taken if this one is in use")
	files := flags.Int("files", 400, "how many files an import has")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pawl-inspector-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: handlers(), Socket: inspector.Local})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = engine.Close(ctx) // the directory is thrown away
	}()

	// This is all that it takes: a handler below any path.
	mux := http.NewServeMux()
	mux.Handle("/ops/", http.StripPrefix("/ops", inspector.Handler(engine, inspector.Options{
		Name: "the shop", Identify: inspector.FromThisMachine("you", api.All),
	})))
	mux.Handle("/{$}", http.RedirectHandler("/ops/", http.StatusFound))

	listener, err := listen(*address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(listener) }() // until Close
	s := &shop{engine: engine, files: *files}
	if err := s.openShop(ctx); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "look at http://%s/ops/ (Ctrl-C closes the shop)\n", listener.Addr())
	fmt.Fprintf(stdout, "or ask by command: go run ./cmd/pawl ls --dir %s\n", dir)
	return s.trade(ctx)
}

// listen takes the address, or another port of this machine if somebody has it.
func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	return listener, err
}
