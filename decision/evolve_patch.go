package decision

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// evolvePatch puts a run on another revision of its definition.
func evolvePatch(s *state.State, d PatchRun) {
	if d.Revision != s.Revision()+1 {
		panic(fmt.Sprintf("decision: revision %d follows %d", d.Revision, s.Revision()))
	}
	g := d.Graph
	if g == nil {
		g = compiled(d.Definition)
	}
	s.PutRevision(state.Revision{Number: d.Revision, Graph: g, Document: d.Definition})
	s.Due = d.Due
	s.Pins = append(slices.Clip(s.Pins), d.Pins...)
	for i := range d.Steps {
		s.PutStep(&d.Steps[i])
	}
}

// compiled compiles a definition that was found valid before.
func compiled(doc any) *workflow.Graph {
	def, err := workflow.Boundless().ParseJSON(value.Encode(doc))
	if err != nil {
		panic("decision: a patched definition: " + err.Error())
	}
	g, err := workflow.Boundless().Compile(def)
	if err != nil {
		panic("decision: a patched definition: " + err.Error())
	}
	return g
}
