package soundness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A miss is why a move did not work: an expression fails, or a schema refuses something, with the value that was made up.
type miss struct {
	failure workflow.Failure
	after   int // so many decisions of the plan
	use     int // the index of the expression among the uses; -1 without one
}

// noteMiss keeps a miss, unless the value of another one has come further: in more decisions, or to a later expression of the same node.
// That value is the better one, and tells more of why none is good enough.
func (x *explorer) noteMiss(f *workflow.Failure, after int) {
	m := &miss{failure: *f, after: after, use: slices.IndexFunc(x.check.values.uses, func(u use) bool {
		return u.program != nil && strings.HasPrefix(f.Message, u.program.Source()+": ")
	})}
	if x.missed == nil || cmp.Or(cmp.Compare(m.after, x.missed.after), cmp.Compare(m.use, x.missed.use)) > 0 {
		x.missed = m
	}
}

// tellMiss adds the bound that no value was found: once for each expression that fails, though its error may quote other values each time.
// hint is said where a schema of the value may help.
func (x *explorer) tellMiss(what, hint string, reads func(r reading) bool) {
	m := x.missed
	key := fmt.Sprintf("%s\n%s\n%d", what, m.failure.Node, m.use)
	if x.told[key] {
		return
	}
	x.told[key] = true
	text := value.Shorten(m.failure.Message, 400)
	if m.use >= 0 {
		source := x.check.values.uses[m.use].program.Source()
		text = value.Shorten(source, 200) + value.Shorten(m.failure.Message[len(source):], 200)
	}
	if text = value.EscapeControls(text); m.failure.Node != "" {
		text = fmt.Sprintf("node %q: %s", string(m.failure.Node), text)
	}
	if !x.mayHelp(reads) {
		hint = ""
	}
	x.check.addBound("%s: %s%s", what, text, hint)
}

// mayHelp reports whether the expression that fails reads a value, itself or by way of what it was copied to.
func (x *explorer) mayHelp(reads func(r reading) bool) bool {
	v := x.check.values
	if reads == nil || x.missed.use < 0 {
		return false
	}
	source := v.uses[x.missed.use].program.Source()
	for i := range v.uses {
		u := &v.uses[i]
		if u.program == nil || u.program.Source() != source {
			continue
		}
		for _, ref := range u.refs() {
			if slices.ContainsFunc(v.readingsOf(u, ref), reads) {
				return true
			}
		}
	}
	return false
}

// tellNoInput adds the bound that no run was begun.
func (x *explorer) tellNoInput() {
	const what = "no input was found with which a run begins"
	switch {
	case x.missed == nil && x.refused != nil:
		x.check.addBound("%s: %s", what, value.EscapeControls(value.Shorten(x.refused.Error(), 400)))
	case x.missed == nil:
		x.check.addBound("%s", what)
	case x.graph.Definition.Input.Schema != nil:
		x.tellMiss(what, "", nil)
	default:
		x.tellMiss(what, "; a schema of input may help", func(r reading) bool { return r.ref[0] == "input" })
	}
}

// tellNoValue adds the bound that no value was found for a move at a node, or, without one, for what happens of itself.
func (x *explorer) tellNoValue(node workflow.NodeID) {
	if node == "" {
		x.tellMiss("no value was found with which what follows when time passes, or a group gets a branch or is closed, can be evaluated", "", nil)
		return
	}
	var reads func(reading) bool
	if n := x.graph.Node(node); n.Node.OutputSchema == nil && isMadeUp(n) && x.graph.Definition.Mode != workflow.ModeDAG {
		reads = func(r reading) bool {
			_, ok := pathInResult(node, r)
			return ok
		}
	}
	x.tellMiss(fmt.Sprintf("at node %q no value was found with which what follows can be evaluated", string(node)), fmt.Sprintf("; an outputSchema of %q may help", string(node)), reads)
}

// isMadeUp reports whether the search makes up the result of a node: the engine fixes what those of approvals and waits are.
func isMadeUp(n *compiled.Node) bool {
	return n.Kind == workflow.KindTask || n.Kind == workflow.KindSubworkflow
}
