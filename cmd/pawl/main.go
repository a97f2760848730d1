// Command pawl works with workflow definitions from the shell.
//
//	pawl test FILE-OR-FOLDER...   plays scenario files; see package pawltest
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
)

// The exit statuses.
const (
	exitFailed   = 1 // a scenario failed
	exitUnusable = 2 // a file or the command line cannot be read
)

// A commandLine is what can be said to pawl.
type commandLine struct {
	Test testCommand `cmd:"" help:"Play scenario files in virtual time."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run does what the arguments say and returns the exit status.
func run(args []string, out, errs io.Writer) int {
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
	_, err = parser.Parse(args)
	if status >= 0 {
		return status
	}
	if err != nil {
		fmt.Fprintln(errs, "pawl:", err)
		return exitUnusable
	}
	return line.Test.do(out, errs)
}
