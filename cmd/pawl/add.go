package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

var addVerb = verb{
	name:    "add",
	help:    "Add branches to a fan-out that is open.",
	example: []string{`pawl add import-7 files '"c.csv"' -m late`, `pawl add import-7 files '{"name":"d.csv"}' '{"name":"e.csv"}' -m late --dry-run`},
	command: func() command { return new(addCommand) },
}

var closeVerb = verb{
	name:    "close",
	help:    "Let a fan-out take no more branches: its join fires with what has arrived.",
	example: []string{"pawl close import-7 files -m enough", "pawl close import-7 split --origin t5 -m enough --dry-run"},
	command: func() command { return new(closeCommand) },
}

// A groupFlag is embedded in the commands that are done to a fan-out.
type groupFlag struct {
	Run    string `arg:"" help:"The id of the run."`
	Group  string `arg:"" name:"group-or-node" help:"The fan-out: its sibling group, or the node whose transition fans out."`
	Origin string `placeholder:"THREAD" help:"The thread that fanned out, as t5, where several fan-outs of that name are open."`
}

// An addCommand adds branches.
type addCommand struct {
	groupFlag
	Item []string `arg:"" optional:"" help:"JSON: an element for each new branch. Without one, there is one branch more."`
	actFlag
}

// runCommand adds one branch after the other. A dry run tries them one after the other as
// well. Each branch is an act of its own, and so a record of its own. The dry run must try
// them on one copy, since the second branch may be refused only because of the first.
func (c *addCommand) runCommand(ctx context.Context, con *console) error {
	items := make([]json.RawMessage, max(len(c.Item), 1))
	for i, text := range c.Item {
		if text == "" {
			return fmt.Errorf("item %d: it is empty, and an element is JSON, such as '\"c.csv\"'", i+1)
		}
		var err error
		if items[i], err = jsonText(fmt.Sprintf("item %d", i+1), text); err != nil {
			return err
		}
	}
	return c.withActor(ctx, con, func(e *reached) error {
		group, origin, err := c.chooseGroup(ctx, e)
		if err != nil {
			return err
		}
		tries, deeds := make([]api.Operation, len(items)), make([]deed, len(items))
		for i, item := range items {
			act := pawl.AddBranch{Group: group, Origin: origin, Item: item}
			tries[i] = api.Operation{Act: act, By: c.By, Reason: c.Reason}
			deeds[i] = deed{workflow.RunID(c.Run), act, "has one branch more in " + group}
		}
		if !c.DryRun {
			return c.doAll(ctx, con, e, deeds...)
		}
		return con.printTrial(ctx, e, workflow.RunID(c.Run), api.Simulate{Acts: tries}, c.JSON, c.sourceText(e))
	})
}

// A closeCommand closes a fan-out.
type closeCommand struct {
	groupFlag
	actFlag
}

func (c *closeCommand) runCommand(ctx context.Context, con *console) error {
	return c.withActor(ctx, con, func(e *reached) error {
		group, origin, err := c.chooseGroup(ctx, e)
		if err != nil {
			return err
		}
		return c.doAll(ctx, con, e, deed{workflow.RunID(c.Run), pawl.CloseGroup{Group: group, Origin: origin}, fmt.Sprintf("joins what has arrived in %s, and takes no more", group)})
	})
}

// chooseGroup returns the sibling group of the fan-out, and the token that fanned out, if it is named.
func (f *groupFlag) chooseGroup(ctx context.Context, e *reached) (group string, origin workflow.TokenID, err error) {
	if f.Origin != "" {
		if origin = parseToken(f.Origin); origin == 0 {
			return "", 0, fmt.Errorf("--origin: %q is no thread, such as t5: pawl threads --all lists them", f.Origin)
		}
	}
	d, _, err := e.Definition(ctx, workflow.RunID(f.Run))
	if err == nil {
		group, err = f.findGroup(d)
	}
	return group, origin, err
}

// findGroup returns the sibling group that the word names: one of that name, else that of the node. Both are accepted because a
// sibling group is named in the definition and a node is what the picture of a run shows.
func (f *groupFlag) findGroup(d *workflow.Definition) (string, error) {
	var all, ofNode []string
	for i := range d.Transitions {
		t := &d.Transitions[i]
		if t.SiblingGroup == "" {
			continue
		}
		all = append(all, t.SiblingGroup)
		if string(t.From) == f.Group {
			ofNode = append(ofNode, t.SiblingGroup)
		}
	}
	slices.Sort(all)
	slices.Sort(ofNode)
	all, ofNode = slices.Compact(all), slices.Compact(ofNode)
	switch {
	case slices.Contains(all, f.Group):
		return f.Group, nil
	case len(ofNode) == 1:
		return ofNode[0], nil
	case len(ofNode) > 1:
		return "", fmt.Errorf("node %s fans out into %s: name one", f.Group, strings.Join(ofNode, ", "))
	case len(all) == 0:
		return "", fmt.Errorf("run %s of %s has no fan-outs", f.Run, d.Name)
	}
	return "", fmt.Errorf("run %s has no fan-out %s, neither as a group nor from a node of that name: there is %s", f.Run, f.Group, strings.Join(all, ", "))
}

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
	run, name, err := c.splitRun(c.Run, c.Name, "the name of the signal")
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

var raiseVerb = verb{
	name:    "raise",
	help:    "Raise limits of what the results of a run may report, so that it goes on.",
	example: []string{"pawl raise import-7 cost=10 -m paid"},
	command: func() command { return new(raiseCommand) },
}

// A raiseCommand raises limits.
type raiseCommand struct {
	Run    string             `arg:"" help:"The id of the run."`
	Limits map[string]float64 `arg:"" name:"name=limit" help:"The new limits, as cost=10."`
	actFlag
}

// errOfLimit says that an act was on the limits of a run, which wait for nobody.
var errOfLimit = errors.New("an act on limits")

func (c *raiseCommand) runCommand(ctx context.Context, con *console) error {
	return c.withActor(ctx, con, func(e *reached) error {
		err := c.doAll(ctx, con, e, deed{workflow.RunID(c.Run), pawl.Raise{Meta: c.Limits}, fmt.Sprintf("may report more: %s", strings.Join(sumTexts(c.Limits), ", "))})
		if errors.Is(err, pawl.ErrNotLive) {
			err = &toldError{strings.Replace(errorText(err), pawl.ErrNotLive.Error()+": ", "", 1), errors.Join(err, errOfLimit)}
		}
		return err
	})
}
