// Subworkflow fulfils an order: each of its items is a run of its own, a child
// of the order. One item is out of stock, so its run fails, and the order goes
// on without it.
//
//	go run ./examples/subworkflow
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "subworkflow:", err)
		os.Exit(1)
	}
}

// The definitions: read order.yaml next, then fulfil.yaml.
var (
	//go:embed order.yaml
	order []byte
	//go:embed fulfil.yaml
	fulfil []byte
)

const input = `{"items": [
  {"name": "lamp", "quantity": 2},
  {"name": "vase", "quantity": 5},
  {"name": "rug", "quantity": 1}
]}`

type wanted struct {
	Name     string
	Quantity int
}

type place struct {
	Shelf string `json:"shelf"`
}

// pick finds an item on its shelf. Its failure is that of the child run, and of
// the node in the order that the child runs for.
func pick(_ context.Context, in wanted) (place, error) {
	stock := map[string]int{"lamp": 7, "vase": 3, "rug": 1}[in.Name]
	if stock < in.Quantity {
		return place{}, pawl.TaskError{Code: "out_of_stock", Message: fmt.Sprintf("%d wanted, %d there", in.Quantity, stock)}
	}
	return place{in.Name[:1]}, nil
}

func pack(_ context.Context, in struct{ Name, Shelf string }) (string, error) {
	return fmt.Sprintf("%s from shelf %s", in.Name, in.Shelf), nil
}

func run(ctx context.Context, args []string, stdout, _ io.Writer) error {
	dir, remove, err := directory(args)
	if err != nil {
		return err
	}
	defer remove()
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: pawl.Handlers{"pick": pawl.Typed(pick), "pack": pawl.Typed(pack)}})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)

	// A child is found by its name, so it must be published before the parent is
	// started. Published, a parent can be started by name, too.
	for _, text := range [][]byte{fulfil, order} {
		def, err := workflow.ParseYAML(text)
		if err != nil {
			return err
		}
		if _, err := engine.Publish(ctx, def); err != nil {
			return err
		}
	}
	outcome, err := engine.Run(ctx, workflow.Run{ID: "order-1", Workflow: "order"}, json.RawMessage(input))
	if err != nil {
		return err
	}
	if err := outcome.Err(); err != nil {
		return err
	}
	items, err := json.MarshalIndent(outcome.Output["items"], "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n", items)
	return children(ctx, engine, outcome.Run, stdout)
}

// children shows the runs that the order has made. They are runs like any
// other: with a state, events and an outcome of their own. Their ids are made
// of that of the parent, the token that waits there, and its attempt.
func children(ctx context.Context, engine *pawl.Engine, parent workflow.RunID, stdout io.Writer) error {
	var runs []pawl.RunSummary
	for r, err := range engine.Runs(ctx, pawl.RunFilter{Parent: parent}) {
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b pawl.RunSummary) int { return cmp.Compare(a.Run, b.Run) }) // they started together
	for _, r := range runs {
		fmt.Fprintf(stdout, "%s, a run of %s: %s\n", r.Run, r.Workflow, r.Status)
		if r.Failure != nil {
			fmt.Fprintf(stdout, "  %v\n", r.Failure)
		}
	}
	return nil
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-subworkflow-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
