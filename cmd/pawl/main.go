// Command pawl works with workflow definitions and engine directories from the shell.
//
//	pawl check DEFINITION...      looks for faults before a definition runs; see package soundness
//	pawl test FILE-OR-FOLDER...   plays scenario files; see package pawltest
//	pawl graph FILE               draws a definition, or a run on it
//	pawl gen --go DEFINITION      writes its names and types as a Go package
//	pawl run DEFINITION           runs it to its end, with ready-made handlers and mocks
//	pawl publish DEFINITION...    publishes it in an engine, for runs that are started by name
//	pawl verify DIR               checks an engine directory; see rescue.Verify
//	pawl repair DIR INTO          restores what is left of one; see rescue.Repair
//	pawl recover DIR              begins its log outside of it anew; see pawl.Recover
//	pawl simulate RUN             says what acts, time and results would make of it
//	pawl step RUN                 shows a recorded run after any of its records; see package replay
//	pawl diff RUN RUN             tells where two recorded runs part
//	pawl coverage RUN-OR-DIR...   lists what recorded runs never went through
//	pawl replay FILE-OR-DIR...    plans recorded runs again
//	pawl trace RUN                makes a trace of a run from its journal, for Perfetto or OpenTelemetry
//	pawl completion, version      writes what bash, zsh or fish needs to complete commands; prints which pawl this is
//
//	pawl ls, show, events, journal, threads, data, revisions, inbox
//	                              look at the runs of an engine, live or closed
//	pawl why, wait RUN            say what a run waits for, or why it failed; wait for its end and write its output
//	pawl stats, du                say how long tasks wait and work, and what takes the disk
//	pawl sql                      queries recorded runs in SQL
//	pawl serve                    shows them in a browser; see package inspector
//
//	pawl start, signal, vote, add, close, raise, retry, skip, pause, resume, cancel, patch, fork
//	                              change them
//	pawl schedule apply, ls, show, next, check, pause, resume, trigger, backfill, rm
//	                              start runs on time; see package schedule
//	pawl export RUN... --to FILE  writes runs into one file that can be read anywhere
//	pawl import FILE RUN          makes a run of one in such a file
//	pawl archive --to FILE        moves runs that have ended into such a file
//	pawl purge RUN...             forgets runs that have ended
//	pawl worker URL...            performs tasks of pools; see package worker
//	pawl backup INTO              copies an engine directory while its engine goes on
//	pawl restore FROM INTO        makes an engine directory of a copy that was kept while it changed
//
// pawl --help lists the commands and the exit statuses, pawl COMMAND --help shows an example. Data goes to standard output, everything else to
// standard error. COLUMNS says how wide lines may be if there is no terminal; NO_COLOR switches colours off.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/store"
)

func main() { newConsole(os.Stdin, os.Stdout, os.Stderr).runProcess() }

// runProcess does what the arguments of the process say, and ends it. The first interrupt ends ctx,
// upon which a command stops in order: it closes its engine and says what is left. After that the
// signal has its usual effect again. SIGTERM, of timeout(1), and SIGHUP, of a terminal that is closed, do the same, unless nohup(1) ignores the latter.
//
// A write to a pipe without a reader fails with EPIPE only because SIGPIPE is taken, and it is not ignored as children would inherit that.
func (con *console) runProcess() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if os.Getenv("PAWL_DIR") == "" {
		_ = os.Unsetenv("PAWL_DIR") // kong would take it for a directory without a name
	}
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // so that a second interrupt ends a process that does not
	status := con.runArguments(testhook.With(ctx, con.hook), os.Args[1:])
	stop()
	os.Exit(status)
}

// runArguments does what the arguments say and returns the exit status. It neither exits nor reads
// os.Args, so tests run whole command lines in one process.
func (con *console) runArguments(ctx context.Context, args []string) int {
	// -1 is no exit status: kong calls the function only when it has written help, and would go on parsing afterwards.
	status := -1
	con.written = &keptWriter{to: con.Out}
	con.Out = con.written
	args = spellFlags(args)
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	parser, err := con.newParser(func(code int) { status = code }, args...)
	if err != nil {
		return con.finish(err)
	}
	// Without a word there is nothing to print on Out, which a pipe may read; the help goes to
	// Errs, and the status says that the command line cannot be used.
	if len(args) == 0 {
		con.Out = con.Errs // nothing was asked for
		if parser, err = con.newParser(func(int) { status = exitUnusable }); err != nil {
			return con.finish(err)
		}
		args = []string{"--help"}
	}
	chosen, err := parser.Parse(args)
	if status == exitDone { // help was written
		return con.finish(nil)
	}
	if status > exitDone {
		return status
	}
	if err == nil {
		err = refuseEmpty(chosen)
	}
	if err == nil {
		err = refuseBytes(args)
	}
	if err != nil {
		return con.finish(fmt.Errorf("%w (see pawl%s --help)", err, failedCommand(chosen, err)))
	}
	con.args, con.named = args, slices.ContainsFunc(chosen.Path, func(given *kong.Path) bool { return given.Flag != nil && given.Flag.Name == "dir" })
	ctx, con.end = context.WithCancelCause(ctx)
	defer con.end(nil)
	name := verbName(chosen.Selected())
	if con.looks = onlyLooks(name); con.looks {
		con.written.gone = func() { con.end(errNoReader) }
	}
	// The target is the pointer that the verb's command function has made, with its fields set by kong.
	do := func() error {
		err := chosen.Selected().Target.Addr().Interface().(command).runCommand(ctx, con)
		switch cause := context.Cause(ctx); {
		case err != nil && errors.Is(cause, errGaveWay):
			return errGaveWay // all else that went wrong comes of it
		case errors.Is(cause, errNoReader) && !errors.Is(err, errNo):
			return nil
		}
		return err
	}
	if working := workingText(name); working != "" {
		return con.finish(con.whileWorking(working, do))
	}
	return con.finish(do())
}

// verbName returns the name of the verb that a command is, or is below.
func verbName(n *kong.Node) string {
	for n.Parent != nil && n.Parent.Parent != nil {
		n = n.Parent
	}
	return n.Name
}

// failedCommand returns the command whose arguments are wrong, behind a blank; "" if that is not known. chosen is nil if the parser has refused them.
func failedCommand(chosen *kong.Context, err error) string {
	parsed := (*kong.ParseError)(nil)
	if errors.As(err, &parsed) {
		chosen = parsed.Context
	}
	if chosen == nil || chosen.Selected() == nil {
		return ""
	}
	return " " + chosen.Selected().Path()
}

// refuseEmpty returns an error if a flag, or an argument that may be left out, is given but empty, as by a variable of a shell that is not
// set. To take it for one that is left out would widen what is done: --tenant "$TENANT" to the runs of all tenants.
func refuseEmpty(chosen *kong.Context) error {
	for _, given := range chosen.Path {
		switch {
		case given.Flag != nil && isEmptyValue(given.Flag.Target):
			return fmt.Errorf("--%s is empty: give it a value, or leave it out", given.Flag.Name)
		case given.Positional != nil && !given.Positional.Required && given.Positional.Target.Kind() == reflect.String && given.Positional.Target.Len() == 0:
			return fmt.Errorf("<%s> is empty: give it a value, or leave it out", given.Positional.Name)
		}
	}
	return nil
}

// keptFlags have texts that an engine keeps.
var keptFlags = []string{"-m", "--by", "--comment", "--data", "--id", "--label", "--output", "--payload", "--reason", "--result", "--tenant"}

// refuseBytes returns an error if a text that an engine keeps is no UTF-8: kong, and JSON, by which it is sent, would change it silently. Paths may be
// any bytes.
func refuseBytes(args []string) error {
	for i, word := range args {
		if !strings.HasPrefix(word, "-") && i > 0 {
			word = args[i-1] + "=" + word
		}
		flag, _, _ := strings.Cut(word, "=")
		kept := slices.Contains([]string{forkVerb.name, importVerb.name, signalVerb.name}, args[0])
		if _, none := os.Lstat(args[i]); none == nil {
			kept = false // a path, as of an import
		}
		if !utf8.ValidString(word) && (slices.Contains(keptFlags, flag) || strings.HasPrefix(word, "-m") || kept) {
			return fmt.Errorf("%q: it is no UTF-8", word)
		}
	}
	return nil
}

// isEmptyValue reports whether a flag has no text, or none in a list.
func isEmptyValue(v reflect.Value) bool {
	if texts, ok := v.Interface().([]string); ok {
		return len(texts) == 0 || slices.Contains(texts, "")
	}
	kind := v.Kind()
	return (kind == reflect.String || kind == reflect.Map) && v.Len() == 0
}

// workingText returns what a verb says while it is at work; nothing where it tells its own progress, as run does, or asks something, as a
// line that ticks would stand in the question.
func workingText(name string) string {
	for _, v := range verbs() {
		if v.name == name {
			return v.working
		}
	}
	return ""
}

// newParser returns a parser of command lines. It calls exit after --help. Where the words begin with the name of a verb it knows that verb alone: to
// build all of them takes longer than many a command.
func (con *console) newParser(exit func(int), words ...string) (*kong.Kong, error) {
	options := []kong.Option{
		kong.Name("pawl"),
		kong.Description("Tools for durable workflows."),
		kong.Writers(con.Out, con.Errs),
		kong.Exit(exit),
		kong.Help(writeHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	}
	// An unknown first word, or a flag, gets the parser of all verbs, so that the error and the help list them.
	named := func(v verb) bool { return len(words) > 0 && v.name == words[0] }
	all := !slices.ContainsFunc(verbs(), named)
	for _, g := range verbGroups() {
		for _, v := range g.verbs {
			if !all && !named(v) {
				continue
			}
			var tags []string
			if v.hidden {
				tags = []string{`hidden:""`}
			}
			options = append(options, kong.DynamicCommand(v.name, v.help, g.title, v.command(), tags...))
		}
	}
	return kong.New(&struct{}{}, options...)
}

// writeHelp writes kong's help, and the example of the command that was asked about, or the exit statuses. Flags, which kong lists, do not
// say which of them belong together: the example shows a use that is common.
func writeHelp(o kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(o, ctx); err != nil {
		return err
	}
	out := ctx.Stdout
	asked := ctx.Selected()
	if asked == nil {
		fmt.Fprintln(out, "\nExit statuses:")
		for _, s := range statusTexts {
			fmt.Fprintf(out, "  %-6d%s\n", s.status, s.text)
		}
		return nil
	}
	for _, v := range verbs() {
		if v.name != verbName(asked) {
			continue
		}
		fmt.Fprintln(out, "\nExample:")
		for _, line := range v.example {
			// A command below a verb shows its own lines alone.
			if asked.Name == v.name || strings.HasPrefix(line, "pawl "+asked.Path()+" ") {
				fmt.Fprintln(out, "  "+line)
			}
		}
	}
	return nil
}

// The exit statuses. They are a part of what the command promises: scripts choose by them, and a status is not reused for something else.
const (
	exitDone        = 0
	exitNo          = 1                    // the answer is no
	exitUnusable    = refusal.ExitUnusable // a file, a directory or the command line cannot be read
	exitNotFound    = refusal.ExitNotFound // there is no such file, directory, run or definition
	exitNoEngine    = refusal.ExitNoEngine // none has it open, it cannot be asked, or it is not allowed
	exitRefused     = refusal.ExitRefused
	exitUnknown     = refusal.ExitUnknown
	exitTimeout     = refusal.ExitTimeout
	exitInterrupted = refusal.ExitInterrupted
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
	{exitNoEngine, "no engine has the directory open, or none answers, access is denied, the disk is full"},
	{exitRefused, "refused by the engine: the run has ended, does not wait, differs"},
	{exitUnknown, "nobody knows whether it was done: pawl journal RUN tells"},
	{exitTimeout, "the time of --timeout is over"},
	{exitInterrupted, "interrupted"},
}

// errNo says that the answer, which is written already, is no.
var errNo = errors.New("no")

// The errors of this command that have an exit status of their own; the first that fits counts. Errors of engines have theirs in the
// table of package refusal.
var statuses = []struct {
	status int
	errs   []error
}{
	{exitNo, []error{errNo}},
	{exitNoEngine, []error{api.ErrNoEngine, fs.ErrPermission, errOffline, errLost, errNoPages, errReadOnly, errSilent, syscall.EROFS, &api.Error{Code: refusal.CodeTimeout}, &api.Error{Code: refusal.CodeInternal}}},
	{exitNotFound, []error{fs.ErrNotExist, store.ErrNotOurs}},
	{exitRefused, []error{errExhibit, errRefusedAct}},
}

// hints say what may help, by the first error that fits. They name commands, which the texts of the engine cannot know.
var hints = []struct {
	err  error
	text string
}{
	{errOfSchedule, "it may have been done: pawl schedule show tells"},
	{errOfPurge, "it may be purged: pawl ls tells, and pawl purge of it ends that"},
	{errOfPublish, "it may be published: the same command again tells, and publishes it otherwise"},
	{errReadOnly, "pawl why and step of DIR:RUN, and sql, verify and replay of DIR, only read it; for the others copy it"},
	{errOfLimit, "pawl show RUN tells its limits"},
	{pawl.ErrScheduleNotFound, "pawl schedule ls lists the schedules"},
	{pawl.ErrUnknown, "it may have been done: pawl journal RUN tells, by whom and why"},
	{pawl.ErrRunNotFound, "pawl ls lists the runs"},
	{pawl.ErrNotPublished, "pawl publish FILE publishes a definition"},
	{pawl.ErrAmbiguous, "pawl threads RUN lists the threads: name one, as t5"},
	{pawl.ErrNotLive, "pawl inbox lists what waits for people, pawl why RUN what the run waits for"},
	{pawl.ErrAgain, "--again allows that; --result NODE=JSON gives what a task that was out has come to; nothing is made now"},
	{pawl.ErrConflict, "pawl show RUN tells its revision"},
	{pawl.ErrEnded, "pawl fork RUN NEW-RUN makes a run of one that has ended"},
}

// statusOf returns the exit status that err stands for. nil is exitDone. errors.Is sees through
// api.Error by its code, so a refusal by an engine of another process has the same status. An unknown outcome that came of an
// interrupt, or of anything else but a full disk, is unknown, as that is what somebody must look after.
func statusOf(err error) int {
	if err == nil {
		return exitDone
	}
	switch {
	case errors.Is(err, pawl.ErrUnknown) && (!errors.Is(err, pawl.ErrNoSpace) || errors.Is(err, pawl.ErrFailed)):
		return exitUnknown
	case errors.Is(err, context.Canceled) && !errors.As(err, new(*api.Error)): // an engine that closes says what is cancelled
		return exitInterrupted
	}
	for _, s := range statuses {
		if slices.ContainsFunc(s.errs, func(target error) bool { return errors.Is(err, target) }) {
			return s.status
		}
	}
	return refusal.Of(err).Exit
}

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
