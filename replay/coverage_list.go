package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
)

// Definitions returns what was counted, by workflow, version and hash.
//
// The result is the coverage's own and changes with the next Add, lists excepted.
func (c *Coverage) Definitions() []*DefinitionCoverage {
	var out []*DefinitionCoverage
	for _, d := range c.byHash {
		out = append(out, d)
		d.listCounts()
	}
	slices.SortFunc(out, func(a, b *DefinitionCoverage) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Hash, b.Hash))
	})
	return out
}

// listCounts brings the counts into definition order.
// The joins of nodes come with their nodes, those of groups behind all of them, by name: a graph keeps
// groups in a map, whose order must not be seen.
func (d *DefinitionCoverage) listCounts() {
	d.Nodes, d.Transitions, d.Joins = nil, nil, nil
	for i := range d.graph.Definition.Nodes {
		id := d.graph.Definition.Nodes[i].ID
		d.Nodes = append(d.Nodes, *d.nodes[id])
		if j := d.joins[joinKey("", id)]; j != nil {
			d.Joins = append(d.Joins, *j)
		}
		for _, t := range d.graph.Node(id).Outgoing {
			d.Transitions = append(d.Transitions, *d.transitions[t.ID])
		}
	}
	var groups []JoinCoverage
	for _, j := range d.joins {
		if j.Group != "" {
			groups = append(groups, *j)
		}
	}
	slices.SortFunc(groups, func(a, b JoinCoverage) int { return cmp.Compare(a.Group, b.Group) })
	d.Joins = append(d.Joins, groups...)
}

// Never lists what no run went through, a line each: nodes, what their expressions may choose,
// transitions, whole tiers, joins and branches, in definition order. Transitions from a node that was never
// reached are left out.
//
// It tells the least that says all: where a node was not reached, nothing of its transitions; where a
// whole tier was not taken, one line; a join that no group has come to as "never decided", one that
// only failed as "never fired".
func (d *DefinitionCoverage) Never() (out []string) {
	if d.graph == nil {
		return nil
	}
	if len(d.Nodes) == 0 {
		d.listCounts()
	}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Reached == 0 {
			add("node %s was never reached", n.Node)
			continue
		}
		for _, c := range n.Choices {
			if c.Chosen == 0 {
				add("node %s never chose %s", n.Node, c.Name)
			}
		}
		d.addTiers(n, add)
	}
	for i := range d.Joins {
		switch j := &d.Joins[i]; {
		case j.Group == "" && d.nodes[j.Node].Reached > 0 && j.Fired == 0:
			add("the join of node %s never fired", j.Node)
		case j.Group != "" && j.Fired == 0 && j.Failed+j.Abandoned > 0:
			add("the join of %s at %s never fired", j.Group, j.Node)
		case j.Group != "" && j.Fired == 0:
			add("the join of %s at %s was never decided", j.Group, j.Node)
		case j.times && j.TimedOut == 0:
			add("the join of %s at %s never timed out", j.Group, j.Node)
		}
	}
	return out
}

// addTiers adds the transitions and tiers of a node that were never taken, and the fan-outs
// that never had a branch.
//
// A transition that is taken on completion and on failure stands in both lists with one count. It is
// told once, with the completions (i is 0), and keeps a tier for failures from counting as never taken
// if it was taken at all.
func (d *DefinitionCoverage) addTiers(n *NodeCoverage, add func(string, ...any)) {
	g := d.graph.Node(n.Node)
	for i, tiers := range [][][]*compiled.Transition{g.Success, g.Failure} {
		word := ""
		if i == 1 {
			word = "error "
		}
		for _, tier := range tiers {
			number, never := tier[0].Priority, 0
			for _, t := range tier {
				if d.transitions[t.ID].Taken == 0 {
					never++
				}
			}
			if never == len(tier) && len(tier) > 1 {
				add("no transition of %stier %d of node %s was ever taken", word, number, n.Node)
				continue
			}
			for _, t := range tier {
				x := d.transitions[t.ID]
				switch {
				case x.Taken == 0 && (!x.always || i == 0):
					add("transition %s [%stier %d] was never taken", t.ID, word, number)
				case x.Taken > 0 && x.fans && x.Branches == 0 && i == 0:
					add("transition %s never made a branch", t.ID)
				}
			}
		}
	}
}
