package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/value"
)

// A ChangeKind says how a part of a definition differs from what it was. The texts are part of the API.
type ChangeKind string

// The kinds of changes.
const (
	ChangeAdded   ChangeKind = "added"   // it was not there
	ChangeRemoved ChangeKind = "removed" // it is no longer there
	ChangeChanged ChangeKind = "changed" // some of its fields differ
)

// A DefinitionChange is one thing in which a definition differs from an earlier one: a node, a transition or, without
// either, the definition itself.
type DefinitionChange struct {
	Kind       ChangeKind    `json:"change"`
	Node       NodeID        `json:"node,omitzero"`
	Transition TransitionID  `json:"transition,omitzero"`
	Fields     []FieldChange `json:"fields,omitzero"` // the changed fields, by name
}

// A FieldChange is a field that differs in the JSON of a definition, which leaves out a field with its
// default value. A change deeper in a field is not located: a changed merge shows as the field synchronization.
type FieldChange struct {
	Field  string          `json:"field"`
	Before json.RawMessage `json:"before,omitzero"` // nil: it had its default
	After  json.RawMessage `json:"after,omitzero"`  // nil: it has its default
}

// CompareDefinitions returns how a definition differs from an earlier one: first its own fields, then its nodes, then
// its transitions, in their order, and last what was removed. Nodes and transitions are identified by their ids, and
// their positions make no difference, but the order in which transitions are tried is a field of the definition. It
// fails if a definition has no JSON form, a node without an id, or an id twice. nil is an empty definition. Both are
// completed first, so that an explicit default is not a change.
func CompareDefinitions(before, after *Definition) ([]DefinitionChange, error) {
	was, err := dissectDefinition(before)
	if err != nil {
		return nil, err
	}
	is, err := dissectDefinition(after)
	if err != nil {
		return nil, err
	}
	var out, removed []DefinitionChange
	// The definition itself comes first, then what there is now, in its order, and at last what is gone.
	own := changedFields(was.own, is.own)
	// An added or removed transition moves others without changing their order: only the transitions that are in both
	// are compared.
	if a, b := commonIDs(was.order, is.transitions), commonIDs(is.order, was.transitions); !slices.Equal(a, b) {
		own = append(own, FieldChange{"order of transitions", listJSON(a), listJSON(b)})
	}
	if len(own) > 0 {
		out = append(out, DefinitionChange{Kind: ChangeChanged, Fields: own})
	}
	for _, id := range is.nodeOrder {
		if c, differs := changeOf(was.nodes, is.nodes, id); differs {
			c.Node = id
			out = append(out, c)
		}
	}
	for _, id := range is.order {
		if c, differs := changeOf(was.transitions, is.transitions, id); differs {
			c.Transition = id
			out = append(out, c)
		}
	}
	for _, id := range was.nodeOrder {
		// A node that has another id counts as one that was removed and one that was added.
		if is.nodes[id] == nil {
			removed = append(removed, DefinitionChange{Kind: ChangeRemoved, Node: id})
		}
	}
	for _, id := range was.order {
		if is.transitions[id] == nil {
			removed = append(removed, DefinitionChange{Kind: ChangeRemoved, Transition: id})
		}
	}
	return append(out, removed...), nil
}

// jsonFields are those of an object, as canonical JSON. The same value has the same bytes.
type jsonFields map[string]json.RawMessage

// A dissected definition has its parts by id, and their order. own has the fields of the definition but its nodes and
// transitions.
type dissected struct {
	own         jsonFields
	nodes       map[NodeID]jsonFields
	nodeOrder   []NodeID
	transitions map[TransitionID]jsonFields
	order       []TransitionID
}

// dissectDefinition takes a definition apart by way of its JSON: the format says what a field is, and no comparison
// has to be written for a field that is added.
func dissectDefinition(d *Definition) (*dissected, error) {
	c := d.completed()
	data, err := c.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := &dissected{nodes: map[NodeID]jsonFields{}, transitions: map[TransitionID]jsonFields{}}
	// Both readings are of the same bytes: once for the fields of the whole, once for those of the parts.
	var lists struct{ Nodes, Transitions []jsonFields }
	if err := json.Unmarshal(data, &out.own); err != nil {
		return nil, fmt.Errorf("definition %q as JSON: %w", c.Name, err)
	}
	if err := json.Unmarshal(data, &lists); err != nil {
		return nil, fmt.Errorf("definition %q as JSON: %w", c.Name, err)
	}
	// These two are compared by their parts.
	delete(out.own, "nodes")
	delete(out.own, "transitions")
	// The lists have the order of the definition, so the ids are taken from there.
	for i, fields := range lists.Nodes {
		id := c.Nodes[i].ID
		// A definition need not be valid to be compared, but its parts must be told apart.
		if id == "" || out.nodes[id] != nil {
			return nil, fmt.Errorf("definition %q: node %d has no id of its own: %q", c.Name, i, string(id))
		}
		out.nodes[id], out.nodeOrder = fields, append(out.nodeOrder, id)
	}
	for i, fields := range lists.Transitions {
		id := c.Transitions[i].ID
		if out.transitions[id] != nil {
			return nil, fmt.Errorf("definition %q: transition %d has no id of its own: %q", c.Name, i, string(id))
		}
		out.transitions[id], out.order = fields, append(out.order, id)
	}
	return out, nil
}

// changeOf compares a part that a definition has with what it was before. It reports false where nothing has changed.
func changeOf[ID comparable](was, is map[ID]jsonFields, id ID) (DefinitionChange, bool) {
	before := was[id]
	if before == nil {
		return DefinitionChange{Kind: ChangeAdded}, true
	}
	fields := changedFields(before, is[id])
	return DefinitionChange{Kind: ChangeChanged, Fields: fields}, len(fields) > 0
}

// changedFields returns the fields that differ, by name.
func changedFields(was, is jsonFields) (out []FieldChange) {
	// The union of both: a field that one of them lacks has its default there.
	names := maps.Clone(was)
	if names == nil {
		names = jsonFields{}
	}
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		// A field with its default is in neither text, and equal.
		if !bytes.Equal(was[name], is[name]) {
			out = append(out, FieldChange{name, was[name], is[name]})
		}
	}
	return out
}

// commonIDs returns those of a list that are in a map, in the order of the list. Both lists, reduced to what they
// have in common, differ only if the order does.
func commonIDs(ids []TransitionID, in map[TransitionID]jsonFields) (out []TransitionID) {
	for _, id := range ids {
		if in[id] != nil {
			out = append(out, id)
		}
	}
	return out
}

// listJSON returns ids as a JSON list.
func listJSON(ids []TransitionID) json.RawMessage {
	list := make([]any, len(ids))
	for i, id := range ids {
		list[i] = string(id)
	}
	return value.Encode(list)
}
