// Command pawl works with workflow definitions from the shell.
//
//	pawl test FILE-OR-FOLDER...   plays scenario files; see package pawltest
//	pawl verify DIR               checks an engine directory; see rescue.Verify
//	pawl repair DIR INTO          restores what is left of one; see rescue.Repair
//
// pawl test plays every file that it can read. It exits with 1 if a scenario has
// failed, and with 2 if there are files that it cannot read, which it lists.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
)

// The exit statuses.
const (
	exitFailed   = 1 // a scenario failed; damage was found; something is lost
	exitUnusable = 2 // a file, a directory or the command line cannot be read
)

// A commandLine is what can be said to pawl.
type commandLine struct {
	Test   testCommand   `cmd:"" help:"Play scenario files in virtual time."`
	Verify verifyCommand `cmd:"" help:"Check an engine directory that nobody has open. It is only read."`
	Repair repairCommand `cmd:"" help:"Restore what is left of an engine directory into a new one."`
}

// A command does what it says and returns the exit status.
type command interface {
	runCommand(out, errs io.Writer) int
}

func main() { os.Exit(runArguments(os.Args[1:], os.Stdout, os.Stderr)) }

// runArguments does what the arguments say and returns the exit status.
func runArguments(args []string, out, errs io.Writer) int {
	var line commandLine
	status := -1
	parser, err := kong.New(&line,
		kong.Name("pawl"),
		kong.Description("Tools for durable workflows."),
		kong.Writers(out, errs),
		kong.Exit(func(code int) { status = code }), // after --help
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(errs, "pawl:", err)
		return exitUnusable
	}
	chosen, err := parser.Parse(args)
	if status >= 0 {
		return status
	}
	if err != nil {
		fmt.Fprintln(errs, "pawl:", err)
		return exitUnusable
	}
	return chosen.Selected().Target.Addr().Interface().(command).runCommand(out, errs)
}
