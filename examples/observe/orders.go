package main

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

//go:embed order.yaml
var text []byte

// orders is the definition of an order.
var orders = func() *workflow.Definition {
	d, err := workflow.ParseYAML(text)
	if err != nil {
		panic(err)
	}
	return d
}()

// A quote is the output of the task quote.
type quote struct {
	Price int `json:"price"`
}

// An order is the input of the task ship.
type order struct {
	Number int `json:"number"`
}

// makeHandlers perform the tasks of orders. An order is shipped once the gate is there, if there is one.
func makeHandlers(gate string) pawl.Handlers {
	return pawl.Handlers{
		"quote": pawl.Typed(func(ctx context.Context, _ struct{}) (quote, error) {
			_, span := startSpan(ctx, "ask the supplier")
			defer span.End()
			t := pawl.TaskFrom(ctx)
			if t.Attempt == 1 && t.Branch.Index == 2 {
				return quote{}, pawl.TaskError{Code: "busy", Message: "the third supplier answers the second time", Retryable: true}
			}
			return quote{10 + t.Branch.Index}, nil
		}),
		"ship": pawl.Typed(func(ctx context.Context, in order) (string, error) {
			if in.Number%5 == 0 {
				return "", pawl.TaskError{Code: "no_address", Message: "every fifth order has no address"}
			}
			ctx, span := startSpan(ctx, "hand over")
			defer span.End()
			return "shipped", waitFor(ctx, gate)
		}),
	}
}

// startSpan begins a span below that of the attempt.
func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer("orders").Start(ctx, name)
}

// waitFor returns when a file is there.
func waitFor(ctx context.Context, gate string) error {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for gate != "" {
		if _, err := os.Stat(gate); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
