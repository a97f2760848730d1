package workflow

import (
	"slices"

	"github.com/pawl-run/pawl/internal/edges"
	"github.com/pawl-run/pawl/internal/value"
)

// completed returns a copy of d with its version, the ids of its transitions, the settings of its groups on those
// that synchronize them, its schemas and first state in the form of the JSON model, and without a mode and outcomes that are the
// default, as its text has none: a patch compares them. The copy shares the unchanged
// parts with d; d is not modified. The copy of nil is empty. Only completed definitions are checked, hashed,
// compiled, compared and published, so that it makes no difference how much of one was written out. To complete it
// twice changes nothing.
func (d *Definition) completed() *Definition {
	if d == nil {
		d = &Definition{}
	}
	c := *d
	if c.Version == 0 {
		c.Version = 1
	}
	if c.Mode == ModeGraph {
		c.Mode = ""
	}
	// Transitions change as they are completed, so they are copied; nodes have another schema at most.
	c.Transitions = slices.Clone(d.Transitions)
	completeIDs(c.Transitions)
	for i := range c.Transitions {
		if t := &c.Transitions[i]; t.Outcome == OnSuccess {
			t.Outcome = ""
		}
	}
	c.spreadGroups()
	c.Nodes = slices.Clone(d.Nodes)
	for i := range c.Nodes {
		c.Nodes[i].OutputSchema = modelValue(c.Nodes[i].OutputSchema)
	}
	c.Input.Schema = modelValue(d.Input.Schema)
	c.State.Schema, c.Output.Schema = modelValue(d.State.Schema), modelValue(d.Output.Schema)
	if d.State.Initial != nil {
		c.State.Initial, _ = modelValue(d.State.Initial).(map[string]any)
	}
	return &c
}

// modelValue returns v in the form of the JSON model. A value that has none is returned as it is, and reported when
// the definition is checked. Numbers, lists and objects of a Go value, such as int or []string, become those of JSON,
// so that it makes no difference how a definition came about.
func modelValue(v any) any {
	if v == nil {
		return nil
	}
	n, err := value.Normalize(v, value.Limits{})
	if err != nil {
		return v
	}
	return n
}

// completeIDs gives each transition without an id its default.
func completeIDs(ts []Transition) {
	edges.NameEdges(len(ts), func(i int) (id *TransitionID, from, to NodeID) { return &ts[i].ID, ts[i].From, ts[i].To })
}
