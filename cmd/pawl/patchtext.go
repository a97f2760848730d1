package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// errRefusedAct says that an engine refuses what was readable.
var errRefusedAct = errors.New("the engine refuses it")

// A refusedError is the error of an act that an engine has refused, under its own text.
type refusedError struct{ error }

// Unwrap returns the error as it was, and that it is a refusal.
func (e *refusedError) Unwrap() []error { return []error{e.error, errRefusedAct} }

// printChanges writes in what a definition differs from the revision before it, a line for each change.
func (con *console) printChanges(base int, changes []workflow.DefinitionChange) {
	if len(changes) == 0 {
		con.printLine("revision %d -> %d: nothing in it differs", base, base+1)
		return
	}
	con.printLine("revision %d -> %d:", base, base+1)
	for i := range changes {
		for _, line := range changeTexts(&changes[i]) {
			con.printLine("  %s", line)
		}
	}
}

// changeTexts returns a change in lines such as "+ node check" and "~ ship.timeout 30s -> 2m".
func changeTexts(c *workflow.DefinitionChange) (out []string) {
	what, name := "definition", ""
	switch {
	case c.Node != "":
		what, name = "node "+string(c.Node), string(c.Node)+"."
	case c.Transition != "":
		what, name = "transition "+string(c.Transition), string(c.Transition)+"."
	}
	switch c.Kind {
	case workflow.ChangeAdded:
		return []string{"+ " + what}
	case workflow.ChangeRemoved:
		return []string{"- " + what}
	case workflow.ChangeChanged:
	}
	for _, f := range c.Fields {
		out = append(out, fmt.Sprintf("~ %s%s %s -> %s", name, f.Field, fieldText(f.Before), fieldText(f.After)))
	}
	return out
}

// fieldText returns a value of a definition in a few words: a text without its quotes, - for none.
func fieldText(raw []byte) string {
	text := string(raw)
	switch {
	case raw == nil:
		return "-"
	case strings.HasPrefix(text, `"`) && !strings.ContainsAny(text, " \\"):
		text = strings.Trim(text, `"`)
	}
	return value.Shorten(text, 80)
}
