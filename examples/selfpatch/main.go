// Selfpatch is an agent that changes its own run while it runs: half-way it finds that it
// needs a critic, whom its definition does not know, and a step more before it publishes. It
// patches both into the live run and goes on by the new definition. The model is a fake, so
// the example says the same every time.
//
//	go run ./examples/selfpatch
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "selfpatch:", err)
		os.Exit(1)
	}
}

// The definitions: read agent.yaml next.
//
//go:embed *.yaml
var definitions embed.FS

// An agent performs the tasks. The tasks that patch need the engine, and the engine may send
// them before Open has returned.
type agent struct {
	opened chan struct{} // closed when engine is set
	engine *pawl.Engine
}

// A thought is the input of think.
type thought struct {
	Goal  string
	Notes []string
}

// chooseMove is called once per round. Its result decides which sub-agent goes on, by the
// definition that the run has when think returns: also by one that think has just patched.
func (a *agent) chooseMove(ctx context.Context, in thought) (move, error) {
	next := decide(in.Goal, in.Notes)
	if next.Hire {
		if err := a.hire(ctx, pawl.TaskFrom(ctx).Run, next.Agent); err != nil {
			return move{}, err
		}
	}
	return next, nil
}

// hire patches a run: ask may choose one sub-agent more, and a page is proofread after it was
// written. A task may be performed again after a crash, so it looks first whether that is
// done: for the sub-agent and not at the revision, since others may patch the run as well. If
// somebody does in between, Patch calls the function again.
func (a *agent) hire(ctx context.Context, run workflow.RunID, name string) error {
	select {
	case <-a.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx = pawl.Because(pawl.As(ctx, "agent"), "the notes contradict each other")
	_, err := a.engine.Patch(ctx, run, pawl.Patch{Of: func(def *workflow.Definition) []any {
		if slices.Contains(listAgents(def), name) {
			return nil
		}
		return []any{
			map[string]any{"op": "add", "path": "/nodes/ask/subworkflow/names/-", "value": name},
			map[string]any{"op": "add", "path": "/nodes/proofread", "value": map[string]any{
				"task": "proofread", "timeout": "1m",
				"input": map[string]any{"page": "result"}, "output": map[string]any{"output.page": "result"},
			}},
			map[string]any{"op": "add", "path": "/transitions/last", "value": map[string]any{"from": "write", "to": "proofread"}},
		}
	}})
	return err
}

// listAgents returns the sub-agents among which a definition chooses.
func listAgents(def *workflow.Definition) []string {
	for i := range def.Nodes {
		if s := def.Nodes[i].Subworkflow; s != nil {
			return s.Names
		}
	}
	return nil
}

func run(ctx context.Context, args []string, stdout, _ io.Writer) (err error) {
	dir, remove, err := directory(args)
	if err != nil {
		return err
	}
	defer remove()
	a := &agent{opened: make(chan struct{})}
	a.engine, err = pawl.Open(ctx, dir, pawl.Options{Executor: pawl.Handlers{
		"think": pawl.Typed(a.chooseMove), "look": pawl.Typed(look), "doubt": pawl.Typed(doubt), "write": pawl.Typed(writeAnswer), "proofread": pawl.Typed(proofread),
	}})
	if err != nil {
		return err
	}
	close(a.opened)
	defer func() { err = errors.Join(err, a.engine.Close(context.WithoutCancel(ctx))) }()

	if err := a.publishAll(ctx); err != nil {
		return err
	}
	outcome, err := a.engine.Run(ctx, workflow.Run{ID: "agent-1", Workflow: "agent"}, map[string]string{"goal": "tea"})
	if err != nil {
		return err
	}
	if err := outcome.Err(); err != nil {
		return err
	}
	return show(ctx, a.engine, outcome, stdout)
}

// publishAll publishes the agent and its sub-agents: the critic as well, whom agent.yaml does
// not name.
func (a *agent) publishAll(ctx context.Context) error {
	for _, name := range []string{"researcher", "critic", "agent"} {
		text, err := definitions.ReadFile(name + ".yaml")
		if err != nil {
			return err
		}
		def, err := workflow.ParseYAML(text)
		if err != nil {
			return err
		}
		if _, err := a.engine.Publish(ctx, def); err != nil {
			return err
		}
	}
	return nil
}

// show prints the definition that the run began with and the one that it made of it, which
// sub-agents it chose, and the page.
func show(ctx context.Context, engine *pawl.Engine, outcome workflow.Outcome, w io.Writer) error {
	_, last, err := engine.Definition(ctx, outcome.Run)
	if err != nil {
		return err
	}
	for revision := 1; revision <= last; revision++ {
		def, err := engine.Revision(ctx, outcome.Run, revision)
		if err != nil {
			return err
		}
		var steps []string
		for i := range def.Nodes {
			steps = append(steps, string(def.Nodes[i].ID))
		}
		fmt.Fprintf(w, "revision %d: %s; may ask %s\n", revision, strings.Join(steps, ", "), strings.Join(listAgents(def), ", "))
	}
	for e, err := range engine.Events(ctx, outcome.Run, pawl.EventsOptions{}) {
		if err != nil {
			return err
		}
		switch e.Type {
		case workflow.EventSubworkflowStarted:
			fmt.Fprintf(w, "event %2d: asks the %s\n", e.Seq, e.Data["chosen"])
		case workflow.EventWorkflowPatched:
			fmt.Fprintf(w, "event %2d: patches its run: revision %v\n", e.Seq, e.Data["revision"])
		default: // what every run tells
		}
	}
	fmt.Fprintf(w, "page: %s\n", outcome.Output["page"])
	return nil
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-selfpatch-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
