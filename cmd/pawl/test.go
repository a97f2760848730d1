package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-run/pawl/pawltest"
)

// A testCommand plays scenario files.
type testCommand struct {
	Paths   []string `arg:"" name:"file-or-folder" help:"Scenario files, or folders that hold some."`
	JSON    bool     `name:"json" help:"Write one JSON object per scenario, and one with the sums."`
	Run     string   `placeholder:"REGEXP" help:"Play only scenarios whose name matches."`
	Crash   bool     `help:"Play each scenario again with a crash after every single commit."`
	Shuffle *int64   `placeholder:"SEED" help:"Permute the results that come at the same virtual instant."`
}

// A summary is the last line of what the command writes.
type summary struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`
}

// do plays the scenarios and returns the exit status. Nothing is played if a
// file cannot be read.
func (c *testCommand) do(out, errs io.Writer) int {
	options := pawltest.Options{Crash: c.Crash, Shuffle: c.Shuffle}
	if c.Run != "" {
		var err error
		if options.Run, err = regexp.Compile(c.Run); err != nil {
			fmt.Fprintln(errs, "pawl: --run:", err)
			return exitUnusable
		}
	}
	var scenarios []*pawltest.Scenario
	readable := true
	for _, path := range c.Paths {
		some, err := pawltest.Load(path)
		if err != nil {
			fmt.Fprintln(errs, err)
			readable = false
		}
		scenarios = append(scenarios, some...)
	}
	if !readable {
		return exitUnusable
	}
	return inTest(func(t *testing.T) int { return c.play(t, scenarios, options, out) })
}

func (c *testCommand) play(t *testing.T, scenarios []*pawltest.Scenario, o pawltest.Options, out io.Writer) int {
	var sum summary
	encoder := json.NewEncoder(out)
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
			_ = encoder.Encode(r) // nothing can be done about an output that is closed
			continue
		}
		writeReport(out, r)
	}
	if c.JSON {
		_ = encoder.Encode(sum)
	} else {
		fmt.Fprintf(out, "%d passed, %d failed\n", sum.Passed, sum.Failed)
	}
	if sum.Failed > 0 {
		return exitFailed
	}
	return 0
}

func writeReport(out io.Writer, r pawltest.Report) {
	word := "ok  "
	if !r.Passed {
		word = "FAIL"
	}
	plays := ""
	if r.Plays > 1 {
		plays = fmt.Sprintf(" (%d plays)", r.Plays)
	}
	fmt.Fprintf(out, "%s %s:%d: %s%s\n", word, r.File, r.Line, r.Name, plays)
	if text := strings.TrimSuffix(r.String(), "\n"); text != "" {
		fmt.Fprintf(out, "    %s\n", strings.ReplaceAll(text, "\n", "\n    "))
	}
}
