package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/pawl-run/pawl/rescue"
)

// A verifyCommand checks an engine directory.
type verifyCommand struct {
	Dir  string `arg:"" help:"The engine directory. No engine may have it open."`
	JSON bool   `name:"json" help:"Write one JSON object per finding, and one with the counts."`
}

// runCommand verifies and returns the exit status: 0 sound, 1 damaged, 2 it cannot be
// looked at.
func (c *verifyCommand) runCommand(out, errs io.Writer) int {
	report, err := rescue.Verify(c.Dir)
	if err != nil {
		fmt.Fprintln(errs, "pawl:", err)
		return exitUnusable
	}
	return writeFindings(out, report, c.JSON)
}

// A repairCommand restores what is left of an engine directory.
type repairCommand struct {
	Dir  string `arg:"" help:"The engine directory. No engine may have it open. It is only read."`
	Into string `arg:"" help:"The new directory. It must not exist, or be empty."`
	JSON bool   `name:"json" help:"Write one JSON object per finding, and one with the counts."`
}

// runCommand repairs and returns the exit status: 0 everything is restored, 1 something
// is lost, 2 nothing can be restored.
func (c *repairCommand) runCommand(out, errs io.Writer) int {
	report, err := rescue.Repair(c.Dir, c.Into)
	if err != nil {
		fmt.Fprintln(errs, "pawl:", err)
		return exitUnusable
	}
	return writeFindings(out, report, c.JSON)
}

// writeFindings writes a line per finding and one with the counts, and returns
// the exit status.
func writeFindings(out io.Writer, r *rescue.Report, asJSON bool) int {
	encoder := json.NewEncoder(out)
	for _, f := range r.Findings {
		if asJSON {
			_ = encoder.Encode(f) // nothing can be done about an output that is closed
		} else {
			fmt.Fprintln(out, f)
		}
	}
	if asJSON {
		_ = encoder.Encode(r)
	} else {
		fmt.Fprintln(out, r)
	}
	if r.Damage > 0 {
		return exitFailed
	}
	return 0
}
