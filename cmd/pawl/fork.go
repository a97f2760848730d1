package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

var forkVerb = verb{
	name:    "fork",
	help:    "Make a new run of another one, as that was after one of its records.",
	example: []string{"pawl fork order-42 order-42b --at 12 -m trial", "pawl fork order-42 order-42b --node ship -m rerun --dry-run", `pawl fork order-42 order-42b --at 5 --result 'ship={"parcel":7}' -m shipped`},
	command: func() command { return new(forkCommand) },
}

// A forkCommand forks a run.
type forkCommand struct {
	Run      string   `arg:"" help:"The id of the run."`
	To       string   `arg:"" name:"new-run" help:"The id of the new run."`
	At       *int64   `xor:"place" placeholder:"N" help:"After this record; the last one after which the run had not ended, if this is not given."`
	Node     string   `xor:"place" placeholder:"NODE" help:"Before this node, or this token, as t5, was performed last."`
	InFlight string   `enum:"again,park" default:"again" help:"Tasks that were out: again sends them again, park leaves them to an operator."`
	Result   []string `sep:"none" placeholder:"NODE=JSON" help:"What the task that was out at NODE, or of the token, as t5, has come to; it is not sent again."`
	Again    bool     `help:"With --node: do again what has completed and cannot be kept. Without it, such a fork is refused."`
	DryRun   bool     `help:"Say what the new run would be. Nothing is changed."`
	By       string   `placeholder:"NAME" help:"Who acts; the user of this process, if this is not given."`
	Reason   string   `short:"m" required:"" placeholder:"TEXT" help:"Why, in one line. The journal keeps it."`
	Offline  bool     `help:"If no engine has the directory open, commit this now, and send nothing."`
	dirFlag
}

// runCommand forks the run, or says what a fork of it would decide. It puts its flags into an
// actFlag, so that withActor says where a fork may be made. Where a node is named, the engine
// performs that node again (Rerun); else At chooses the record.
func (c *forkCommand) runCommand(ctx context.Context, con *console) error {
	at, err := recordOf(c.At)
	if err != nil {
		return err
	}
	a := actFlag{By: c.By, Reason: c.Reason, DryRun: c.DryRun, Offline: c.Offline, dirFlag: c.dirFlag}
	return a.withActor(ctx, con, func(e *reached) error {
		f := api.Fork{To: workflow.RunID(c.To), At: at, Again: c.Again, By: a.By, Reason: c.Reason}
		if c.Node != "" {
			at, err := e.targetIn(ctx, c.Run, c.Node)
			if err != nil {
				return err
			}
			f.Node, f.Token = at.Node, at.Token
		}
		if c.InFlight == "park" {
			f.InFlight = workflow.InFlightPark
		}
		if f.Results, err = c.readResults(ctx, e); err != nil {
			return err
		}
		if c.DryRun {
			done, err := e.DryRunFork(ctx, workflow.RunID(c.Run), f)
			if err == nil && !c.JSON {
				con.printSentAgain(done.SentAgain)
			}
			return a.printTrial(con, e, f.To, done, err)
		}
		s, err := e.Fork(ctx, workflow.RunID(c.Run), f)
		if err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, s)
			return nil
		}
		con.printLine("%s is %s after record %d", c.To, c.Run, s.ForkedFrom.Record)
		con.printSentAgain(s.SentAgain)
		con.printLine("%s", a.sourceText(e))
		return nil
	})
}

// printSentAgain names the nodes whose tasks and child runs are sent again, beside the one that is to be.
func (con *console) printSentAgain(nodes []workflow.NodeID) {
	if len(nodes) == 0 {
		return
	}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = string(n)
	}
	con.printLine("sends again: %s", strings.Join(names, ", "))
}

// recordOf returns the record that --at names; 0 if it is not given.
func recordOf(at *int64) (int64, error) {
	switch {
	case at == nil:
		return 0, nil
	case *at < 1:
		return 0, fmt.Errorf("--at %d: records count from 1", *at)
	}
	return *at, nil
}

// readResults reads what tasks have come to: NODE=JSON, or tN=JSON of a token. The engine is asked
// only for words that may be tokens.
func (c *forkCommand) readResults(ctx context.Context, e *reached) (out []api.ForkResult, err error) {
	for _, text := range c.Result {
		place, output, ok := strings.Cut(text, "=")
		if !ok || place == "" {
			return nil, fmt.Errorf("--result %s: it is not NODE=JSON", text)
		}
		value, err := jsonText("--result "+place, output)
		if err != nil {
			return nil, err
		}
		at, err := e.targetIn(ctx, c.Run, place)
		if err != nil {
			return nil, err
		}
		out = append(out, api.ForkResult{Token: at.Token, Node: at.Node, Output: value})
	}
	return out, nil
}
