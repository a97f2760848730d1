package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/internal/columns"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

var replayVerb = verb{
	name:    "replay",
	help:    "Plan recorded runs again, and name the first decision that differs.",
	example: []string{"pawl replay data", "pawl replay order-42", "pawl replay --definition new.yaml data"},
	command: func() command { return new(replayCommand) },
	working: "replaying",
}

// A replayCommand plans recorded runs again. It is a test of a new version of a program, or of a definition, against what has really happened: a
// difference says where runs that are under way would go another way.
type replayCommand struct {
	Paths      []string `arg:"" name:"file-dir-or-run" help:"Files of runs, folders of them, engine directories, or ids of runs in the directory."`
	Definition string   `placeholder:"FILE" help:"Tell what this definition would have decided of the runs of workflows of its name."`
	recordedFlag
}

// A replaySummary is the last line of what the command writes. Same and Different add up to the
// runs that were planned; Others and Unreadable were not.
type replaySummary struct {
	Same       int `json:"same"` // runs
	Different  int `json:"different"`
	Others     int `json:"others,omitempty"` // of workflows of another name
	Unreadable int `json:"unreadable,omitempty"`
}

// String returns the summary for people.
func (s replaySummary) String() string {
	text := fmt.Sprintf("%d replay, %d differ", s.Same, s.Different)
	if s.Others > 0 {
		text += fmt.Sprintf(", %d of other workflows", s.Others)
	}
	return text + unreadableText(s.Unreadable)
}

// unreadableText ends a summary in which some runs are missing.
func unreadableText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d unreadable", n)
}

// runCommand plans the runs again. The answer is no if some decide otherwise. The summary is written even if some runs cannot be read; that error
// then makes the exit status, since the answer is not about all of them.
func (c *replayCommand) runCommand(ctx context.Context, con *console) error {
	var definition *workflow.Definition
	if c.Definition != "" {
		var err error
		if definition, err = readDefinition(ctx, c.Definition); err != nil {
			return err
		}
	}
	var sum replaySummary
	others := map[string]bool{}
	g, err := c.eachRecording(ctx, con, c.Paths, func(rec *replay.Recording) error {
		if definition != nil {
			if rec.Definition().Name != definition.Name {
				others[rec.Definition().Name] = true
				sum.Others++
				return nil
			}
			return c.substituteDefinition(con, &sum, rec, definition)
		}
		return c.checkRun(con, &sum, rec)
	})
	switch sum.Unreadable = g.unreadable; {
	case g.read == 0 && err != nil:
		return err
	case g.read == 0:
		return nothingAt(c.Paths...)
	}
	con.writeLine(c.JSON, sum)
	con.saySources(c.JSON, g.from)
	switch {
	case err != nil:
		return err
	case sum.Different > 0:
		return errNo
	case g.read == sum.Others: // a check of nothing must not pass
		names := strings.Join(slices.Sorted(maps.Keys(others)), ", ")
		return &toldError{fmt.Sprintf("%s defines %q, and no run is of that workflow: there are runs of %s", c.Definition, definition.Name, names), fs.ErrNotExist}
	}
	return nil
}

// checkRun plans a run again.
func (c *replayCommand) checkRun(con *console, sum *replaySummary, rec *replay.Recording) error {
	r, err := replay.Check(rec)
	if err != nil {
		return err
	}
	sum.countRun(r.Difference)
	if c.JSON {
		con.writeLine(true, r)
	} else if r.Difference != nil {
		con.writeLine(false, fmt.Sprintf("%s (%s@%d): %v", r.Run, r.Workflow, r.Version, r.Difference))
	}
	return nil
}

// substituteDefinition plays a run on another definition of its workflow. The messages are those of
// the recording, so what is compared is what the definition decides of the same results.
func (c *replayCommand) substituteDefinition(con *console, sum *replaySummary, rec *replay.Recording, d *workflow.Definition) error {
	s, err := replay.Substitute(rec, d)
	if err != nil {
		return err
	}
	sum.countRun(s.Difference)
	if c.JSON {
		con.writeLine(true, s)
	} else if s.Difference != nil {
		con.writeLine(false, fmt.Sprintf("%s (%s@%d): %v", s.Run, s.Workflow, s.Version, &s))
	}
	return nil
}

func (s *replaySummary) countRun(d *replay.Difference) {
	if d == nil {
		s.Same++
	} else {
		s.Different++
	}
}

var stepVerb = verb{
	name:    "step",
	help:    "Show a recorded run as it stood after any of its records.",
	example: []string{"pawl step order-42", "pawl step order-42.db --at 12"},
	command: func() command { return new(stepCommand) },
}

// A stepCommand shows a run record by record. At is a pointer, since 0 is a mistake and no value means something else.
type stepCommand struct {
	Run string `arg:"" help:"The id of a run in the directory, DIR:RUN for one of another directory, or the file of a run."`
	At  *int64 `placeholder:"N" help:"Show the run after this record, from 1; --at=-1 is the last. Without it, lines of input say which."`
	recordedFlag
}

const stepHelp = "enter or n: next, p: previous, a number: that record, 0: the last, /TEXT: the next record that says TEXT, q: quit"

// runCommand shows the record that --at names, or those that the input asks for. With JSON and without --at it shows all. Sources are said before the
// frames, on the side: the frames may be read for a long time.
func (c *stepCommand) runCommand(ctx context.Context, con *console) error {
	if c.At != nil && *c.At == 0 {
		return errNoRecord
	}
	var from sources
	rec, _, done, err := c.openRecording(ctx, con, c.Run, &from)
	if err != nil {
		return err
	}
	s, err := replay.NewStepper(rec)
	done() // the stepper has all records, and may be at its prompt for long
	if err != nil {
		return err
	}
	con.saySources(c.JSON, from)
	switch {
	case c.At != nil && *c.At < 0:
		return c.show(con, s, s.Len()+1+*c.At)
	case c.At != nil:
		return c.show(con, s, *c.At)
	case c.JSON:
		for seq := range s.Len() {
			if err := c.show(con, s, seq+1); err != nil {
				return err
			}
		}
		return nil
	}
	return c.followLines(ctx, con, s)
}

// errNoRecord says that a record is named which no run has.
var errNoRecord = errors.New("--at: records count from 1; --at=-1 is the last")

func (c *stepCommand) show(con *console, s *replay.Stepper, seq int64) error {
	f, err := c.frameAt(s, seq)
	if err == nil {
		con.writeLine(c.JSON, f)
	}
	return err
}

// frameAt returns the run after a record; for people with its instants in their zone. JSON keeps the instants as they were recorded.
func (c *stepCommand) frameAt(s *replay.Stepper, seq int64) (*replay.Frame, error) {
	f, err := s.At(seq)
	if err == nil && !c.JSON {
		f.At = c.zoneOf(f.At)
		if !f.Alarm.IsZero() {
			f.Alarm = c.zoneOf(f.Alarm)
		}
	}
	return f, err
}

// followLines shows the records that the lines of the input ask for, the first one to begin with. It works without a terminal too, line by line, so a
// script can step. A line that asks for nothing that there is changes no place.
func (c *stepCommand) followLines(ctx context.Context, con *console, s *replay.Stepper) error {
	fmt.Fprintln(con.Errs, strings.Join(columns.WrapLine(stepHelp, con.Width), "\n"))
	at := int64(1)
	if err := c.show(con, s, at); err != nil {
		return err
	}
	for {
		said, err := con.readLine(ctx)
		if said = strings.TrimSpace(said); said == "q" || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return ignoreInterrupt(ctx, err)
		}
		next, err := c.findStep(s, at, said)
		if err == nil {
			if err = c.show(con, s, next); err == nil {
				at = next
			}
		}
		if err != nil {
			fmt.Fprintln(con.Errs, errorText(err))
		}
	}
}

// findStep returns the record that a line asks for, from the record at. A record outside of the run is left to the stepper to refuse. A search looks
// at each later frame as it would be shown, which replays the records one by one.
func (c *stepCommand) findStep(s *replay.Stepper, at int64, said string) (int64, error) {
	text, search := strings.CutPrefix(said, "/")
	switch {
	case said == "" || said == "n":
		return at + 1, nil
	case said == "p":
		return at - 1, nil
	case said == "0":
		return s.Len(), nil
	case search:
		for seq := at + 1; seq <= s.Len(); seq++ {
			f, err := c.frameAt(s, seq)
			if err != nil {
				return 0, err
			}
			if strings.Contains(f.String(), text) {
				return seq, nil
			}
		}
		return 0, fmt.Errorf("no later record says %q", text)
	}
	seq, err := strconv.ParseInt(said, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", errUnknownStep, stepHelp)
	}
	return seq, nil
}

// errUnknownStep says that a line of the input asks for nothing.
var errUnknownStep = errors.New("what is that?")
