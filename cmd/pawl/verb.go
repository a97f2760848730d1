package main

import (
	"context"
	"slices"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"
)

// A verb is one thing that pawl can do. Each has a file of its own, and a line in the table of
// verbs. command makes a new value for each parse, as kong writes into it. The help and the
// completion are made of these fields.
type verb struct {
	name    string
	help    string   // one sentence
	example []string // lines as they are typed, of a use that is common
	hidden  bool     // from help and completion
	working string   // what a terminal is told of one that takes more than a second; none if it says that itself
	command func() command
}

// A command does what its fields, which are its arguments and flags, say. What is asked
// for goes to con.Out, what is said about it to con.Errs. The error makes the exit status
// and is printed, see statusOf; errNo is not printed.
type command interface {
	runCommand(ctx context.Context, con *console) error
}

// A verbGroup is a section of the help.
type verbGroup struct {
	title string
	verbs []verb
	looks bool // they change nothing
}

// verbs are those of all groups, in the order of the help.
func verbs() (out []verb) {
	for _, g := range verbGroups() {
		out = append(out, g.verbs...)
	}
	return out
}

func verbGroups() []verbGroup {
	return []verbGroup{
		{"Definitions", []verb{checkVerb, testVerb, graphVerb, runVerb}, false},
		{"Look at runs", []verb{lsVerb, showVerb, waitVerb, inboxVerb, eventsVerb, journalVerb, tokensVerb, dataVerb, revisionsVerb, sqlVerb, serveVerb}, true},
		{"Change runs", []verb{startVerb, signalVerb, voteVerb, addVerb, closeVerb, retryVerb, skipVerb, pauseVerb, resumeVerb, cancelVerb, patchVerb, forkVerb}, false},
		{"Explain runs", []verb{whyVerb, simulateVerb, stepVerb, diffVerb, replayVerb, coverageVerb}, true},
		{"Keep directories", []verb{exportVerb, importVerb, archiveVerb, purgeVerb, backupVerb, restoreVerb, verifyVerb, repairVerb, recoverVerb, workerVerb}, false},
		{"This command", []verb{completionVerb, completeVerb, versionVerb}, false},
	}
}

// onlyLooks reports whether a verb changes nothing.
func onlyLooks(name string) bool {
	for _, g := range verbGroups() {
		if g.looks && slices.ContainsFunc(g.verbs, func(v verb) bool { return v.name == name }) {
			return true
		}
	}
	return false
}

// A keyFlag is embedded in the commands that read values, which may be sealed.
type keyFlag struct {
	KeyFile string `placeholder:"FILE" help:"The keys of sealed values, a line each: an id, and 32 bytes in base64. Only its owner may read it."`
}

// codec returns what opens sealed values, nil without a file.
func (f keyFlag) codec() (pawl.Codec, error) {
	if f.KeyFile == "" {
		return nil, nil
	}
	return aesgcm.ReadKeyFile(f.KeyFile)
}

// A jsonFlag is embedded in the commands that can write for programs.
type jsonFlag struct {
	JSON bool `name:"json" help:"Write JSON, one object a line."`
}
