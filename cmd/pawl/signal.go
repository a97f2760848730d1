package main

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

var signalVerb = verb{
	name:    "signal",
	help:    "Give an event to whoever waits for its name in a run.",
	example: []string{`pawl signal order-42 paid --payload '{"amount":12}' -m backfill`},
	command: func() command { return new(signalCommand) },
}

// A signalCommand sends a signal.
type signalCommand struct {
	Run     string `arg:"" help:"The id of the run."`
	Name    string `arg:"" help:"The name of the event."`
	Payload string `placeholder:"JSON" help:"What it brings."`
	ID      string `placeholder:"ID" help:"Under the same id it counts once."`
	Early   bool   `help:"Also if no node waits for this name, now or later."`
	actFlag
}

func (c *signalCommand) runCommand(ctx context.Context, con *console) error {
	payload, err := jsonText("--payload", c.Payload)
	if err != nil {
		return err
	}
	return c.withActor(ctx, con, func(e *reached) error {
		act := api.Operation{Do: "signal", Name: c.Name, Payload: payload, ID: c.ID, Early: c.Early}
		return c.doAll(ctx, con, e, deed{workflow.RunID(c.Run), act, fmt.Sprintf("has the signal %s", c.Name)})
	})
}
