// Saga places orders in several steps. A step that fails is retried where that
// makes sense; when it fails for good, the steps before it are undone.
//
//	go run ./examples/saga
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "saga:", err)
		os.Exit(1)
	}
}

// The definition: read saga.yaml next, it is the point of this example.
//
//go:embed saga.yaml
var definition []byte

// An order is the input of a run.
type order struct {
	Item    string `json:"item"`
	Card    string `json:"card"`
	Address string `json:"address"`
}

// A shop performs the tasks, and says what it does.
type shop struct{ log io.Writer }

func (s shop) handlers() pawl.Handlers {
	return pawl.Handlers{
		"reserve": pawl.Typed(s.reserve), "charge": pawl.Typed(s.chargeCard), "ship": pawl.Typed(s.shipOrder),
		"refund": pawl.Typed(s.refund), "release": pawl.Typed(s.release),
	}
}

// reserve has the input that the node's mapping fills, and no result. The error of another input, such as one without
// the item, has the code invalid_input.
func (s shop) reserve(ctx context.Context, _ struct{ Item string }) (any, error) {
	return nil, s.sayOutcome(ctx, "reserve", nil)
}

// chargeCard meets a bank that is busy twice before it answers. A TaskError has a
// code, which the definition can name; Retryable leaves it to the node's retry
// policy whether there is another attempt.
func (s shop) chargeCard(ctx context.Context, in struct{ Card string }) (any, error) {
	switch {
	case in.Card == "stolen":
		return nil, s.sayOutcome(ctx, "charge", pawl.TaskError{Code: "card_declined", Message: "the card is stolen", Retryable: true})
	case pawl.TaskFrom(ctx).Attempt < 3:
		return nil, s.sayOutcome(ctx, "charge", pawl.TaskError{Code: "bank_busy", Message: "try again later", Retryable: true})
	}
	return nil, s.sayOutcome(ctx, "charge", nil)
}

// shipOrder fails for good if there is no address. Permanent says that no policy
// should try again; the code is error, as of any plain error.
func (s shop) shipOrder(ctx context.Context, in struct{ Address string }) (any, error) {
	if in.Address == "nowhere" {
		return nil, s.sayOutcome(ctx, "ship", pawl.Permanent(errors.New("no such address")))
	}
	return nil, s.sayOutcome(ctx, "ship", nil)
}

func (s shop) refund(ctx context.Context, _ struct{ Card string }) (any, error) {
	return nil, s.sayOutcome(ctx, "refund", nil)
}

func (s shop) release(ctx context.Context, in struct{ Item, Reason string }) (any, error) {
	return nil, s.sayOutcome(ctx, "release, because: "+in.Reason, nil)
}

// sayOutcome logs an attempt and returns its error.
func (s shop) sayOutcome(ctx context.Context, what string, err error) error {
	attempt := pawl.TaskFrom(ctx).Attempt
	if err == nil {
		fmt.Fprintf(s.log, "  %s (attempt %d)\n", what, attempt)
	} else {
		fmt.Fprintf(s.log, "  %s (attempt %d): %v\n", what, attempt, err)
	}
	return err
}

func run(ctx context.Context, args []string, stdout, _ io.Writer) error {
	dir, remove, err := directory(args)
	if err != nil {
		return err
	}
	defer remove()
	def, err := workflow.ParseYAML(definition)
	if err != nil {
		return err
	}
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: shop{stdout}.handlers()})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)

	for _, o := range []struct {
		id workflow.RunID
		order
	}{
		{"good", order{"lamp", "valid", "1 Main Street"}},
		{"declined", order{"lamp", "stolen", "1 Main Street"}},
		{"lost", order{"lamp", "valid", "nowhere"}},
	} {
		fmt.Fprintf(stdout, "order %s\n", o.id)
		outcome, err := engine.Run(ctx, workflow.Run{ID: o.id, Definition: def}, o.order)
		if err != nil {
			return err
		}
		if err := outcome.Err(); err != nil {
			fmt.Fprintf(stdout, "  => %v\n", err)
			continue
		}
		fmt.Fprintf(stdout, "  => %s: %v\n", outcome.Status, outcome.Output["message"])
	}
	return nil
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-saga-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
