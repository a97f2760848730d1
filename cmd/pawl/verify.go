package main

import (
	"context"

	"github.com/pawl-run/pawl/rescue"
)

var verifyVerb = verb{
	name:    "verify",
	help:    "Check an engine directory that nobody has open. It is only read.",
	example: []string{"pawl verify data"},
	command: func() command { return new(verifyCommand) },
}

// A verifyCommand checks an engine directory.
type verifyCommand struct {
	Dir string `arg:"" help:"The engine directory. No engine may have it open."`
	keyFlag
	jsonFlag
}

// runCommand verifies; the answer is no if there is damage.
func (c *verifyCommand) runCommand(_ context.Context, con *console) error {
	keys, err := c.codec()
	if err != nil {
		return err
	}
	var report *rescue.Report
	err = con.whileWorking("verifying "+c.Dir, func() (err error) {
		report, err = rescue.VerifySealed(c.Dir, keys)
		return err
	})
	if err != nil {
		return err
	}
	return con.writeFindings(report, c.JSON)
}

var repairVerb = verb{
	name:    "repair",
	help:    "Restore what is left of an engine directory into a new one.",
	example: []string{"pawl repair data repaired", "pawl verify repaired"},
	command: func() command { return new(repairCommand) },
}

// A repairCommand restores what is left of an engine directory.
type repairCommand struct {
	Dir  string `arg:"" help:"The engine directory. No engine may have it open. It is only read."`
	Into string `arg:"" help:"The new directory. It must not exist, or be empty."`
	keyFlag
	jsonFlag
}

// runCommand repairs; the answer is no if something is lost.
func (c *repairCommand) runCommand(_ context.Context, con *console) error {
	keys, err := c.codec()
	if err != nil {
		return err
	}
	var report *rescue.Report
	err = con.whileWorking("repairing "+c.Dir, func() (err error) {
		report, err = rescue.RepairSealed(c.Dir, c.Into, keys)
		return err
	})
	if err != nil {
		return err
	}
	return con.writeFindings(report, c.JSON)
}

// writeFindings writes a line per finding and one with the counts. The answer is no if
// there is damage.
func (con *console) writeFindings(r *rescue.Report, asJSON bool) error {
	for _, f := range r.Findings {
		con.writeLine(asJSON, f)
	}
	con.writeLine(asJSON, r)
	if r.Damage > 0 {
		return errNo
	}
	return nil
}
