package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

var retryVerb = verb{
	name:    "retry",
	help:    "Give tasks that have used up their attempts new ones, or end a back-off at once.",
	example: []string{"pawl retry order-42 charge -m repaired", "pawl retry --task charge --code timeout -m repaired"},
	command: func() command { return new(retryCommand) },
}

var skipVerb = verb{
	name:    "skip",
	help:    "Complete tasks in place of whoever performs them.",
	example: []string{`pawl skip order-42 charge --output '{"paid":true}' -m cash`},
	command: func() command { return new(skipCommand) },
}

// A lettersFlag is embedded in the commands that are done to a task, or to dead letters.
type lettersFlag struct {
	Run      string `arg:"" optional:"" help:"The id of the run."`
	Target   string `arg:"" optional:"" name:"token-or-node" help:"The task: its node where one fits, or its token, as t5; all that are parked in the run, if this is not given."`
	Workflow string `placeholder:"NAME" help:"What is parked in runs of definitions of this name."`
	Node     string `placeholder:"NODE" help:"What is parked at this node."`
	Task     string `placeholder:"TYPE" help:"Parked tasks of this type."`
	Code     string `placeholder:"CODE" help:"What has failed with this code."`
	Where    string `placeholder:"CONDITION" help:"What is parked in runs of which this is true, in CEL."`
	bulkFlag
}

// chooseTasks returns what is done to the task that is named, or to those that are chosen. Tasks
// that are chosen are acted on by their tokens, not by their nodes: several may be parked at one
// node, and one that is parked later, after the question was answered, is not touched. Without any
// choice it refuses, as the inbox of all runs is too much to mean by saying nothing.
func (f *lettersFlag) chooseTasks(ctx context.Context, e *reached, act pawl.Act, said string) (deeds []deed, err error) {
	if f.Target != "" {
		if f.Workflow != "" || f.Node != "" || f.Task != "" || f.Code != "" || f.Where != "" {
			return nil, fmt.Errorf("%s is named: leave --workflow, --node, --task, --code and --where out, which choose", f.Target)
		}
		t, err := e.targetIn(ctx, f.Run, f.Target)
		return []deed{{workflow.RunID(f.Run), acts.At(act, t), f.Target + " " + said}}, err
	}
	filter := pawl.DeadLetterFilter{Run: workflow.RunID(f.Run), Workflow: f.Workflow, Node: workflow.NodeID(f.Node), Task: f.Task, Code: f.Code, Where: f.Where}
	if filter == (pawl.DeadLetterFilter{}) {
		return nil, errors.New("name a run, or choose parked tasks by --workflow, --node, --task, --code or --where")
	}
	for l, err := range e.DeadLetters(ctx, filter) {
		if err != nil {
			return nil, err
		}
		if l.Trouble != "" {
			return nil, fmt.Errorf("run %q: %w: %s: name the others", string(l.Run), pawl.ErrCorrupt, l.Trouble)
		}
		one := acts.At(act, pawl.Target{Token: l.Token, Parked: true})
		deeds = append(deeds, deed{l.Run, one, fmt.Sprintf("%s t%d %s", l.Node, l.Token, said)})
	}
	// That a run has ended, or is not there at all, says more than that nothing is parked in it.
	if len(deeds) == 0 && f.Run != "" {
		s, err := e.Summary(ctx, filter.Run)
		if err != nil {
			return nil, err
		}
		if s.Status.Final() {
			return nil, &toldError{fmt.Sprintf("run %q: the run has ended (%v): nothing is parked there", f.Run, s.Status), pawl.ErrEnded}
		}
	}
	if len(deeds) == 0 {
		return nil, &toldError{"nothing is parked there", pawl.ErrNotLive}
	}
	return deeds, nil
}

// A retryCommand retries tasks.
type retryCommand struct {
	Input string `enum:"again,kept,patched" default:"patched" help:"The input: again evaluates it anew, kept leaves it, patched evaluates it anew if the run was patched."`
	lettersFlag
	actFlag
}

// runCommand retries the task that is named or, after a question, those that are chosen. "patched"
// is what an empty Input of the act stands for:
// the input is evaluated anew if the definition was patched since, else it is as it was.
func (c *retryCommand) runCommand(ctx context.Context, con *console) error {
	var act pawl.Retry
	if c.Input != "patched" {
		act.Input = workflow.RetryInput(c.Input)
	}
	return c.withActor(ctx, con, func(e *reached) error {
		deeds, err := c.chooseTasks(ctx, e, act, "is tried again")
		if err == nil && c.Target == "" {
			err = c.confirmChange(ctx, con, &c.bulkFlag, "retry "+pluralText(len(deeds), "parked task"))
		}
		if err != nil {
			return err
		}
		return c.doAll(ctx, con, e, deeds...)
	})
}

// A skipCommand completes tasks.
type skipCommand struct {
	Output string `placeholder:"JSON" help:"What they come to; null, if this is not given."`
	lettersFlag
	actFlag
}

// runCommand completes the task that is named or, after a question, each of those that are chosen,
// all with the same output.
func (c *skipCommand) runCommand(ctx context.Context, con *console) error {
	output, err := jsonText("--output", c.Output)
	if err != nil {
		return err
	}
	return c.withActor(ctx, con, func(e *reached) error {
		deeds, err := c.chooseTasks(ctx, e, pawl.Skip{Output: output}, "is skipped")
		if err == nil && c.Target == "" {
			err = c.confirmChange(ctx, con, &c.bulkFlag, "skip "+pluralText(len(deeds), "parked task"))
		}
		if err != nil {
			return err
		}
		return c.doAll(ctx, con, e, deeds...)
	})
}
