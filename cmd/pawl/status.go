package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
)

// The exit statuses. They are a part of what the command promises: scripts choose by them, and a
// status is not reused for something else.
const (
	exitDone        = 0
	exitNo          = 1   // the answer is no
	exitUnusable    = 2   // a file, a directory or the command line cannot be read
	exitNotFound    = 3   // there is no such file, directory, run or definition
	exitNoEngine    = 4   // none has it open, it cannot be asked, or it is not allowed
	exitRefused     = 5   // the engine does not do it as things stand
	exitUnknown     = 6   // it may have been done, or not
	exitTimeout     = 124 // as of timeout(1)
	exitInterrupted = 130 // as of shells
)

// statusTexts says what the exit statuses mean, as the help prints it.
var statusTexts = []struct {
	status int
	text   string
}{
	{exitDone, "done"},
	{exitNo, "the answer is no: a failed scenario or run, damage, a difference"},
	{exitUnusable, "wrong usage, or a file that cannot be read"},
	{exitNotFound, "there is no such file, directory, run or definition"},
	{exitNoEngine, "no engine has the directory open, or none answers, or access is denied"},
	{exitRefused, "refused by the engine: the run has ended, does not wait, differs"},
	{exitUnknown, "nobody knows whether it was done: pawl journal RUN tells"},
	{exitTimeout, "the time of --timeout is over"},
	{exitInterrupted, "interrupted"},
}

// errNo says that the answer, which is written already, is no.
var errNo = errors.New("no")

// The errors that have an exit status of their own, of which the first that fits counts. All others
// are exitUnusable. The order decides where an error wraps two: an unknown outcome that came of an
// interrupt is unknown, as that is what somebody must look after.
var statuses = []struct {
	status int
	errs   []error
}{
	{exitUnknown, []error{pawl.ErrUnknown}},
	{exitNo, []error{errNo}},
	{exitInterrupted, []error{context.Canceled}},
	{exitNoEngine, []error{
		pawl.ErrLocked, pawl.ErrFenced, pawl.ErrFailed, pawl.ErrNoSpace, pawl.ErrClosed, pawl.ErrMaintenance, pawl.ErrRemote, pawl.ErrOtherLog, api.ErrNoEngine, fs.ErrPermission, errOffline, errLost, errNoPages,
		&api.Error{Code: "timeout"}, &api.Error{Code: "internal"},
	}},
	{exitTimeout, []error{context.DeadlineExceeded}},
	{exitNotFound, []error{fs.ErrNotExist, pawl.ErrRunNotFound, pawl.ErrNotPublished, pawl.ErrNoBase, blob.ErrMissing}},
	{exitRefused, []error{
		pawl.ErrRunExists, pawl.ErrPublished, pawl.ErrStale, pawl.ErrEnded, pawl.ErrNotEnded, pawl.ErrNotLive, pawl.ErrAmbiguous,
		errExhibit, errRefusedAct, pawl.ErrAlreadyVoted, pawl.ErrGroupClosed, pawl.ErrConflict, pawl.ErrSuspended, pawl.ErrBusy, pawl.ErrFollowed, pawl.ErrAgain,
	}},
}

// hints say what may help, by the first error that fits. They name commands, which the texts of the
// engine cannot know.
var hints = []struct {
	err  error
	text string
}{
	{pawl.ErrUnknown, "it may have been done: pawl journal RUN tells, by whom and why"},
	{pawl.ErrRunNotFound, "pawl ls lists the runs"},
	{pawl.ErrAmbiguous, "pawl tokens RUN lists the tokens: name one, as t5"},
	{pawl.ErrNotLive, "pawl inbox lists what waits for people, pawl why RUN what the run waits for"},
	{pawl.ErrAgain, "--again allows that; --result NODE=JSON gives what a task that was out has come to; nothing is made now"},
	{pawl.ErrConflict, "pawl show RUN tells its revision"},
	{pawl.ErrEnded, "pawl fork RUN NEW-RUN makes a run of one that has ended"},
}

// statusOf returns the exit status that err stands for. nil is exitDone. errors.Is sees through
// api.Error by its code, so a refusal by an engine of another process has the same status.
func statusOf(err error) int {
	if err == nil {
		return exitDone
	}
	for _, s := range statuses {
		if slices.ContainsFunc(s.errs, func(target error) bool { return errors.Is(err, target) }) {
			return s.status
		}
	}
	return exitUnusable
}
