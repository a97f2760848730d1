package main

import (
	"context"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"
	"github.com/pawl-run/pawl/replay"
)

// A verb is one thing that pawl can do. Each has a file of its own, and a line in
// the table of verbs.
type verb struct {
	name    string
	help    string   // one sentence
	example []string // lines as they are typed, of a use that is common
	hidden  bool     // from help and completion
	command func() command
}

// A command does what its fields, which are its arguments and flags, say. What is asked
// for goes to con.Out, what is said about it to con.Errs. The error makes the exit status
// and is printed, see statusOf; errNo is not printed.
type command interface {
	runCommand(ctx context.Context, con *console) error
}

// verbs are in the order of the help: to write definitions, to look at runs, to change them, to reason about them, to keep directories, and
// the command itself.
func verbs() []verb {
	return []verb{
		checkVerb,
		testVerb,
		graphVerb,
		runVerb,

		lsVerb,
		showVerb,
		inboxVerb,
		eventsVerb,
		journalVerb,
		tokensVerb,
		dataVerb,
		serveVerb,

		startVerb,
		signalVerb,
		voteVerb,
		retryVerb,
		skipVerb,
		pauseVerb,
		resumeVerb,
		cancelVerb,
		patchVerb,
		forkVerb,

		whyVerb,
		stepVerb,
		diffVerb,
		replayVerb,
		coverageVerb,

		exportVerb,
		archiveVerb,
		purgeVerb,
		backupVerb,
		restoreVerb,
		verifyVerb,
		repairVerb,

		completionVerb,
		completeVerb,
		versionVerb,
	}
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

// openRecording opens the recording of a run: a file, or DIR:RUN. Close it.
func (f keyFlag) openRecording(name string) (*replay.Recording, error) {
	keys, err := f.codec()
	if err != nil {
		return nil, err
	}
	return replay.FindSealed(name, keys)
}

// A jsonFlag is embedded in the commands that can write for programs.
type jsonFlag struct {
	JSON bool `name:"json" help:"Write JSON, one object a line."`
}
