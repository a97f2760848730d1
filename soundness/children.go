package soundness

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A stand replaces a subworkflow in a scenario. Its definition has one task, and the mocks of this task say how each run
// of the subworkflow ends. The search does not know the definition of a child and makes up how its runs end; the runs of
// the stand end in these ways.
type stand struct {
	task   workflow.NodeID // whose calls are the runs, in the order of their starts
	shapes [][]string      // the fields of the outputs that there are, each list sorted
}

// standFor returns the stand of the child that a token has started.
func (s *script) standFor(st *state.State, t *state.Token) *stand {
	name := t.SubworkflowAt(st.Graph.Node(t.Node)).Name
	if s.stands[name] == nil {
		s.stands[name] = newStand(st.Graph, name)
	}
	return s.stands[name]
}

// newStand returns a stand without outputs. The scenario's mocks are by node, for all definitions: the task must not have
// the name of a node of g.
func newStand(g *compiled.Graph, name string) *stand {
	task := workflow.NodeID("end of " + name)
	for g.Node(task) != nil {
		task += "'"
	}
	return &stand{task: task}
}

// resultFor returns the result of the task with which a run of the stand has an output.
func (d *stand) resultFor(output map[string]any) map[string]any {
	fields := slices.Sorted(maps.Keys(output))
	shape := slices.IndexFunc(d.shapes, func(known []string) bool { return slices.Equal(known, fields) })
	if shape < 0 {
		shape = len(d.shapes)
		d.shapes = append(d.shapes, fields)
	}
	result := map[string]any{"shape": int64(shape)}
	if len(fields) > 0 {
		result["output"] = output
	}
	return result
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// definition returns the definition of a stand: its task leads to a node for each shape, and this node writes the fields.
// definition reports false for a field that is no identifier, since no path leads to it.
func (d *stand) definition(name string, version int) (*workflow.Definition, bool) {
	def := &workflow.Definition{
		Name: name, Version: version, Start: d.task,
		Nodes: []workflow.Node{{ID: d.task, Task: "end", Output: map[string]string{"state.end": "result"}}},
	}
	for i, fields := range d.shapes {
		n := workflow.Node{ID: workflow.NodeID(fmt.Sprintf("shape %d", i)), Output: map[string]string{}}
		for _, field := range fields {
			if !identifier.MatchString(field) {
				return nil, false
			}
			n.Output["output."+field] = "state.end.output." + field
		}
		def.Nodes = append(def.Nodes, n)
		def.Transitions = append(def.Transitions, workflow.Transition{From: d.task, To: n.ID, Condition: fmt.Sprintf("result.shape == %d", i)})
	}
	return def, true
}

// writeStands writes a stand for each subworkflow of a definition; pawl test publishes them before the start. writeStands
// reports false if a subworkflow has no stand: a definition that starts itself by its version cannot have another one.
func (s *script) writeStands(b *strings.Builder, g *compiled.Graph) bool {
	written := map[string]bool{}
	for i := range g.Definition.Nodes {
		spec := g.Definition.Nodes[i].Subworkflow
		if spec == nil {
			continue
		}
		for _, choice := range state.Pinned(spec) {
			own := max(g.Definition.Version, 1)
			if choice.Name == g.Definition.Name && choice.Version == 0 {
				choice.Version = own + 1 // the latest
			} else if choice.Name == g.Definition.Name && choice.Version == own {
				return false
			}
			key := fmt.Sprintf("%d %s", choice.Version, choice.Name)
			if written[key] {
				continue
			}
			if len(written) == 0 {
				b.WriteString("definitions:\n")
			}
			written[key] = true
			d := s.stands[choice.Name]
			if d == nil { // no run of it
				d = newStand(g, choice.Name)
			}
			def, ok := d.definition(choice.Name, choice.Version)
			if !ok {
				return false
			}
			text, err := json.Marshal(def)
			if err != nil {
				return false
			}
			fmt.Fprintf(b, "  - %s\n", unescaped.Replace(string(text)))
		}
	}
	return true
}
