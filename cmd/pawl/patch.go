package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/pawl-run/pawl/api"
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
	File string `arg:"" help:"The operations, a list as of RFC 6902."`
	Base int    `placeholder:"N" help:"The revision that they are for; the one that the run has, if this is not given."`
	actFlag
}

func (c *patchCommand) runCommand(ctx context.Context, con *console) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	act := api.Operation{Do: "patch", Base: c.Base}
	if err := json.Unmarshal(text, &act.Ops); err != nil {
		return fmt.Errorf("%s: it is no list of operations: %w", c.File, err)
	}
	return c.withActor(ctx, con, func(e *reached) error {
		if act.Base == 0 {
			o, err := e.Overview(ctx, workflow.RunID(c.Run))
			if err != nil {
				return err
			}
			act.Base = o.Revision
		}
		return c.doAll(ctx, con, e, deed{workflow.RunID(c.Run), act, fmt.Sprintf("has revision %d of its definition", act.Base+1)})
	})
}
