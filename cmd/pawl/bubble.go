package main

import (
	"flag"
	"os"
	"testing"
)

// inTest calls f with a *testing.T and ends the process with the status that f
// returns.
//
// Virtual time comes from testing/synctest, whose bubbles need a *testing.T, and
// only the test runner makes those. So the runner is started on one test, in
// which everything happens. Its flags are registered and parsed, from no
// arguments, since it asks for them; and f ends the process from within the
// test, so that the runner prints nothing of its own.
func inTest(f func(t *testing.T) int) {
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil {
		panic(err) // no arguments are always right
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "pawl", F: func(t *testing.T) { os.Exit(f(t)) }}}, nil, nil)
}
