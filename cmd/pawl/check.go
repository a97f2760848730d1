package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-run/pawl/internal/below"
	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

var checkVerb = verb{
	name:    "check",
	help:    "Look for faults in definitions before they run, by playing every run within bounds.",
	example: []string{"pawl check order.yaml", "pawl check --scenarios faults order.yaml && pawl test faults"},
	command: func() command { return new(checkCommand) },
	working: "exploring",
}

// A checkCommand looks for faults in definitions.
type checkCommand struct {
	Files      []string `arg:"" name:"definition" help:"Files that hold a definition each, in YAML or JSON."`
	States     int      `placeholder:"N" help:"Look at this many states of a run at most. Without it 3000."`
	Scenarios  string   `placeholder:"DIR" help:"Write the run that shows a fault as a scenario file into this folder."`
	StallAfter bool     `help:"The engine has StallAfter: say nothing of tasks without a timeout."`
	jsonFlag
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
// not keep the others from being checked, but makes the exit status: a check of which a part was
// not done must not pass.
func (c *checkCommand) runCommand(_ context.Context, con *console) error {
	if c.States < 0 {
		return fmt.Errorf("--states: %d is less than 0", c.States)
	}
	var unreadable error
	faults := false
	for _, path := range c.Files {
		r, err := c.checkFile(path)
		if err != nil {
			if unreadable = err; len(c.Files) > 1 {
				fmt.Fprintf(con.Errs, "pawl: %v\n", err)
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

// checkFile checks one file. An error says that it cannot be read. An invalid definition is a
// finding and no error; only a file that is no definition is one.
func (c *checkCommand) checkFile(path string) (*fileReport, error) {
	r := &fileReport{File: path}
	data, err := below.ReadFile(path, workflow.MaxDefinitionBytes, filepath.Dir(path), ".")
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err // which names the file from another folder
	}
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
	report, err := soundness.Check(d, soundness.Options{States: c.States, StallAfter: c.StallAfter})
	if err != nil {
		return nil, err
	}
	r.Report = &report
	return r, nil
}

func (r *fileReport) addProblems(problems []workflow.Problem) {
	for _, p := range problems {
		if p.Code == workflow.ProblemEndlessCycle {
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
	return r.isInvalid() || r.Report != nil && len(r.Report.Faults()) > 0
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

// writeScenarios writes the scenarios of a report, named by the file, the code and the node. Each
// is a scenario for pawl test that shows the fault, so it can be kept beside the definition once
// the fault is mended.
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
		path := filepath.Join(c.Scenarios, fmt.Sprintf("%s-%d-%s.yaml", base, i+1, f.Code))
		if err := os.WriteFile(path, []byte(f.Scenario), 0o666); err != nil {
			return err
		}
		fmt.Fprintln(con.Errs, "wrote", path)
	}
	return nil
}
