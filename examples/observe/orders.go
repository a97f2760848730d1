package main

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"time"

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

// makeHandlers perform the tasks of orders. An order is shipped once the gate is there, if there is one.
func makeHandlers(gate string) pawl.Handlers {
	return pawl.Handlers{
		"quote": func(_ context.Context, t pawl.Task) (any, error) {
			if t.Attempt == 1 && t.Branch.Index == 2 {
				return nil, pawl.TaskError{Code: "busy", Message: "the third supplier answers the second time", Retryable: true}
			}
			return map[string]any{"price": 10 + t.Branch.Index}, nil
		},
		"ship": func(ctx context.Context, t pawl.Task) (any, error) {
			input, _ := t.Input.(map[string]any)
			if number, _ := input["number"].(int64); number%5 == 0 {
				return nil, pawl.TaskError{Code: "no_address", Message: "every fifth order has no address"}
			}
			return "shipped", waitFor(ctx, gate)
		},
	}
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
