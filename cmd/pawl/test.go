package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-run/pawl/internal/below"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/typecheck"
	"github.com/pawl-run/pawl/pawltest"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
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
	Unreadable int `json:"unreadable,omitempty"` // files, or scenarios of files
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

// runCommand plays the scenarios of the files that can be read, and lists the other files. It ends the process. pawltest needs a
// testing.T, which only package testing makes: so the scenarios are played inside of one, and with its end the process ends, with
// the status that the function returns.
func (c *testCommand) runCommand(ctx context.Context, con *console) error {
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
		scenarios = append(scenarios, some...)
		if files, ok := err.(interface{ Unwrap() []error }); ok { // each gets a line of its own
			unreadable = append(unreadable, files.Unwrap()...)
		}
	}
	inTest(func(t *testing.T) int {
		sum := c.playAll(ctx, t, scenarios, options, con)
		if ctx.Err() != nil {
			return con.finish(context.Cause(ctx))
		}
		sum.Unreadable = len(unreadable)
		con.writeLine(c.JSON, sum)
		if sum.Unreadable == 1 && len(c.Paths) == 1 {
			return con.finish(unreadable[0])
		}
		for _, err := range unreadable {
			fmt.Fprintln(con.Errs, errorText(err))
		}
		switch {
		case sum.Unreadable > 0:
			return con.finish(errFiles)
		case sum.Failed == 0 && (sum.Passed > 0 || c.Run == ""):
			return con.finish(nil)
		case sum.Failed == 0:
			fmt.Fprintf(con.Errs, "pawl: --run: no scenario has a name that matches %q\n", c.Run)
		}
		return con.finish(errNo)
	})
	return nil
}

// playAll plays the scenarios until ctx ends. The one that is played then comes to its end, as a bubble of virtual time cannot be left.
func (c *testCommand) playAll(ctx context.Context, t *testing.T, scenarios []*pawltest.Scenario, o pawltest.Options, con *console) summary {
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		fmt.Fprintln(con.Errs, "pawl: it ends with this scenario; another interrupt ends it at once")
	})
	defer func() {
		if !stop() {
			<-told
		}
	}()
	var sum summary
	for _, s := range scenarios {
		if ctx.Err() != nil {
			break
		}
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
	fmt.Fprintf(out, "%s %s:%d: %s%s\n", word, printableText(r.File), r.Line, printableText(r.Name), plays)
	text := r.String()
	if c.Verbose {
		text = r.Verbose()
	}
	if text = strings.TrimSuffix(text, "\n"); text != "" {
		fmt.Fprintf(out, "    %s\n", strings.ReplaceAll(printableLines(text), "\n", "\n    "))
	}
}

var checkVerb = verb{
	name:    "check",
	help:    "Look for faults in definitions before they run, by playing every run within bounds.",
	example: []string{"pawl check order.yaml", "pawl check --scenarios faults order.yaml && pawl test faults"},
	command: func() command { return new(checkCommand) },
	working: "exploring",
}

// A checkCommand looks for faults in definitions.
type checkCommand struct {
	Files      []string      `arg:"" name:"definition" help:"Files that hold a definition each, in YAML or JSON."`
	States     int           `placeholder:"N" help:"Look at this many states of a run at most. Without it 3000."`
	Scenarios  string        `placeholder:"DIR" help:"Write the run that shows a fault as a scenario file into this folder."`
	StallAfter bool          `help:"The engine has StallAfter: say nothing of tasks without a timeout."`
	Handlers   []string      `placeholder:"FILE" help:"Compare the definitions with the handlers that pawl.WriteSchemas wrote into these files, one for each program that performs tasks."`
	Limit      time.Duration `placeholder:"DURATION" help:"End the search in a definition that takes longer, by a real clock. Without it 10m."`
	jsonFlag
	handlers []typecheck.File // of Handlers
}

// A fileReport is what was found in one file. Problems are of validation; Report is of playing the
// definition, which only a valid one allows.
type fileReport struct {
	File     string             `json:"file"`
	Problems []string           `json:"problems,omitempty"` // of validation, warnings as well
	Report   *soundness.Report  `json:"report,omitempty"`   // nil if the definition is not valid
	report   []workflow.Problem // of validation
}

// runCommand checks the files. The answer is no if one has a fault, or cannot be played. A file that cannot be read does
// not keep the others from being checked, but makes the exit status: a check that was not done in full must not pass.
func (c *checkCommand) runCommand(ctx context.Context, con *console) error {
	if c.States < 0 {
		return fmt.Errorf("--states: %d is less than 0", c.States)
	}
	if err := c.readHandlers(); err != nil {
		return err
	}
	var unreadable error
	faults := false
	for _, path := range c.Files {
		r, err := c.checkFile(ctx, path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if unreadable = err; len(c.Files) > 1 {
				fmt.Fprintln(con.Errs, "pawl:", errorText(err))
			}
			continue
		}
		faults = faults || r.hasFaults()
		if c.JSON {
			con.writeLine(true, r)
		} else {
			r.writeTo(con)
		}
		if err := c.writeScenarios(con, r); err != nil {
			return err
		}
	}
	switch {
	case unreadable != nil && len(c.Files) == 1:
		return unreadable
	case unreadable != nil:
		return errFiles
	case faults:
		return errNo
	}
	return nil
}

// readHandlers reads the files of handlers.
func (c *checkCommand) readHandlers() error {
	for _, name := range c.Handlers {
		data, err := below.ReadFile(name, limits.MaxDefinitionBytes, filepath.Dir(name), ".")
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var file typecheck.File
		if err := json.Unmarshal(data, &file); err != nil {
			return fmt.Errorf("%s: it is not what pawl.WriteSchemas writes: %w", name, err)
		}
		if len(file.Tasks)+len(file.Others) == 0 {
			return fmt.Errorf("%s: it has no tasks: pawl.WriteSchemas writes those of pawl.Handlers", name)
		}
		c.handlers = append(c.handlers, file)
	}
	return nil
}

// checkFile checks one file. An error says that it cannot be read. An invalid definition is a
// finding and no error; only a file that is no definition is one.
func (c *checkCommand) checkFile(ctx context.Context, path string) (*fileReport, error) {
	r := &fileReport{File: path}
	data, err := below.ReadFile(path, limits.MaxDefinitionBytes, filepath.Dir(path), ".")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d, err := parseDefinition(path, data)
	if invalid := (*workflow.DefinitionError)(nil); errors.As(err, &invalid) {
		r.addProblems(invalid.Problems)
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.addProblems(d.Check())
	if r.isInvalid() {
		return r, nil
	}
	if g, err := compiled.Compile(compiled.Boundless(), d); err == nil {
		r.addProblems(typecheck.CompareFiles(g, c.handlers))
	}
	until, cancel := context.WithTimeout(ctx, cmp.Or(max(c.Limit, 0), pawltest.DefaultLimit))
	defer cancel()
	report, err := soundness.Check(d, soundness.Options{States: c.States, StallAfter: c.StallAfter, Stop: func() bool { return until.Err() != nil }})
	if err != nil {
		return nil, err
	}
	r.Report = &report
	return r, nil
}

func (r *fileReport) addProblems(problems []workflow.Problem) {
	for _, p := range problems {
		if p.Code == problem.EndlessCycle {
			continue // a finding says it
		}
		r.report = append(r.report, p)
		r.Problems = append(r.Problems, p.String())
	}
}

// isInvalid reports whether validation found more than warnings.
func (r *fileReport) isInvalid() bool {
	for _, p := range r.report {
		if !p.Warning {
			return true
		}
	}
	return false
}

// hasFaults reports whether the file must not pass.
func (r *fileReport) hasFaults() bool {
	unfit := slices.ContainsFunc(r.report, func(p workflow.Problem) bool {
		return p.Code == problem.HandlerType || p.Code == problem.HandlerMissing
	})
	return unfit || r.isInvalid() || r.Report != nil && len(r.Report.Faults()) > 0
}

// writeTo writes the report for people, a line for each finding.
func (r *fileReport) writeTo(con *console) {
	for _, p := range r.Problems {
		con.printProse("%s: %s", r.File, p)
	}
	if r.Report != nil {
		for _, line := range strings.Split(r.Report.Text(len(r.Problems)), "\n") {
			con.printProse("%s: %s", r.File, line)
		}
	}
}

// writeScenarios writes the scenarios of a report, named by the file, the code and the node. Each is a scenario for pawl test
// that shows the fault, so it can be kept beside the definition once the fault is mended. Files of several folders may have one name.
func (c *checkCommand) writeScenarios(con *console, r *fileReport) error {
	if c.Scenarios == "" || r.Report == nil {
		return nil
	}
	if err := os.MkdirAll(c.Scenarios, 0o777); err != nil {
		return err
	}
	base := strings.TrimSuffix(filepath.Base(r.File), filepath.Ext(r.File))
	for i, f := range r.Report.Findings {
		if f.Scenario == "" {
			continue
		}
		path, err := writeApart(filepath.Join(c.Scenarios, fmt.Sprintf("%s-%d-%s", base, i+1, f.Code)), f.Scenario)
		if err != nil {
			return err
		}
		fmt.Fprintln(con.Errs, "wrote", printableText(path))
	}
	return nil
}

// writeApart writes a text into path.yaml or, where another text is there, into path-2.yaml and so on, and returns which it is.
func writeApart(path, text string) (string, error) {
	for n := 1; ; n++ {
		at := path + ".yaml"
		if n > 1 {
			at = fmt.Sprintf("%s-%d.yaml", path, n)
		}
		has, err := os.ReadFile(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return at, os.WriteFile(at, []byte(text), 0o666)
		case err != nil || string(has) == text:
			return at, err
		}
	}
}

var coverageVerb = verb{
	name:    "coverage",
	help:    "List what recorded runs never went through: nodes, transitions, tiers, joins.",
	example: []string{"pawl coverage data", "pawl coverage --all data"},
	command: func() command { return new(coverageCommand) },
	working: "reading runs",
}

// A coverageCommand counts what recorded runs went through.
type coverageCommand struct {
	Paths []string `arg:"" name:"file-dir-or-run" help:"Files of runs, folders of them, engine directories, or ids of runs in the directory."`
	All   bool     `help:"Write the counts as well."`
	recordedFlag
}

// A coveredDefinition is a line of JSON.
type coveredDefinition struct {
	*replay.DefinitionCoverage
	Never []string `json:"never"` // what no run has come to, a sentence each
}

// runCommand counts. The answer is no if something was never gone through. Definitions are told
// apart by their hash, so runs of two revisions are not added up.
func (c *coverageCommand) runCommand(ctx context.Context, con *console) error {
	var counts replay.Coverage
	g, err := c.eachRecording(ctx, con, c.Paths, counts.Add)
	if g.read == 0 && err == nil {
		err = nothingAt(c.Paths...)
	}
	never := 0
	for _, d := range counts.Definitions() {
		if c.JSON {
			con.writeLine(true, coveredDefinition{d, append([]string{}, d.Never()...)})
		} else {
			c.writeDefinition(con, d)
		}
		never += len(d.Never())
	}
	con.saySources(c.JSON, g.from)
	switch {
	case err != nil:
		return err
	case never > 0:
		return errNo
	}
	return nil
}

func (c *coverageCommand) writeDefinition(con *console, d *replay.DefinitionCoverage) {
	word := "runs"
	if d.Runs == 1 {
		word = "run"
	}
	con.printProse("%s@%d, %d %s (%.12s)", d.Workflow, d.Version, d.Runs, word, d.Hash)
	if c.All {
		for _, n := range d.Nodes {
			con.printProse("  %6d  node %s: %d completed, %d failed, %d cancelled", n.Reached, n.Node, n.Completed, n.Failed, n.Cancelled)
			for _, x := range n.Choices {
				con.printProse("  %6d  node %s chose %s", x.Chosen, n.Node, x.Name)
			}
		}
		for _, t := range d.Transitions {
			kind := ""
			if t.Error {
				kind = "error "
			}
			con.printProse("  %6d  transition %s [%stier %d]", t.Taken, t.Transition, kind, t.Tier)
		}
		for _, j := range d.Joins {
			con.printProse("  %6d  join %s at %s: %d failed, %d abandoned, %d timed out", j.Fired, j.Group, j.Node, j.Failed, j.Abandoned, j.TimedOut)
		}
	}
	for _, line := range d.Never() {
		con.printProse("  %s", line)
	}
}
