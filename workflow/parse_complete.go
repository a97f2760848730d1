package workflow

import (
	"slices"
	"strconv"

	"github.com/pawl-run/pawl/internal/value"
)

// completed returns a copy of d with its version, the ids of its transitions, the settings of its groups on those
// that synchronize them, and its schemas and first state in the form of the JSON model. The copy shares the unchanged
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
	// Transitions change as they are completed, so they are copied; nodes have another schema at most.
	c.Transitions = slices.Clone(d.Transitions)
	completeIDs(c.Transitions)
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

// completeIDs gives each transition without an id its default: FROM->TO, or the first of FROM->TO#2, FROM->TO#3 and
// so on that is not taken. Example: three transitions from a to b without ids are a->b, a->b#2 and a->b#3. An id that
// the definition gives to another transition is passed over, wherever that one stands.
func completeIDs(ts []Transition) {
	taken := make(map[TransitionID]bool, len(ts))
	for i := range ts {
		taken[ts[i].ID] = true
	}
	// The number that was given last is kept for each pair of nodes: a search from 2 each time would cost the square
	// of their number.
	last := map[TransitionID]int{}
	for i := range ts {
		t := &ts[i]
		if t.ID != "" {
			continue
		}
		id := TransitionID(t.From) + "->" + TransitionID(t.To)
		t.ID = id
		for n := max(last[id], 1) + 1; taken[t.ID]; n++ {
			t.ID, last[id] = id+"#"+TransitionID(strconv.Itoa(n)), n
		}
		taken[t.ID] = true
	}
}
