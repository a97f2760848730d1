// Dag runs the import graph of the standard library of Go: each package is a
// node, which counts the lines of its files when the packages that it imports
// have been counted. It prints the totals and the critical path: the chain of
// imports with the most lines, which no number of workers could shorten if
// lines took time.
//
//	go run ./examples/dag
//
// Read this file, then definition.go, which is the workflow, then count.go,
// which has the tasks; packages.go asks the go command for the graph.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "dag:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, _ io.Writer) error {
	dir, remove, err := directory(args)
	if err != nil {
		return err
	}
	defer remove()
	packages, err := library(ctx)
	if err != nil {
		return err
	}
	imports := 0
	for _, p := range packages {
		imports += len(p.Imports)
	}
	fmt.Fprintf(stdout, "graph: %d packages, %d imports\n", len(packages), imports)

	sum, err := walk(ctx, dir, packages)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "total: %d packages, %d lines\n", sum.Packages, sum.Lines)
	chain := 0
	for _, l := range sum.Critical {
		chain += l.Lines
	}
	fmt.Fprintf(stdout, "critical path: %d packages, %d lines\n", len(sum.Critical), chain)
	for _, l := range sum.Critical {
		fmt.Fprintf(stdout, "%8d %s\n", l.Lines, l.Package)
	}
	return nil
}

// walk runs the graph in an engine directory.
func walk(ctx context.Context, dir string, packages []pkg) (summary, error) {
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: pawl.Handlers{"count": pawl.Typed(countWords), "report": pawl.Typed(summarizePackages)}})
	if err != nil {
		return summary{}, err
	}
	defer engine.Close(ctx)
	files := map[string][]string{}
	for _, p := range packages {
		files[p.Path] = append([]string{}, p.Files...)
	}
	outcome, err := engine.Run(ctx, workflow.Run{ID: pawl.NewRunID(), Definition: definition(packages)}, map[string]any{"files": files})
	if err == nil {
		err = outcome.Err()
	}
	if err != nil {
		return summary{}, err
	}
	text, err := json.Marshal(outcome.Output)
	if err != nil {
		return summary{}, err
	}
	var sum summary
	err = json.Unmarshal(text, &sum)
	return sum, err
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-dag-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
