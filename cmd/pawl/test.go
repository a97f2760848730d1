package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-run/pawl/pawltest"
)

var testVerb = verb{
	name:    "test",
	help:    "Play scenario files in virtual time.",
	example: []string{"pawl test --crash scenarios"},
	command: func() command { return new(testCommand) },
	working: "playing scenarios",
}

// A testCommand plays scenario files.
type testCommand struct {
	Paths []string `arg:"" name:"file-or-folder" help:"Scenario files, or folders that hold some."`
	jsonFlag
	Run     string        `placeholder:"REGEXP" help:"Play only scenarios whose name matches."`
	Crash   bool          `help:"Play each scenario again with a crash after every single commit."`
	Verbose bool          `help:"Show all decisions of a scenario that fails, not only the last 40."`
	Limit   time.Duration `placeholder:"DURATION" help:"End a scenario that takes longer with all its plays, by a real clock. Without it 10m."`
	Shuffle *int64        `placeholder:"SEED" help:"Permute the results that come at the same virtual instant."`
}

// A summary is the last line of what the command writes.
type summary struct {
	Passed     int `json:"passed"`
	Failed     int `json:"failed"`
	Unreadable int `json:"unreadable,omitempty"` // files
}

// String returns the summary for people.
func (s summary) String() string {
	text := fmt.Sprintf("%d passed, %d failed", s.Passed, s.Failed)
	if s.Unreadable > 0 {
		text += fmt.Sprintf(", %d unreadable", s.Unreadable)
	}
	return text
}

// errFiles says that files, which are listed already, cannot be read.
var errFiles = errors.New("some files cannot be read")

// runCommand plays the scenarios of the files that can be read, and lists the other files. It ends
// the process. pawltest needs a testing.T, which only package testing makes: so the scenarios are
// played inside of one, and with its end the process ends, with the status that the function
// returns.
func (c *testCommand) runCommand(_ context.Context, con *console) error {
	options := pawltest.Options{Crash: c.Crash, Shuffle: c.Shuffle, Limit: c.Limit}
	if c.Run != "" {
		var err error
		if options.Run, err = regexp.Compile(c.Run); err != nil {
			return fmt.Errorf("--run: %w", err)
		}
	}
	var scenarios []*pawltest.Scenario
	var unreadable []error
	for _, path := range c.Paths {
		some, err := pawltest.Load(path)
		scenarios, unreadable = append(scenarios, some...), append(unreadable, fileErrors(err)...)
	}
	inTest(func(t *testing.T) int {
		sum := c.playAll(t, scenarios, options, con)
		sum.Unreadable = len(unreadable)
		con.writeLine(c.JSON, sum)
		for _, err := range unreadable {
			fmt.Fprintln(con.Errs, err)
		}
		switch {
		case sum.Unreadable > 0:
			return con.finish(errFiles)
		case sum.Failed > 0:
			return con.finish(errNo)
		}
		return exitDone
	})
	return nil
}

// fileErrors returns the errors that err joins, or err alone. Load joins one error for each file;
// each gets a line of its own.
func fileErrors(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func (c *testCommand) playAll(t *testing.T, scenarios []*pawltest.Scenario, o pawltest.Options, con *console) summary {
	var sum summary
	for _, s := range scenarios {
		if o.Run != nil && !o.Run.MatchString(s.Name) {
			continue
		}
		r := pawltest.Play(t, s, o)
		if r.Passed {
			sum.Passed++
		} else {
			sum.Failed++
		}
		if c.JSON {
			con.writeLine(true, r)
		} else {
			c.writeReport(con.Out, r)
		}
	}
	return sum
}

func (c *testCommand) writeReport(out io.Writer, r pawltest.Report) {
	word := "ok  "
	if !r.Passed {
		word = "FAIL"
	}
	plays := ""
	if r.Plays > 1 {
		plays = fmt.Sprintf(" (%d plays)", r.Plays)
	}
	fmt.Fprintf(out, "%s %s:%d: %s%s\n", word, r.File, r.Line, r.Name, plays)
	text := r.String()
	if c.Verbose {
		text = r.Verbose()
	}
	if text = strings.TrimSuffix(text, "\n"); text != "" {
		fmt.Fprintf(out, "    %s\n", strings.ReplaceAll(text, "\n", "\n    "))
	}
}
