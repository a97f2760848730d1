package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

var lsVerb = verb{
	name:    "ls",
	help:    "List runs: where they are, since when, and what comes next.",
	example: []string{"pawl ls --status running,failed", `pawl ls --where 'status == "failed" && labels.customer == "7"'`, "pawl ls --workflow order --limit 0 --json", "pawl ls --status running --watch"},
	command: func() command { return new(lsCommand) },
}

// A filterFlag is embedded in the commands that are about some of the runs.
type filterFlag struct {
	Workflow string   `placeholder:"NAME" help:"Runs of definitions of this name."`
	Status   []string `placeholder:"STATUS" help:"Runs in any of these: running, paused, suspended, completed, failed, timed_out, cancelled."`
	Tenant   string   `placeholder:"NAME" help:"Runs on whose behalf."`
	Prefix   string   `placeholder:"TEXT" help:"Runs whose ids begin so."`
	Roots    bool     `help:"Runs without a parent."`
	Where    string   `placeholder:"CONDITION" help:"A condition in CEL on what ls --json tells of a run, but for at."`

	Label map[string]string `mapsep:"," placeholder:"KEY=VALUE" help:"Runs with this label; of several, all."`
}

// isEmpty reports whether all runs fit. A flag that is added to filterFlag must be added here: else
// a command that changes what is chosen by it alone would say that nothing is chosen, or act on
// named runs and ignore it.
func (f *filterFlag) isEmpty() bool {
	return f.Workflow == "" && len(f.Status) == 0 && f.Tenant == "" && f.Prefix == "" && !f.Roots && f.Where == "" && len(f.Label) == 0
}

// runFilter returns the filter of the engine that the flags stand for. It only reads names of
// statuses; the condition of Where is checked by the engine.
func (f *filterFlag) runFilter() (pawl.RunFilter, error) {
	out := pawl.RunFilter{Workflow: f.Workflow, Tenant: f.Tenant, Prefix: f.Prefix, Roots: f.Roots, Where: f.Where, Labels: f.Label}
	for _, text := range f.Status {
		s, err := workflow.ParseRunStatus(text)
		if err != nil {
			return out, fmt.Errorf("--status: %w", err)
		}
		out.Status = append(out.Status, s)
	}
	return out, nil
}

// An lsCommand lists runs.
type lsCommand struct {
	filterFlag
	Limit  int  `short:"n" default:"50" placeholder:"N" help:"At most so many; 0 lists all."`
	Oldest bool `help:"Those that were started first come first."`
	Watch  bool `short:"w" help:"List them again whenever one has changed, once a second at most, until interrupted; with --json, write each that has changed."`
	dirFlag
}

// runCommand lists the runs, the newest first.
func (c *lsCommand) runCommand(ctx context.Context, con *console) error {
	f, err := c.runFilter()
	if err != nil {
		return err
	}
	if c.Limit < 0 {
		return fmt.Errorf("--limit: %d is less than 0, which lists all", c.Limit)
	}
	f.Newest, f.Limit = !c.Oldest, c.Limit
	return c.withEngine(ctx, con, func(e *reached) error {
		if c.Watch {
			return c.watchRuns(ctx, con, e, f)
		}
		return c.listRuns(ctx, con, e, f)
	})
}

// listRuns writes the runs as they are now.
func (c *lsCommand) listRuns(ctx context.Context, con *console, e *reached, f pawl.RunFilter) error {
	rows := [][]string{{"RUN", "WORKFLOW", "STATUS", "AT", "SINCE", "NEXT"}}
	now, wrong := con.Now(), troubled{}
	for run, err := range e.Runs(ctx, f) {
		if err != nil {
			return err
		}
		places, err := placesOf(ctx, e, &run)
		if errors.Is(err, pawl.ErrRunNotFound) { // it was purged meanwhile
			continue
		}
		if err := wrong.note(ctx, con, run.Run, err); err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, listedRun{run, places})
			continue
		}
		if run.Trouble != "" {
			rows = append(rows, []string{string(run.Run), run.Workflow, "damaged", run.Trouble, "", ""})
			continue
		}
		since := run.StartedAt
		if run.Status.Final() {
			since = run.EndedAt
		}
		definition := fmt.Sprintf("%s@%d", run.Workflow, max(run.Version, 1))
		rows = append(rows, []string{string(run.Run), definition, run.Status.String(), placeText(&run, places), spanText(now.Sub(since)), nextText(run.Alarm, now)})
	}
	if c.JSON {
		return wrong.saysNo()
	}
	if len(rows) > 1 {
		con.printTable(rows)
	}
	return errors.Join(con.printTotal(ctx, e, len(rows)-1), wrong.saysNo())
}

// printTotal says how many runs there are, besides those that are listed, and who has said so.
func (con *console) printTotal(ctx context.Context, e *reached, listed int) error {
	info, err := e.Engine(ctx)
	if err != nil {
		return err
	}
	total := 0
	for _, c := range info.Counts {
		total += int(c.Runs)
	}
	con.printLine("%s of %s · %s", countText(listed), pluralText(total, "run"), e.source)
	return nil
}

// A listedRun is a line of JSON.
type listedRun struct {
	pawl.RunSummary
	At []pawl.NodeOverview `json:"at,omitempty"` // the nodes where tokens live, with all that have been there
}

// placesOf returns the nodes where tokens of a run live. It is one question for each run that goes on, besides the list:
// --limit bounds them.
func placesOf(ctx context.Context, e *reached, run *pawl.RunSummary) ([]pawl.NodeOverview, error) {
	if run.Trouble != "" {
		return nil, fmt.Errorf("%w: %s", pawl.ErrCorrupt, run.Trouble)
	}
	if run.Status.Final() {
		return nil, nil
	}
	o, err := e.Overview(ctx, run.Run)
	return slices.DeleteFunc(o.Nodes, func(n pawl.NodeOverview) bool { return tokensText(n.Tokens) == "" }), err
}

// placeText says at which nodes a run is or, if it has not completed, why it has ended.
func placeText(run *pawl.RunSummary, places []pawl.NodeOverview) string {
	if run.Failure != nil {
		return failureText(run.Failure)
	}
	return strings.Join(placeTexts(places), ", ")
}

// placeTexts says of each node where tokens live what they do there. "split: 9,812 done · 3 task out"
// is one place; a node where nothing lives is none.
func placeTexts(nodes []pawl.NodeOverview) (places []string) {
	for _, n := range nodes {
		if text := tokensText(n.Tokens); text != "" {
			places = append(places, string(n.Node)+": "+text)
		}
	}
	return places
}

// tokensText counts the live tokens at a node; "" if there is none. Of a single one no number is told.
func tokensText(tokens map[workflow.TokenStatus]int) string {
	var live []string
	all := 0
	// The statuses below Completed are those of tokens that live.
	for s := range workflow.Completed {
		all += tokens[s]
	}
	for s := range workflow.Completed {
		switch n := tokens[s]; {
		case n == 1 && all == 1:
			live = append(live, statusText(s))
		case n > 0:
			live = append(live, countText(n)+" "+statusText(s))
		}
	}
	if done := tokens[workflow.Completed]; done > 0 && live != nil {
		live = append([]string{countText(done) + " done"}, live...)
	}
	return strings.Join(live, " · ")
}

// statusText names what a token does, in few words.
func statusText(s workflow.TokenStatus) string {
	if s == workflow.Dispatched {
		return "task out"
	}
	if s == workflow.WaitingForOperator {
		return "parked"
	}
	return strings.ReplaceAll(strings.TrimPrefix(s.String(), "waiting_"), "_", " ")
}

// failureText returns why a run has ended.
func failureText(f *workflow.Failure) string {
	text := f.Code
	if f.Node != "" {
		text = string(f.Node) + ": " + text
	}
	if f.Attempts > 1 {
		text += fmt.Sprintf(" after %d attempts", f.Attempts)
	}
	if f.Message != "" {
		text += ", " + f.Message
	}
	if f.Cause != nil {
		text += ", because " + failureText(f.Cause)
	}
	return text
}

// dueText says until when something lasts; "" if for ever.
func (f dirFlag) dueText(due, now time.Time) string {
	if due.IsZero() {
		return ""
	}
	return "until " + f.instantText(due, now)
}
