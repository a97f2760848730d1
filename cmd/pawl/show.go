package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/columns"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

var showVerb = verb{
	name:    "show",
	help:    "Show one run: what is done, what it waits for, how it ended.",
	example: []string{"pawl show order-42"},
	command: func() command { return new(showCommand) },
}

// A showCommand shows a run.
type showCommand struct {
	Run string `arg:"" help:"The id of the run, or DIR:RUN or FILE:RUN."`
	dirFlag
}

// runCommand shows the run as it is now.
func (c *showCommand) runCommand(ctx context.Context, con *console) error {
	c.splitName(con, &c.Run)
	return c.withEngine(ctx, con, func(e *reached) error {
		id := workflow.RunID(c.Run)
		o, err := e.Overview(ctx, id)
		if err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, o)
			return nil
		}
		s, err := e.Summary(ctx, id)
		if err != nil {
			return err
		}
		c.printRun(con, &o, &s)
		if !e.fixed { // a file of runs has no blobs that can be read
			c.printArtifacts(con, &s)
		}
		if err := c.printWaits(ctx, con, e, &o); err != nil {
			return err
		}
		if !o.Status.Final() || o.Failure != nil {
			con.printWhole("hint: pawl why %s%s", c.Run, c.dirText())
		}
		con.printSource(e.source)
		return nil
	})
}

// printRun writes what is known of the whole run.
func (c *showCommand) printRun(con *console, o *pawl.Overview, s *pawl.RunSummary) {
	now := con.Now()
	line := fmt.Sprintf("%s  %s@%d revision %d  %s · started %s", c.Run, s.Workflow, max(s.Version, 1), o.Revision, o.Status, c.instantText(o.StartedAt, now))
	if o.Status.Final() {
		line += " · ended " + c.instantText(o.EndedAt, now)
	}
	con.printProse("%s · record %d", line, o.Seq)
	for _, more := range [][2]string{{"tenant", s.Tenant}, {"parent", string(s.Parent)}, {"forked from", string(s.ForkedFrom.Run)}} {
		if more[1] != "" {
			con.printLine("  %s %s", more[0], more[1])
		}
	}
	var done []string
	for _, n := range o.Nodes {
		if k := n.Tokens[workflow.Completed]; k > 0 {
			done = append(done, fmt.Sprintf("%s ×%s", n.Node, countText(k)))
		}
	}
	if done != nil {
		con.printItems("  done", done)
	}
	for _, more := range []struct {
		text string
		sums map[string]float64
	}{{"  reported", o.Meta}, {"  reported below", o.MetaBelow}} {
		if sums := sumTexts(more.sums); sums != nil {
			con.printItems(more.text, sums)
		}
	}
	if limits := limitTexts(o); limits != nil {
		con.printItems("  limits", limits)
	}
	if o.Failure != nil {
		con.printLine("  %s  %s", o.Status, failureText(o.Failure))
	}
	if o.Output != nil {
		con.printLine("  output %s", valueText(o.Output))
	}
}

// printArtifacts writes the artifacts of a run, the first of many, with the command that reads each.
func (c *showCommand) printArtifacts(con *console, s *pawl.RunSummary) {
	list := s.Outcome.Artifacts
	for _, a := range list[:min(len(list), maxShown)] {
		con.printWhole("  artifact %s  %s  pawl blob %s%s", a.Name, bytesText(a.Size), a.Hash, c.dirText())
	}
	if more := len(list) - maxShown; more > 0 {
		con.printWhole("  and %s: pawl wait %s%s --json", pluralText(more, "more artifact"), s.Run, c.dirText())
	}
}

// limitTexts says how far a run has used up what its results may report.
func limitTexts(o *pawl.Overview) (texts []string) {
	total := amount.FromFloats(o.Meta).Plus(amount.FromFloats(o.MetaBelow)).Floats()
	for _, name := range slices.Sorted(maps.Keys(o.MetaLimits)) {
		text := fmt.Sprintf("%s %s of %s", name, numberText(total[name]), numberText(o.MetaLimits[name]))
		if held := o.MetaReserved[name]; held > 0 {
			text += ", " + numberText(held) + " set aside"
		}
		texts = append(texts, text)
	}
	return texts
}

// maxShown is how many live tokens are shown one by one. If there are more, the nodes are shown at which they are.
const maxShown = 10

// printWaits writes the tokens that live, or how many of them there are at each node.
func (c *showCommand) printWaits(ctx context.Context, con *console, e *reached, o *pawl.Overview) error {
	var lines []string
	for t, err := range e.Tokens(ctx, o.Run, pawl.TokenFilter{Status: liveStatuses()}) {
		if err != nil {
			return err
		}
		if len(lines) == maxShown {
			for _, place := range placeTexts(o.Nodes) {
				con.printLine("  %s", place)
			}
			con.printWhole("  each of them: pawl threads %s%s", c.Run, c.dirText())
			return nil
		}
		lines = append(lines, strings.Join(c.tokenCells(&t, con.Now()), "  "))
	}
	for _, line := range lines {
		con.printLine("  %s", line)
	}
	return nil
}

var dataVerb = verb{
	name:    "data",
	help:    "Write the values of a run as JSON: its input, its state and, if it has completed, its output.",
	example: []string{"pawl data order-42"},
	command: func() command { return new(dataCommand) },
}

// A dataCommand writes values.
type dataCommand struct {
	Run string `arg:"" help:"The id of the run, or DIR:RUN or FILE:RUN."`
	dirFlag
}

// runCommand writes the values as of the last record.
func (c *dataCommand) runCommand(ctx context.Context, con *console) error {
	c.splitName(con, &c.Run)
	return c.withEngine(ctx, con, func(e *reached) error {
		d, err := e.Data(ctx, workflow.RunID(c.Run))
		if err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, d)
			return nil
		}
		if err := con.writeValue(d); err != nil {
			return err
		}
		con.sayFiles(e, false)
		return nil
	})
}

var diffVerb = verb{
	name:    "diff",
	help:    "Tell where two recorded runs part, and the first value that differs.",
	example: []string{"pawl diff order-41 order-42", "pawl diff order-41.db backup:order-41"},
	command: func() command { return new(diffCommand) },
	working: "comparing",
}

// A diffCommand compares two runs.
type diffCommand struct {
	A string `arg:"" help:"The id of a run in the directory, DIR:RUN for one of another directory, or the file of a run."`
	B string `arg:"" help:"The other run."`
	recordedFlag
}

// runCommand compares; the answer is no if the runs part or were given different values.
func (c *diffCommand) runCommand(ctx context.Context, con *console) error {
	var from sources
	a, _, closeA, err := c.openRecording(ctx, con, c.A, &from)
	if err != nil {
		return err
	}
	defer closeA()
	b, _, closeB, err := c.openRecording(ctx, con, c.B, &from)
	if err != nil {
		return err
	}
	defer closeB()
	found, err := replay.Diff(a, b)
	if err != nil {
		return err
	}
	con.writeLine(c.JSON, found)
	con.saySources(c.JSON, from)
	if found.Differs() {
		return errNo
	}
	return nil
}

var journalVerb = verb{
	name:    "journal",
	help:    "List the records of a run: each message, and what was decided.",
	example: []string{"pawl journal order-42 --after 12"},
	command: func() command { return new(journalCommand) },
}

// A journalCommand lists records.
type journalCommand struct {
	followFlag
}

// runCommand lists the records, and ends without an error if the user interrupts it.
func (c *journalCommand) runCommand(ctx context.Context, con *console) error {
	c.splitName(con, &c.Run)
	return c.withEngine(ctx, con, func(e *reached) error {
		o, err := c.findPosition(e)
		if err != nil {
			return err
		}
		for r, err := range e.Journal(ctx, workflow.RunID(c.Run), o) {
			if err != nil {
				return ignoreInterrupt(ctx, err)
			}
			if c.JSON {
				con.writeLine(true, r)
				continue
			}
			con.printLine("record %d  %s  %s", r.Seq, c.zoneOf(r.At).Format("2006-01-02 15:04:05.000"), r.Message)
			if r.By != "" || r.Reason != "" {
				con.printLine("  by %s: %s", r.By, r.Reason)
			}
			for _, d := range r.Decisions {
				con.printLine("  %s", d)
			}
		}
		con.sayFiles(e, c.JSON)
		return nil
	})
}

var eventsVerb = verb{
	name:    "events",
	help:    "List what has happened in a run, and with -f what happens.",
	example: []string{"pawl events -f import-7 --type 'task.*,fan_*'"},
	command: func() command { return new(eventsCommand) },
}

// A followFlag is embedded in the commands that list what a run leaves behind.
type followFlag struct {
	Run    string `arg:"" help:"The id of the run, or DIR:RUN or FILE:RUN."`
	Follow bool   `short:"f" help:"Go on with what comes, until the run has ended."`
	After  int64  `placeholder:"N" help:"Only those after number N."`
	dirFlag
}

// An eventsCommand lists events.
type eventsCommand struct {
	Type []string `placeholder:"PATTERN" help:"Events of these types; * stands for anything."`
	followFlag
}

// runCommand lists the events, and ends without an error if the user interrupts it.
func (c *eventsCommand) runCommand(ctx context.Context, con *console) error {
	for _, pattern := range c.Type {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("--type: %w", err)
		}
	}
	c.splitName(con, &c.Run)
	return c.withEngine(ctx, con, func(e *reached) error {
		o, err := c.findPosition(e)
		if err != nil {
			return err
		}
		for v, err := range e.Events(ctx, workflow.RunID(c.Run), o) {
			if err != nil {
				return ignoreInterrupt(ctx, err)
			}
			if !c.fitsType(string(v.Type)) {
				continue
			}
			if c.JSON {
				con.writeLine(true, v)
			} else {
				c.printEvent(con, &v)
			}
		}
		con.sayFiles(e, c.JSON)
		return nil
	})
}

// findPosition says where the list begins. Files do not change while they are listed.
func (f *followFlag) findPosition(e *reached) (pawl.EventsOptions, error) {
	if f.Follow && !e.live {
		return pawl.EventsOptions{}, &toldError{fmt.Sprintf("no engine with a socket has %s open, so nothing comes: list it without --follow", f.Dir), api.ErrNoEngine}
	}
	return pawl.EventsOptions{After: f.After, Follow: f.Follow}, nil
}

// ignoreInterrupt returns nil in place of an error that only says that the user has had enough.
func ignoreInterrupt(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return nil
	}
	return err
}

// sayFiles says on the side whence a list came.
func (con *console) sayFiles(e *reached, asJSON bool) {
	if !asJSON {
		con.printSource(e.source)
	}
}

func (c *eventsCommand) fitsType(name string) bool {
	return len(c.Type) == 0 || slices.ContainsFunc(c.Type, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // it was checked
		return ok
	})
}

// typeWidth is how many columns the longest type of an event takes.
const typeWidth = len(workflow.EventLimitsRaised)

// dataIndent is how far in the particulars of an event begin that have no room behind it.
const dataIndent = 6

// printEvent writes an event as a line. Where the console has no room for its particulars, they have lines of their own below.
func (c *eventsCommand) printEvent(con *console, v *history.Event) {
	text := fmt.Sprintf("%5d %s %-*s %-12s", v.Seq, c.zoneOf(v.At).Format("15:04:05.000"), typeWidth, v.Type, v.Node)
	if v.Token != 0 {
		text += fmt.Sprintf(" t%d", v.Token)
	}
	if v.Group != 0 {
		text += fmt.Sprintf(" g%d", v.Group)
	}
	if len(v.Data) == 0 {
		con.printLine("%s", text)
		return
	}
	data := valueText(v.Data)
	if whole := text + strings.Repeat(" ", columns.Gap) + data; con.Width == 0 || diagram.CountColumns(printableText(whole)) <= con.Width {
		con.printLine("%s", whole)
		return
	}
	con.printLine("%s", text)
	con.printBeside(strings.Repeat(" ", dataIndent-columns.Gap), data)
}

var whyVerb = verb{
	name:    "why",
	help:    "Say what a run or a schedule waits for, or why it failed.",
	example: []string{"pawl why order-42", "pawl why data:order-42"},
	command: func() command { return new(whyCommand) },
	working: "explaining",
}

// A whyCommand explains where a run stands.
type whyCommand struct {
	Run string `arg:"" help:"The id of a run or a schedule in the directory, DIR:RUN for a run of another directory, or the file of a run."`
	dirFlag
}

// runCommand explains the run after its last record. A recording is looked for first: a file, or DIR:RUN. If the directory is
// locked its engine is asked; if nothing is there, the word is the id of a run in --dir or, without such a run, of a schedule.
func (c *whyCommand) runCommand(ctx context.Context, con *console) error {
	x, err := c.explainRecording(ctx, con)
	dir, id, of := replay.SplitName(c.Run)
	switch {
	case of && errors.Is(err, pawl.ErrLocked):
		c.Dir, c.Run = dir, string(id)
	case of || !errors.Is(err, fs.ErrNotExist):
		if err == nil {
			if !of {
				dir = c.Run
			}
			c.writeExplanation(con, x, false)
			con.saySources(c.JSON, sources{sourceOf(dir, c.zoneOf(con.Now()))})
		}
		return err
	}
	return c.withEngine(ctx, con, func(e *reached) error {
		x, err := e.Why(ctx, workflow.RunID(c.Run))
		if errors.Is(err, pawl.ErrRunNotFound) {
			if st, not := e.Schedule(ctx, c.Run); not == nil {
				con.explainSchedule(&st, c.JSON)
				con.sayFiles(e, c.JSON)
				return nil
			}
		}
		if err != nil {
			return err
		}
		c.writeExplanation(con, &x, e.live)
		con.sayFiles(e, c.JSON)
		return nil
	})
}

// writeExplanation writes an explanation; for people with its instants in their zone, and with what a task needs first if
// no engine is live. JSON keeps the instants as the engine gave them.
func (c *whyCommand) writeExplanation(con *console, x *replay.Explanation, live bool) {
	if !c.JSON {
		x.At = c.zoneOf(x.At)
		for i := range x.Waits {
			w := &x.Waits[i]
			if !w.Until.IsZero() {
				w.Until = c.zoneOf(w.Until)
			}
			w.For = strings.Replace(w.For, w.Since.UTC().Format(time.RFC3339), c.zoneOf(w.Since).Format("2006-01-02 15:04:05.000"), 1)
			// It stands behind "waits for".
			w.For = waitingRun.Replace(w.For)
			if w.Status == workflow.Dispatched && !live {
				w.For += ": start its program, as no engine has the directory open"
				w.Try = nil // to skip it would complete it without its result
			}
		}
	}
	con.writeLine(c.JSON, x)
}

// waitingRun words why a run that does not go on lets a thread wait.
var waitingRun = strings.NewReplacer("the run is paused", "the run, which is paused", "the run is suspended: to ", "the run, which is suspended, to ", "the run is suspended: ", "the run, which is suspended, then for ")

// explainRecording explains a run that is named as a recording.
func (c *whyCommand) explainRecording(ctx context.Context, con *console) (*replay.Explanation, error) {
	if err := checkNamed(c.Run); err != nil {
		return nil, err
	}
	keys, err := c.codec()
	if err != nil {
		return nil, err
	}
	rec, find, done, err := con.openWithBelow(ctx, c.Run, keys)
	if err != nil {
		return nil, err
	}
	defer done()
	x, err := replay.Why(rec)
	if err == nil {
		err = replay.ExplainBelow(&x, find)
	}
	return &x, err
}
