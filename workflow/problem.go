package workflow

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// A Problem is one thing that is wrong with a definition. Code is for programs and never changes its meaning; Message
// is for people and may change. Node and Transition are "" if the problem is in the definition itself.
type Problem struct {
	Code       string // one of those in docs/definition.md, such as unknown_field
	Message    string // what is wrong, and what to do
	Node       NodeID
	Transition TransitionID
	Field      string // path of the field within the node, transition or definition
	File       string // the Go file, if package build made the definition; Line is a line of it
	Line       int    // from 1, if the definition was parsed or built; 0 if unknown
	Column     int    // from 1, in code points; 0 if unknown
	Warning    bool   // the definition can still run
}

// String returns the place and the message in one line. Example: line 3:10: node "pay": retry.jitter: 2 is not in
// 0..1 (out_of_range).
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.File != "":
		fmt.Fprintf(&b, "%s:%d: ", path.Base(p.File), p.Line)
	case p.Line > 0 && p.Column > 0:
		fmt.Fprintf(&b, "line %d:%d: ", p.Line, p.Column)
	case p.Line > 0:
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Node != "" {
		fmt.Fprintf(&b, "node %q: ", string(p.Node))
	}
	if p.Transition != "" {
		fmt.Fprintf(&b, "transition %q: ", string(p.Transition))
	}
	if p.Field != "" {
		fmt.Fprintf(&b, "%s: ", p.Field)
	}
	fmt.Fprintf(&b, "%s (%s)", p.Message, p.Code)
	return b.String()
}

// A DefinitionError reports every problem of a definition at once; for a text that cannot be parsed, the first
// thousand. It contains no warnings.
type DefinitionError struct {
	Name     string // name of the definition
	Problems []Problem
}

// maxListed bounds the problems in the text of an error. All of them are in Problems.
const maxListed = 100

// Error lists the first hundred problems, one per line.
func (e *DefinitionError) Error() string {
	var lines []string
	for i, p := range e.Problems {
		if i == maxListed {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Problems)-maxListed))
			break
		}
		lines = append(lines, p.String())
	}
	name := ""
	if e.Name != "" { // else the text ends before it, or cannot be read
		name = " " + strconv.Quote(e.Name)
	}
	return fmt.Sprintf("invalid definition%s: %s", name, strings.Join(lines, "\n\t"))
}
