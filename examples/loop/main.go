// Loop asks again and again until something is ready, but not for ever: a
// polling loop with a bound, and a way out when the bound is reached.
//
//	go run ./examples/loop
package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "loop:", err)
		os.Exit(1)
	}
}

// The definition: read loop.yaml next, it is the point of this example.
//
//go:embed loop.yaml
var definition []byte

type answer struct {
	Ready bool `json:"ready"`
}

// poll asks whether the job is done. It is called several times for one run.
// Its input has all that it needs to know, so it keeps nothing itself: the
// engine may have been restarted in between.
func poll(_ context.Context, in struct{ ReadyAt, Asked int }) (answer, error) {
	return answer{in.Asked >= in.ReadyAt}, nil
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
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: pawl.Handlers{"poll": pawl.Typed(poll)}})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)

	// One job that is ready when it is asked for the third time, and one that
	// never is. Both are the same definition.
	for _, job := range []struct {
		id    workflow.RunID
		ready int
	}{{"quick", 3}, {"never", 1000}} {
		outcome, err := engine.Run(ctx, workflow.Run{ID: job.id, Definition: def}, map[string]any{"readyAt": job.ready})
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s: %s, asked %v times, came round %v times\n",
			job.id, outcome.Output["verdict"], outcome.Output["asked"], outcome.Output["rounds"])
	}
	return nil
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-loop-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
