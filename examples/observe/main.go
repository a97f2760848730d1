// Observe is an engine that is seen from outside: Prometheus reads its metrics at /metrics, and with -otlp they go to a collector
// by OTLP as well, and traces with them. It works through a number of orders, and continues with those that an earlier process has left.
//
//	go run . -orders 20 &
//	curl http://127.0.0.1:9464/metrics
//
// The providers are those of the SDK of OpenTelemetry: pawl itself needs the interfaces only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// settings are what the command line says.
type settings struct {
	dir    string        // of the engine
	listen string        // where Prometheus asks
	otlp   string        // URL of a collector, "" without
	every  time.Duration // how often it gets metrics and spans
	orders int
	gate   string // a file that has to be there before an order is shipped; "" without
}

func main() {
	var s settings
	flag.StringVar(&s.dir, "dir", "data", "the engine `directory`")
	flag.StringVar(&s.listen, "listen", "127.0.0.1:9464", "the `address` at which Prometheus reads /metrics")
	flag.StringVar(&s.otlp, "otlp", "", "the `URL` of a collector, such as http://127.0.0.1:4318")
	flag.DurationVar(&s.every, "every", 15*time.Second, "how often the collector gets metrics and spans")
	flag.IntVar(&s.orders, "orders", 20, "how many orders there are")
	flag.StringVar(&s.gate, "gate", "", "a `file` that has to be there before an order is shipped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, s); err != nil {
		log.Fatal(err)
	}
}

// serve works until ctx ends.
func serve(ctx context.Context, s settings) (err error) {
	meters, err := meterProvider(ctx, s)
	if err != nil {
		return err
	}
	// The provider outlives the engine: what that counts last is sent as well.
	defer func() { err = errors.Join(err, meters.Shutdown(context.WithoutCancel(ctx))) }()
	tracers, err := tracerProvider(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tracers.Shutdown(context.WithoutCancel(ctx))) }()

	engine, err := pawl.Open(ctx, s.dir, pawl.Options{Executor: makeHandlers(s.gate), MeterProvider: meters, TracerProvider: tracers})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close(context.WithoutCancel(ctx))) }()

	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	pages := http.NewServeMux()
	pages.Handle("/metrics", promhttp.Handler())
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Printf("metrics http://%s/metrics\n", listener.Addr())

	for i := range s.orders {
		id := workflow.RunID(fmt.Sprintf("order-%d", i+1))
		if err := engine.Start(ctx, workflow.Run{ID: id, Definition: orders}, map[string]any{"number": i + 1}); err != nil {
			return err
		}
	}
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// meterProvider returns what the engine counts with: one set of figures, which Prometheus reads and a collector gets.
func meterProvider(ctx context.Context, s settings) (*metric.MeterProvider, error) {
	scraped, err := prometheus.New()
	if err != nil {
		return nil, err
	}
	readers := []metric.Option{metric.WithReader(scraped)}
	if s.otlp != "" {
		sent, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(s.otlp+"/v1/metrics"))
		if err != nil {
			return nil, err
		}
		readers = append(readers, metric.WithReader(metric.NewPeriodicReader(sent, metric.WithInterval(s.every))))
	}
	return metric.NewMeterProvider(readers...), nil
}

// tracerProvider returns what makes the spans of the engine and of its handlers, which a collector gets many at a time. Without a
// collector they go nowhere, but runs have traces all the same, which handlers hand on.
func tracerProvider(ctx context.Context, s settings) (*trace.TracerProvider, error) {
	if s.otlp == "" {
		return trace.NewTracerProvider(), nil
	}
	sent, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(s.otlp+"/v1/traces"))
	if err != nil {
		return nil, err
	}
	return trace.NewTracerProvider(trace.WithBatcher(sent, trace.WithBatchTimeout(s.every))), nil
}
