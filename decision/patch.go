package decision

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// PatchRun replaces the run's definition. Steps are those of a dag whose
// incoming transitions it changes.
//
// It has the whole definition and not the operations, so that a replay need not know how they
// were applied. Pins are added to those that the run has. Due is the run's deadline from then
// on, also if that is the same as before; the zero time takes it away.
type PatchRun struct {
	Revision   int             `json:"revision"`
	Definition any             `json:"definition"` // as a value
	Pins       state.Pins      `json:"pins,omitzero"`
	Due        time.Time       `json:"due,omitzero"` // the run times out
	Steps      []state.Step    `json:"steps,omitzero"`
	Graph      *compiled.Graph `json:"-"` // of Definition; nil until it is asked for
}

// String implements fmt.Stringer.
func (d PatchRun) String() string {
	w := newLine("patch-run").addField("revision", strconv.Itoa(d.Revision)).addValue("definition", d.Definition).addTime("due", d.Due)
	for _, x := range d.Steps {
		w = w.addField("step", fmt.Sprintf("%s:%d/%d", x.Node, x.Live, x.Resolved))
	}
	return w.String()
}

// evolveState puts the run on the next revision. When records are replayed, the
// graph is compiled from the document that was written.
func (d PatchRun) evolveState(s *state.State) {
	if d.Revision != s.Revision()+1 {
		panic(fmt.Sprintf("decision: revision %d follows %d", d.Revision, s.Revision()))
	}
	g := d.Graph
	if g == nil {
		g = compileValid(d.Definition)
	}
	// The revision comes first: it builds the state anew from its rows and, on the overlay of
	// a planner, forgets what was changed there before.
	s.PutRevision(state.Revision{Number: d.Revision, Graph: g, Document: d.Definition})
	s.Due = d.Due
	s.Pins = append(slices.Clip(s.Pins), d.Pins...)
	for i := range d.Steps {
		s.PutStep(&d.Steps[i])
	}
}

func (d PatchRun) toldEvents(*state.State) []Event {
	return []Event{{Type: workflow.EventWorkflowPatched, Data: map[string]any{"revision": int64(d.Revision)}}}
}

func (PatchRun) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// compileValid compiles a definition that was found valid before. The bounds of an engine do
// not apply, since the patch was accepted when it was planned. A document that does not
// compile can only be a damaged one, or a planner's mistake.
func compileValid(doc any) *compiled.Graph {
	def, err := compiled.Boundless().ParseJSON(value.Encode(doc))
	if err != nil {
		panic("decision: a patched definition: " + err.Error())
	}
	g, err := compiled.Compile(compiled.Boundless(), def)
	if err != nil {
		panic("decision: a patched definition: " + err.Error())
	}
	return g
}
