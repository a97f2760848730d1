package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

var patchVerb = verb{
	name:    "patch",
	help:    "Change the definition of one run.",
	example: []string{"pawl patch order-42 longer.json -m slow --dry-run"},
	command: func() command { return new(patchCommand) },
}

// A patchCommand patches a run.
type patchCommand struct {
	Run  string `arg:"" help:"The id of the run."`
	File string `arg:"" help:"The operations, a list in JSON as of RFC 6902, on a document in which nodes and transitions are objects keyed by their ids: a node is added at /nodes/ID, a transition at /transitions/ID, not at the index or the end of a list."`
	Base int    `placeholder:"N" help:"The revision that they are for; the one that the run has, if this is not given."`
	actFlag
}

// runCommand patches the run, or says what the patch would change. Without --base it takes the
// revision that the run has now; if somebody patches the run in between, the engine refuses the
// base with a conflict.
func (c *patchCommand) runCommand(ctx context.Context, con *console) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	act := api.Operation{Do: "patch", Base: c.Base}
	if err := json.Unmarshal(text, &act.Ops); err != nil {
		return fmt.Errorf("%s: it is no list of operations: %w", c.File, err)
	}
	if len(act.Ops) == 0 {
		return fmt.Errorf("%s: it has no operations", c.File)
	}
	return c.withActor(ctx, con, func(e *reached) error {
		if act.Base == 0 {
			o, err := e.Overview(ctx, workflow.RunID(c.Run))
			if err != nil {
				return err
			}
			act.Base = o.Revision
		}
		if c.DryRun && !c.JSON {
			return c.showPatch(ctx, con, e, act)
		}
		err := c.doAll(ctx, con, e, deed{workflow.RunID(c.Run), act, fmt.Sprintf("has revision %d of its definition", act.Base+1)})
		return markRefusal(err)
	})
}

// markRefusal returns the error of a patch, which was readable, as one of the engine that does not
// take it. For the engine a patch that leads to no valid definition is an invalid request; for the
// exit status the command line was right, and the engine has refused.
func markRefusal(err error) error {
	if errors.Is(err, &api.Error{Code: "invalid_request"}) || errors.Is(err, &api.Error{Code: "too_large"}) {
		return &refusedError{err}
	}
	return err
}

// showPatch writes in what the definition would differ, and what the run would decide of it. The
// operations are applied here once more, to say in words what changes: the dry run of the engine
// tells decisions, not differences.
func (c *patchCommand) showPatch(ctx context.Context, con *console, e *reached, act api.Operation) error {
	act.By, act.Reason = c.By, c.Reason
	done, err := e.DryRun(ctx, workflow.RunID(c.Run), act)
	if err != nil {
		return markRefusal(err)
	}
	before, _, err := e.Definition(ctx, workflow.RunID(c.Run))
	if err != nil {
		return err
	}
	after, err := patchedBy(before, act.Ops)
	if err != nil {
		return err
	}
	changes, err := workflow.CompareDefinitions(before, after)
	if err != nil {
		return err
	}
	con.printChanges(act.Base, changes)
	for _, s := range done.Future.Steps {
		for i, d := range s.Record.Decisions {
			// That decision holds the operations, which would repeat the changes above it.
			if strings.HasPrefix(d, "patch-run ") { // the changes tell it
				s.Record.Decisions[i] = fmt.Sprintf("patch-run revision=%d", act.Base+1)
			}
		}
	}
	con.printFuture(workflow.RunID(c.Run), done.Future)
	con.printLine("%s", c.sourceText(e))
	return nil
}

// patchedBy returns a definition as operations change it that an engine takes. Its bounds are
// lifted, since the engine has already taken the patch under bounds of its own.
func patchedBy(d *workflow.Definition, texts []json.RawMessage) (*workflow.Definition, error) {
	g, err := workflow.Boundless().Compile(d)
	if err != nil {
		return nil, err
	}
	ops := make([]any, len(texts))
	for i, text := range texts {
		if ops[i], err = codec.DecodeValue(text); err != nil {
			return nil, err
		}
	}
	after, err := planning.Patched(g, ops, workflow.Boundless())
	if err != nil {
		return nil, err
	}
	return after.Definition, nil
}
