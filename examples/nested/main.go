// Nested prices the lines of several orders: a fan-out in a fan-out, and two
// joins that bring the results together, first per order, then over all.
//
//	go run ./examples/nested
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "nested:", err)
		os.Exit(1)
	}
}

// The definition: read nested.yaml next, it is the point of this example.
//
//go:embed nested.yaml
var definition []byte

// The input of the run. The last order has no lines: its inner join has nothing
// to wait for and goes on at once, with an empty list.
const input = `{"orders": [
  {"customer": "ann", "lines": [{"item": "apple", "quantity": 3}, {"item": "pear", "quantity": 1}]},
  {"customer": "bob", "lines": [{"item": "pear", "quantity": 2}]},
  {"customer": "eve", "lines": []}
]}`

// A line is an item of an order, and how many.
type line struct {
	Item     string
	Quantity int
}

// priceLine is called once per line. pawl.TaskFrom(ctx).Branch says which branch of the innermost
// fan-out it is called for.
func priceLine(_ context.Context, in line) (int, error) {
	return map[string]int{"apple": 40, "pear": 55}[in.Item] * in.Quantity, nil
}

// sum is called once per order, with the prices in the order of the lines.
func sum(_ context.Context, in struct{ Cents []int }) (int, error) {
	total := 0
	for _, c := range in.Cents {
		total += c
	}
	return total, nil
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
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: pawl.Handlers{"price": pawl.Typed(priceLine), "sum": pawl.Typed(sum)}})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)

	outcome, err := engine.Run(ctx, workflow.Run{ID: "nested-1", Definition: def}, json.RawMessage(input))
	if err != nil {
		return err
	}
	if err := outcome.Err(); err != nil {
		return err
	}
	orders, err := json.MarshalIndent(outcome.Output["orders"], "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n", orders)
	return groups(ctx, engine, outcome.Run, stdout)
}

// groups shows the fan-outs that there were: one of orders, and one of lines
// for each order.
func groups(ctx context.Context, engine *pawl.Engine, id workflow.RunID, stdout io.Writer) error {
	snapshot, err := engine.Inspect(ctx, id)
	if err != nil {
		return err
	}
	for _, g := range snapshot.Groups {
		where := "in the run"
		if g.Scope.Group != 0 {
			where = fmt.Sprintf("in branch %d", g.Scope.Branch)
		}
		fmt.Fprintf(stdout, "group %s %s: %d of %d arrived\n", g.Name, where, g.Arrived, g.Total)
	}
	return nil
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-nested-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
