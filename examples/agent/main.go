// Agent lets a model decide what happens next: it plans, its subtasks run side
// by side, and it plans again with what they found, until it is done or a bound
// is met. The model here is a fake, so the example says the same every time.
//
//	go run ./examples/agent
package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	// An interrupt, or a stop by the system, ends what waits; a further one ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// The definition: read agent.yaml next, it is the point of this example.
//
//go:embed agent.yaml
var definition []byte

// A conversation is the input of plan.
type conversation struct {
	Goal   string
	Rounds [][]note
}

// plan is called once per round, with all that the rounds before have found. A
// call of a model costs time and money: its result is committed, so a crash
// later on does not repeat it.
func (m model) plan(_ context.Context, in conversation) (step, error) {
	return m.next(in.Goal, in.Rounds), nil
}

// collectNotes is called once per subtask. It returns a list: a subtask may find
// several things, and the join makes one list of them all.
func (m model) collectNotes(_ context.Context, in struct{ Topic string }) ([]note, error) {
	return []note{m.look(in.Topic)}, nil
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
	var m model
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: pawl.Handlers{"plan": pawl.Typed(m.plan), "work": pawl.Typed(m.collectNotes)}, Grace: grace})
	if err != nil {
		return err
	}
	defer shutDown(ctx, engine)

	// The second goal has no end: there the bound of the loop is the way out.
	for i, goal := range []string{"coffee", "1"} {
		fmt.Fprintf(stdout, "goal: %s\n", goal)
		id := workflow.RunID(fmt.Sprintf("agent-%d", i+1))
		outcome, err := engine.Run(ctx, workflow.Run{ID: id, Definition: def}, map[string]string{"goal": goal})
		if err != nil {
			return err
		}
		if err := show(stdout, outcome); err != nil {
			return err
		}
	}
	return nil
}

// grace is how long a call of the model may go on after an interrupt: its result is worth keeping.
const grace = 10 * time.Second

// shutDown closes the engine: no further task begins, running tasks have their grace, and all their results are
// committed. ctx may be done already, so it must not bound that. The next start goes on from there.
func shutDown(ctx context.Context, engine *pawl.Engine) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*grace)
	defer cancel()
	if err := engine.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
	}
}

// show prints which subtasks there were in each round, and the answer.
func show(w io.Writer, outcome workflow.Outcome) error {
	var out struct {
		Answer string
		Rounds [][]note
	}
	if err := outcome.BindStrict(&out); err != nil {
		return err
	}
	for i, round := range out.Rounds {
		var topics []string
		for _, n := range round {
			topics = append(topics, n.Topic)
		}
		fmt.Fprintf(w, "  round %d: %s\n", i+1, strings.Join(topics, ", "))
	}
	fmt.Fprintf(w, "  answer: %s\n", out.Answer)
	return nil
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-agent-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
