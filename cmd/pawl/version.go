package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

var versionVerb = verb{
	name:    "version",
	help:    "Print which pawl this is.",
	example: []string{"pawl version"},
	command: func() command { return new(versionCommand) },
}

// A versionCommand prints the version of the program.
type versionCommand struct {
	jsonFlag
}

// A versionReport is what the command prints.
type versionReport struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

// String returns the report for people.
func (r versionReport) String() string { return fmt.Sprintf("pawl %s (%s)", r.Version, r.Go) }

func (c *versionCommand) runCommand(_ context.Context, con *console) error {
	r := versionReport{Version: "unknown", Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		r.Version = info.Main.Version
	}
	con.writeLine(c.JSON, r)
	return nil
}
