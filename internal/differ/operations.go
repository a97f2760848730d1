// Package differ words what differs between two definitions: as the operations of a patch, and in lines for people.
package differ

import (
	"encoding/json"
	"strings"

	"github.com/pawl-run/pawl/internal/edges"
	"github.com/pawl-run/pawl/workflow"
)

// An Operation is one of a patch, as RFC 6902 has it.
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// FindOperations returns the operations of a patch that make one definition of another; none if a run of the one has nothing to change.
// A node or transition that differs is replaced as a whole. The version is left as it is, and so is the order of transitions, for which
// there is no operation: new ones come last.
func FindOperations(from, to *workflow.Definition) ([]Operation, error) {
	changes, err := workflow.CompareDefinitions(from, to)
	if err != nil {
		return nil, err
	}
	parts, err := partsOfDefinition(to)
	if err != nil {
		return nil, err
	}
	var ops []Operation
	for i := range changes {
		ops = append(ops, parts.operationsOf(&changes[i])...)
	}
	return ops, nil
}

// definitionParts are the nodes and transitions of a definition in JSON, by the path that a patch has for them.
type definitionParts map[string]json.RawMessage

// partsOfDefinition takes a definition apart by way of its JSON. An id stands in the path, and not in the part.
func partsOfDefinition(d *workflow.Definition) (definitionParts, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var of struct{ Nodes, Transitions []map[string]json.RawMessage }
	if err := json.Unmarshal(text, &of); err != nil {
		return nil, err
	}
	ids := make([]workflow.TransitionID, len(d.Transitions)) // with those that the text leaves out
	for i := range ids {
		ids[i] = d.Transitions[i].ID
	}
	edges.NameEdges(len(ids), func(i int) (id *workflow.TransitionID, from, to workflow.NodeID) {
		return &ids[i], d.Transitions[i].From, d.Transitions[i].To
	})
	parts := definitionParts{}
	for i, node := range of.Nodes {
		if err := parts.addPart(nodePath(d.Nodes[i].ID), node); err != nil {
			return nil, err
		}
	}
	for i, transition := range of.Transitions {
		if err := parts.addPart(transitionPath(ids[i]), transition); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func (parts definitionParts) addPart(path string, of map[string]json.RawMessage) error {
	delete(of, "id")
	text, err := json.Marshal(of)
	parts[path] = text
	return err
}

// pathSegments escapes an id for a path of a patch.
var pathSegments = strings.NewReplacer("~", "~0", "/", "~1")

func nodePath(id workflow.NodeID) string { return "/nodes/" + pathSegments.Replace(string(id)) }

func transitionPath(id workflow.TransitionID) string {
	return "/transitions/" + pathSegments.Replace(string(id))
}

// operationsOf returns the operations for one change.
func (parts definitionParts) operationsOf(c *workflow.DefinitionChange) (ops []Operation) {
	path := ""
	switch {
	case c.Node != "":
		path = nodePath(c.Node)
	case c.Transition != "":
		path = transitionPath(c.Transition)
	default:
		for _, f := range c.Fields {
			if f.Field == "version" || strings.Contains(f.Field, " ") { // the order of transitions is no field
				continue
			}
			op := Operation{Op: "add", Path: "/" + f.Field, Value: f.After}
			if f.After == nil {
				op = Operation{Op: "remove", Path: op.Path}
			}
			ops = append(ops, op)
		}
		return ops
	}
	if c.Kind == workflow.ChangeRemoved {
		return []Operation{{Op: "remove", Path: path}}
	}
	return []Operation{{Op: "add", Path: path, Value: parts[path]}}
}
