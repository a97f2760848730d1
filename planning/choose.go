package planning

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// evalChoice evaluates which task type or subworkflow a node's expression chooses; "" if the
// node names one. It is evaluated once: every attempt has the same.
//
// The choice must be among those that the node lists, so that what a run may start is known
// beforehand: a definition that was made from data cannot name any task type that the engine
// has. The failures are permanent, since another attempt would choose the same.
func (p *planner) evalChoice(n *compiled.Node, v vars) (string, *workflow.Failure) {
	if n.Choice == nil {
		return "", nil
	}
	x, f := v.evalProgram(n.Choice)
	if f != nil {
		return "", f
	}
	what, code := "task type", workflow.CodeUnknownTask
	if n.Subworkflow != nil {
		what, code = "name of a definition", codeUnknownSubworkflow
	}
	list := state.ChoicesOf(n.Node)
	name, ok := x.(string)
	switch {
	case !ok:
		return "", &workflow.Failure{Code: workflow.CodeExpression, Permanent: true, Message: fmt.Sprintf("%s: a %s is a text: use string(...)", n.Choice.Source(), what)}
	case !slices.Contains(list, name):
		return "", &workflow.Failure{
			Code: code, Permanent: true,
			Message: fmt.Sprintf("%s chooses the %s %q; the node allows %s", n.Choice.Source(), what, value.Shorten(name, maxReading), value.Shorten(strings.Join(list, ", "), limits.MaxName)),
		}
	}
	p.addChoice(n, v, name)
	return name, nil
}

// addChoice notes what an expression has chosen, and from what.
func (p *planner) addChoice(n *compiled.Node, v vars, name string) {
	if !p.explains {
		return
	}
	p.keepNote(decision.Note{Token: v.token.ID, Text: fmt.Sprintf("%s chooses %q", n.Choice.Source(), name), Reads: readingsOf(n.Choice, v)})
}
