// Quorum asks three suppliers for a quote and goes on when two have answered.
// The third is told that nobody waits for it any more.
//
//	go run ./examples/quorum
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
		fmt.Fprintln(os.Stderr, "quorum:", err)
		os.Exit(1)
	}
}

// The definition: read quorum.yaml next, it is the point of this example.
//
//go:embed quorum.yaml
var definition []byte

// A quote is what a supplier answers.
type quote struct {
	Supplier string `json:"supplier"`
	Cents    int    `json:"cents"`
}

// suppliers answer at once, or never.
type suppliers struct {
	cents     map[string]int
	withdrawn chan string // what those said who were not needed
}

func (s *suppliers) quote(ctx context.Context, in struct{ Supplier string }) (quote, error) {
	if cents, ok := s.cents[in.Supplier]; ok {
		return quote{in.Supplier, cents}, nil
	}
	// A task that is no longer wanted is told so through its context. A handler
	// that does not listen is left alone: its result is refused when it comes.
	<-ctx.Done()
	s.withdrawn <- fmt.Sprintf("%s is withdrawn: %v", in.Supplier, context.Cause(ctx))
	return quote{}, ctx.Err()
}

// choose gets what the fan-in has merged: a list, in the order of the branches,
// whichever was first.
func choose(_ context.Context, in struct{ Quotes []quote }) (string, error) {
	best := in.Quotes[0]
	for _, q := range in.Quotes {
		if q.Cents < best.Cents {
			best = q
		}
	}
	return fmt.Sprintf("%s for %d, of %d quotes", best.Supplier, best.Cents, len(in.Quotes)), nil
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
	s := &suppliers{cents: map[string]int{"ann": 120, "bob": 110}, withdrawn: make(chan string, 4)}
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: pawl.Handlers{"quote": pawl.Typed(s.quote), "choose": pawl.Typed(choose)}})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)

	// Two of these three answer: the join fires at the second answer.
	isNew, err := askSuppliers(ctx, engine, workflow.Run{ID: "two-answer", Definition: def}, "slow", "ann", "bob")
	if err != nil {
		return err
	}
	if isNew {
		fmt.Fprintln(stdout, <-s.withdrawn)
	}
	if err := report(ctx, engine, "two-answer", stdout); err != nil {
		return err
	}

	// Only one of these does: the join fires when its timeout is over, with
	// what there is. The timeout is durable; it counts from the first answer.
	isNew, err = askSuppliers(ctx, engine, workflow.Run{ID: "one-answers", Definition: def}, "slow", "ann", "slower")
	if err != nil {
		return err
	}
	if isNew {
		for range 2 {
			<-s.withdrawn
		}
	}
	return report(ctx, engine, "one-answers", stdout)
}

// askSuppliers starts a run, and reports whether it is new: the suppliers of one that is
// there already may have been asked by a process before this one.
func askSuppliers(ctx context.Context, engine *pawl.Engine, run workflow.Run, names ...string) (isNew bool, err error) {
	_, err = engine.Summary(ctx, run.ID)
	if isNew = errors.Is(err, pawl.ErrRunNotFound); err != nil && !isNew {
		return false, err
	}
	return isNew, engine.Start(ctx, run, map[string]any{"suppliers": names})
}

// report waits for a run. Inspect tells how its fan-out went: the counters of
// the group, and the tokens that were cancelled.
func report(ctx context.Context, engine *pawl.Engine, id workflow.RunID, stdout io.Writer) error {
	outcome, err := engine.Wait(ctx, id)
	if err != nil {
		return err
	}
	snapshot, err := engine.Inspect(ctx, id)
	if err != nil {
		return err
	}
	cancelled := 0
	for _, t := range snapshot.Tokens {
		if t.Status == workflow.Cancelled {
			cancelled++
		}
	}
	fmt.Fprintf(stdout, "%s %s: %v\n", id, outcome.Status, outcome.Output["best"])
	fmt.Fprintf(stdout, "  %d of %d branches arrived, %d cancelled\n", snapshot.Groups[0].Arrived, snapshot.Groups[0].Total, cancelled)
	return outcome.Err()
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-quorum-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
