// Untrusted runs definitions of strangers: it bounds what they cost before they are
// read, and offers them nothing but a few tasks whose reach the host has set. Its test
// attacks it; docs/untrusted.md says what each setting is there for.
//
//	go run ./examples/untrusted
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pawl-run/pawl/workflow"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "untrusted:", err)
		os.Exit(1)
	}
}

// A parcel is what a stranger hands in.
type parcel struct {
	tenant, what, text string
	input              any
}

func parcels() []parcel {
	const twice = `"input.xs.map(a, input.xs.map(b, input.xs.map(c, a * b * c)))"`
	return []parcel{
		{"ann", "a sum", `{"name": "sum", "start": "add", "nodes": [{"id": "add", "task": "transform",
			"input": {"expression": "'data[0] + data[1]'", "data": "input.xs"}, "output": {"output.sum": "result"}}]}`,
			map[string]any{"xs": []int{2, 3}}},
		{"eve", "an expression of a million steps", `{"name": "bomb", "start": "a", "nodes": [{"id": "a", "output": {"output.x": ` + twice + `}}]}`,
			map[string]any{"xs": make([]int, 100)}},
		{"eve", "a look at this machine", `{"name": "look", "start": "a", "nodes": [{"id": "a", "task": "fetch", "input": {"url": "'http://127.0.0.1:8080/secret'"}}]}`, nil},
		{"eve", "a task of her choice", `{"name": "shell", "start": "a", "nodes": [{"id": "a", "task": "shell"}]}`, nil},
		{"eve", "a text of a megabyte", `{"name": "` + strings.Repeat("x", 1<<20) + `"}`, nil},
	}
}

func run(ctx context.Context, args []string, stdout, _ io.Writer) error {
	dir, remove, err := directory(args)
	if err != nil {
		return err
	}
	defer remove()
	d, err := openDesk(ctx, dir, offers{})
	if err != nil {
		return err
	}
	defer d.engine.Close(ctx)
	for _, p := range parcels() {
		fmt.Fprintf(stdout, "%s, %s: ", p.tenant, p.what)
		id, err := d.start(ctx, p.tenant, []byte(p.text), p.input)
		if err != nil {
			fmt.Fprintf(stdout, "refused: %v\n", err)
			continue
		}
		outcome, err := d.engine.Wait(ctx, id)
		if err != nil {
			return err
		}
		show(stdout, outcome)
	}
	return nil
}

func show(stdout io.Writer, o workflow.Outcome) {
	if o.Failure != nil {
		fmt.Fprintf(stdout, "%s: %s\n", o.Status, o.Failure.Code)
		return
	}
	fmt.Fprintf(stdout, "%s %v\n", o.Status, o.Output)
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-untrusted-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
