package main

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl"
)

var signalVerb = verb{
	name:    "signal",
	help:    "Give an event to whoever waits for its name in a run, or in each of many.",
	example: []string{`pawl signal order-42 paid --payload '{"amount":12}' -m backfill`, `pawl signal released --where 'labels.batch == "7"' -m released`},
	command: func() command { return new(signalCommand) },
}

// A signalCommand sends a signal.
type signalCommand struct {
	Run     string `arg:"" help:"The id of the run. Where runs are chosen, the name of the event stands here."`
	Name    string `arg:"" optional:"" help:"The name of the event."`
	Payload string `placeholder:"JSON" help:"What it brings."`
	ID      string `placeholder:"ID" help:"Under the same id it counts once."`
	Early   bool   `help:"Also if no node waits for this name, now or later."`
	filterFlag
	bulkFlag
	actFlag
}

// runCommand sends it to the run, or to one of those that are chosen after the other.
func (c *signalCommand) runCommand(ctx context.Context, con *console) error {
	payload, err := jsonText("--payload", c.Payload)
	if err != nil {
		return err
	}
	run, name, err := c.splitRun(c.Run, c.Name)
	if err != nil {
		return err
	}
	return c.withActor(ctx, con, func(e *reached) error {
		ids, err := c.oneOrChosen(ctx, con, e, run, &c.filterFlag, &c.bulkFlag, "signal "+name+" to")
		if err != nil {
			return err
		}
		var deeds []deed
		for _, id := range ids {
			act := pawl.Signal{Name: name, Payload: payload, ID: c.ID, Early: c.Early}
			deeds = append(deeds, deed{id, act, fmt.Sprintf("has the signal %s", name)})
		}
		return c.doAll(ctx, con, e, deeds...)
	})
}
