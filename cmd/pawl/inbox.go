package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/alike"
	"github.com/pawl-run/pawl/workflow"
)

var inboxVerb = verb{
	name:    "inbox",
	help:    "List what waits for people in all runs: approvals, and tasks that have used up their attempts.",
	example: []string{"pawl inbox", "pawl inbox --node charge --code http_503 --all   # each of a group"},
	command: func() command { return new(inboxCommand) },
}

// An inboxCommand lists what waits for people.
type inboxCommand struct {
	Workflow string `placeholder:"NAME" help:"What is in runs of definitions of this name."`
	Node     string `placeholder:"NODE" help:"What waits at this node."`
	Code     string `placeholder:"CODE" help:"What has failed with this code."`
	Where    string `placeholder:"CONDITION" help:"What is in runs of which this is true, in CEL."`
	All      bool   `help:"List each thing, also what differs by numbers alone."`
	dirFlag
}

// An inboxItem is one thing that waits, as the command writes it for programs. One of its fields is set: a program reads the lines without
// knowing their order.
type inboxItem struct {
	Approval   *pawl.Approval   `json:"approval,omitempty"`
	DeadLetter *pawl.DeadLetter `json:"deadLetter,omitempty"`
	Incident   *pawl.RunSummary `json:"incident,omitempty"` // its failure says at which node a join can no longer be met
}

// rowOf returns the row of one thing that waits. Each kind asks something else of a person, which the column WAITS FOR names.
func (c *inboxCommand) rowOf(m *alike.Member, now time.Time) []string {
	if a, due := m.Approval, c.instantText(m.At, now); a != nil {
		return []string{string(a.Run), fmt.Sprintf("t%d", a.Token), string(a.Node), fmt.Sprintf("vote (%d yes, %d no)", a.Approved, a.Rejected), due, a.Message}
	}
	if l := m.DeadLetter; l != nil {
		return []string{string(l.Run), fmt.Sprintf("t%d", l.Token), string(l.Node), strings.Join(alike.ActsOf(l), " or "), "", failureText(&l.Failure)}
	}
	return []string{string(m.Run), "", m.Key.Node, "patch or fork", "", failureText(m.Incident.Failure)}
}

// runCommand lists groups if something is there more than once, and each thing otherwise; each also for programs.
func (c *inboxCommand) runCommand(ctx context.Context, con *console) error {
	return c.withEngine(ctx, con, func(e *reached) error {
		rows, now, wrong := [][]string{{"RUN", "THREAD", "NODE", "WAITS FOR", "DUE", "WHAT"}}, con.Now(), troubled{}
		groups, asks := alike.Groups{}, map[alike.Key]string{}
		for m, err := range alike.Members(ctx, e, pawl.DeadLetterFilter{Workflow: c.Workflow, Node: workflow.NodeID(c.Node), Code: c.Code, Where: c.Where}) {
			if err == nil && m.Trouble != "" {
				err = wrong.note(ctx, con, m.Run, &toldError{m.Trouble, pawl.ErrCorrupt})
			}
			switch item := (inboxItem{m.Approval, m.DeadLetter, m.Incident}); {
			case err != nil:
				return err
			case item == inboxItem{}:
			case c.JSON:
				con.writeLine(true, item)
			default:
				rows = append(rows, c.rowOf(&m, now))
				groups.Add(m.Key, m.Message, m.At)
				asks[m.Key], _, _ = strings.Cut(rows[groups.N][3], " (")
			}
		}
		switch {
		case c.JSON:
			return wrong.saysNo()
		case groups.AreAlike() && !c.All:
			c.printGroups(con, &groups, asks, now)
		default:
			if groups.N > 0 {
				con.printTable(rows)
			}
			con.printLine("%s for people", pluralText(groups.N, "thing"))
		}
		con.printSource(e.source)
		return wrong.saysNo()
	})
}

// printGroups prints a row for each group. asks has what each waits for.
func (c *inboxCommand) printGroups(con *console, groups *alike.Groups, asks map[alike.Key]string, now time.Time) {
	rows := [][]string{{"COUNT", "WORKFLOW", "NODE", "WAITS FOR", "OLDEST", "NEWEST", "DUE", "WHAT"}}
	for _, g := range groups.Rows() {
		row := []string{countText(g.N), g.Workflow, g.Node, asks[g.Key], "", "", "", strings.Trim(g.Code+", "+g.Message, ", ")}
		if g.Code == "" {
			row[6] = c.instantText(g.From, now)
		} else if !g.From.IsZero() {
			row[4], row[5] = spanText(now.Sub(g.From))+" ago", spanText(now.Sub(g.To))+" ago"
		}
		rows = append(rows, row)
	}
	con.printTable(rows)
	con.printLine("%s for people in %s; --all lists each", pluralText(groups.N, "thing"), pluralText(len(rows)-1, "group"))
}

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
	Target   string `arg:"" optional:"" name:"thread-or-node" help:"The task: its node where one fits, or its thread, as t5; all that are parked in the run, if this is not given."`
	Workflow string `placeholder:"NAME" help:"What is parked in runs of definitions of this name."`
	Node     string `placeholder:"NODE" help:"What is parked at this node."`
	Task     string `placeholder:"TYPE" help:"Parked tasks of this type."`
	Code     string `placeholder:"CODE" help:"What has failed with this code."`
	Where    string `placeholder:"CONDITION" help:"What is parked in runs of which this is true, in CEL."`
	bulkFlag
}

// chooseTasks returns what is done to the task that is named, or to those that are chosen. Tasks that are chosen are acted on by their
// tokens, not by their nodes: several may be parked at one node, and one that is parked later, after the question was answered, is not
// touched. Without any choice it refuses, as the inbox of all runs is too much to mean by saying nothing.
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
			return nil, fmt.Errorf("%w: name the others", &toldError{l.Trouble, pawl.ErrCorrupt})
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

// runCommand retries the task that is named, or those that are parked in a named run or, after a question, those that are chosen in all
// runs. "patched" is what an empty Input of the act stands for: the input is evaluated anew if the definition was patched since, else it is as it was.
func (c *retryCommand) runCommand(ctx context.Context, con *console) error {
	var act pawl.Retry
	if c.Input != "patched" {
		act.Input = workflow.RetryInput(c.Input)
	}
	return c.withActor(ctx, con, func(e *reached) error {
		deeds, err := c.chooseTasks(ctx, e, act, "is tried again")
		if err == nil && c.Run == "" {
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

// runCommand completes the task that is named, or those that are parked in a named run or, after a question, each of those that are chosen
// in all runs; all with the same output.
func (c *skipCommand) runCommand(ctx context.Context, con *console) error {
	output, err := jsonText("--output", c.Output)
	if err != nil {
		return err
	}
	return c.withActor(ctx, con, func(e *reached) error {
		deeds, err := c.chooseTasks(ctx, e, pawl.Skip{Output: output}, "is skipped")
		if err == nil && c.Run == "" {
			err = c.confirmChange(ctx, con, &c.bulkFlag, "skip "+pluralText(len(deeds), "parked task"))
		}
		if err != nil {
			return err
		}
		return c.doAll(ctx, con, e, deeds...)
	})
}

var voteVerb = verb{
	name:    "vote",
	help:    "Vote on an approval.",
	example: []string{"pawl vote order-42 approve yes -m checked", "pawl vote order-42 approve no -m late", "pawl vote order-42 approve -m trial --dry-run   # what each answer would do"},
	command: func() command { return new(voteCommand) },
}

// A voteCommand votes.
type voteCommand struct {
	Run     string `arg:"" help:"The id of the run."`
	Target  string `arg:"" name:"thread-or-node" help:"The approval: its node where one waits, or its thread, as t5."`
	Answer  string `arg:"" optional:"" enum:"yes,no," default:"" help:"yes or no; with --dry-run both are tried, if this is not given."`
	Comment string `placeholder:"TEXT" help:"What the run is told beside the answer; the reason, if this is not given."`
	Data    string `placeholder:"JSON" help:"A value that the run is given."`
	ID      string `placeholder:"ID" help:"Under the same id it counts once."`
	actFlag
}

// runCommand votes. The reason is the comment of the ballot too, unless there is one.
func (c *voteCommand) runCommand(ctx context.Context, con *console) error {
	data, err := jsonText("--data", c.Data)
	if err != nil {
		return err
	}
	c.Comment = cmp.Or(c.Comment, c.Reason)
	if c.Answer == "" && !c.DryRun {
		return errNoAnswer
	}
	return c.withActor(ctx, con, func(e *reached) error {
		t, err := e.targetIn(ctx, c.Run, c.Target)
		if err != nil {
			return err
		}
		vote := pawl.Vote{Target: t, ID: c.ID, Approved: c.Answer == "yes", Comment: c.Comment, Data: data}
		if c.Answer == "" {
			return c.tryBoth(ctx, con, e, vote)
		}
		done := "has the vote " + cmp.Or(c.ID, fmt.Sprintf("of %s: %s", c.By, c.Answer)) // another one may have come before under the id
		return c.doAll(ctx, con, e, deed{workflow.RunID(c.Run), vote, done})
	})
}

// errNoAnswer asks for the answer.
var errNoAnswer = errors.New("say yes or no; with --dry-run and neither, both are tried")

// answerText returns an answer as it is typed.
func answerText(approved bool) string {
	if approved {
		return "yes"
	}
	return "no"
}

// tryBoth says what each answer would do. Each answer is tried on a copy of its own, so the second does not come on top of the first.
func (c *voteCommand) tryBoth(ctx context.Context, con *console, e *reached, vote pawl.Vote) error {
	for _, vote.Approved = range []bool{true, false} {
		if !c.JSON {
			con.printLine("%s:", answerText(vote.Approved))
		}
		if err := c.doDeed(ctx, con, e, deed{workflow.RunID(c.Run), vote, ""}, &deedTable{}); err != nil {
			return err
		}
	}
	if !c.JSON {
		con.printSource(c.sourceText(e))
	}
	return nil
}
