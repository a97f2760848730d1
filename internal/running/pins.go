package running

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// ResolvePins resolves every subworkflow that a run of g can reach, and that it does not know yet, to
// the definition that is published under its name now. A run without subworkflows has no pins.
//
// Pins are found when the root starts, and its children inherit them: a definition that is
// published later changes nothing for a run that goes on. It looks breadth first, through all
// definitions that may be reached, and asks for each name and version once; recursion of
// definitions ends there, and so does a pin that is known, since all below it were pinned with it.
func ResolvePins(ctx context.Context, dir *store.Dir, g *compiled.Graph, known state.Pins) (state.Pins, error) {
	var pins state.Pins
	asked, seen := map[state.Pin]bool{}, map[string]bool{}
	for graphs := []*compiled.Graph{g}; len(graphs) > 0; graphs = graphs[1:] {
		for _, c := range childrenOf(graphs[0]) {
			name := state.Pin{Name: c.spec.Name, Version: c.spec.Version}
			if asked[name] || known.Of(&c.spec) != "" {
				continue
			}
			asked[name] = true
			hash, err := dir.Published(ctx, c.spec.Name, c.spec.Version)
			if err != nil {
				return nil, fmt.Errorf("node %q of %s: %w", string(c.node), graphs[0].Definition.Name, refusal.Closed(err))
			}
			pins = append(pins, state.Pin{Name: c.spec.Name, Version: c.spec.Version, Hash: hash})
			if seen[hash] {
				continue
			}
			seen[hash] = true
			child, err := dir.GraphUntil(ctx, hash)
			if err != nil {
				return nil, fmt.Errorf("node %q of %s: %w", string(c.node), graphs[0].Definition.Name, refusal.Closed(err))
			}
			graphs = append(graphs, child)
		}
	}
	return pins, nil
}

// A childSpec is a definition that a node may run as a child.
type childSpec struct {
	node workflow.NodeID
	spec workflow.SubworkflowSpec
}

// childrenOf returns what the nodes of a graph may run as children, in definition order.
func childrenOf(g *compiled.Graph) (out []childSpec) {
	for i := range g.Definition.Nodes {
		n := &g.Definition.Nodes[i]
		if n.Subworkflow == nil {
			continue
		}
		for _, s := range state.Pinned(n.Subworkflow) {
			out = append(out, childSpec{n.ID, s})
		}
	}
	return out
}
