// Chain runs three tasks in a row: the smallest complete program.
//
//	go run ./examples/chain
//	go run ./examples/chain DIRECTORY    # twice: the second time nothing is executed
//
// Read it from top to bottom.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/build"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "chain:", err)
		os.Exit(1)
	}
}

// A definition is data. Here it is made in Go; other examples write it as YAML.
// Nodes do something, transitions say what comes next. Expressions (CEL) say
// what a task gets and what becomes of its result: input is the run's input,
// state is the run's own memory, output is what it returns. The types of the
// handlers are compared with them: a field that one does not have is an error.
func receipts() *workflow.Definition {
	b := build.New("chain")
	build.TypedTask(b, "price", priceItem).
		Input("item", "input.item").
		Output("state.cents", "result.cents * input.quantity").
		To("tax")
	build.TypedTask(b, "tax", computeTax).
		Input("cents", "state.cents").
		Output("state.tax", "result.cents").
		To("receipt")
	build.TypedTask(b, "receipt", receipt).
		Input("item", "input.item").
		Input("cents", "state.cents + state.tax").
		Output("output.text", "result").
		Output("output.cents", "state.cents + state.tax")
	return b.MustDefinition()
}

type money struct {
	Cents int `json:"cents"`
}

// A handler performs the tasks of one type. Its return value becomes the result
// of the node: anything that can be encoded as JSON.
func priceItem(_ context.Context, in struct{ Item string }) (money, error) {
	cents, ok := map[string]int{"apple": 40, "pear": 55}[in.Item]
	if !ok {
		return money{}, fmt.Errorf("we do not sell %q", in.Item)
	}
	return money{cents}, nil
}

func computeTax(_ context.Context, in money) (money, error) {
	return money{in.Cents / 5}, nil
}

type sale struct {
	Item  string
	Cents int
}

func receipt(_ context.Context, in sale) (string, error) {
	return fmt.Sprintf("%s: %d.%02d", in.Item, in.Cents/100, in.Cents%100), nil
}

func run(ctx context.Context, args []string, stdout, _ io.Writer) error {
	dir, remove, err := directory(args)
	if err != nil {
		return err
	}
	defer remove()

	// An engine has a directory, where everything is kept that it has promised.
	engine, err := pawl.Open(ctx, dir, pawl.Options{
		Executor: pawl.Handlers{"price": pawl.Typed(priceItem), "tax": pawl.Typed(computeTax), "receipt": pawl.Typed(receipt)},
	})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)

	// Run is Start, which is durable when it returns, and Wait. To start the
	// same run again is no error and no second run: the id says which one is
	// meant, and Wait returns the outcome that it had.
	order := workflow.Run{ID: "order-1", Definition: receipts()}
	outcome, err := engine.Run(ctx, order, map[string]any{"item": "apple", "quantity": 3})
	if err != nil {
		return err // it could not be started, or not be waited for
	}
	fmt.Fprintf(stdout, "%s %s: %v\n", outcome.Run, outcome.Status, outcome.Output["text"])

	// That a run fails is not an error of the engine. It is its outcome.
	wrong := workflow.Run{ID: "order-2", Definition: receipts()}
	outcome, err = engine.Run(ctx, wrong, map[string]any{"item": "plum", "quantity": 1})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s %s: %v\n", outcome.Run, outcome.Status, outcome.Failure)
	return nil
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-chain-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
