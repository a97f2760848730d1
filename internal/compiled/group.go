package compiled

import (
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// addGroups makes a GroupSpec of every sibling group that is named, and leads from each transition to the group that
// it spawns or joins. The settings of groups have been spread over the transitions before.
func (b *builder) addGroups() {
	g := b.graph
	for i := range g.Definition.Transitions {
		t := g.Transitions[g.Definition.Transitions[i].ID]
		if t.SiblingGroup != "" {
			t.Spawns = b.groupSpec(t.SiblingGroup)
			// In definition order, in which a routing numbers the branches.
			t.Spawns.Spawners = append(t.Spawns.Spawners, t)
		}
		if t.Synchronization == nil {
			continue
		}
		t.Joins = b.groupSpec(t.Synchronization.SiblingGroup)
		t.Joins.Joins = append(t.Joins.Joins, t)
		// The first join has told all: the others agree with it.
		if t.Joins.Sync != nil {
			continue
		}
		t.Joins.Sync, t.Joins.To = syncWithDefaults(t.Synchronization), t.To
		if e := t.Synchronization.Errors; e != "" {
			path, err := value.ParsePath(e)
			if err != nil {
				b.keepError(err)
			}
			t.Joins.Errors = path
		}
		// The paths were checked, and are kept apart into their segments.
		if m := t.Synchronization.Merge; m != nil {
			if m.Target != "" {
				path, err := value.ParsePath(m.Target)
				if err != nil {
					b.keepError(err)
				}
				t.Joins.Target = path
			}
			t.Joins.MergedIn = b.graph.Nodes[t.To].mergedField(m.Target)
		}
	}
}

// mergedField returns the field of a node's input that is the whole value which the join of a group has merged into
// target; "" if none is, or something else may be written there before the input is evaluated. The merged value is a
// part of that input then, and the planner bounds it as one: the join fails, and not the node behind it.
func (n *Node) mergedField(target string) string {
	// Elsewhere the input is evaluated later, or not at all, and state may be another by then.
	if n.Kind != workflow.KindTask && n.Kind != workflow.KindSubworkflow || n.Join != workflow.JoinNone || n.Lock != "" {
		return ""
	}
	// result is the merged value for the node behind the join, and the target has it as well.
	for _, field := range slices.Sorted(maps.Keys(n.Node.Input)) {
		if source := strings.TrimSpace(n.Node.Input[field]); source == "result" || source == target {
			return field
		}
	}
	return ""
}

// groupSpec returns the group of a name, made if need be: a definition may name its join before its fan-out.
func (b *builder) groupSpec(name string) *GroupSpec {
	s := b.graph.Groups[name]
	if s == nil {
		s = &GroupSpec{Name: name}
		b.graph.Groups[name] = s
	}
	return s
}
