package inspector

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// migrationOf returns the operations of a patch that make of the definition of a run the latest one that is published under its name.
//
// A node or transition that differs is replaced as a whole. The error is errAct if there is nothing to change, or nothing is published.
func (s *server) migrationOf(p *page, id workflow.RunID) (string, error) {
	has, _, err := s.engine.Definition(p.r.Context(), id)
	if err != nil {
		return "", err
	}
	latest, err := s.engine.Published(p.r.Context(), has.Name, 0)
	if errors.Is(err, pawl.ErrNotPublished) {
		return "", fmt.Errorf("%w: no definition is published under the name %s", errAct, has.Name)
	}
	if err != nil {
		return "", err
	}
	changes, err := workflow.CompareDefinitions(has, latest)
	if err != nil {
		return "", err
	}
	parts, err := partsOfDefinition(latest)
	if err != nil {
		return "", err
	}
	var ops []patchOp
	for _, c := range changes {
		ops = append(ops, parts.opsOf(c)...)
	}
	if len(ops) == 0 {
		return "", fmt.Errorf("%w: the run has the latest version of %s already", errAct, has.Name)
	}
	text, err := json.MarshalIndent(ops, "", " ")
	return string(text), err
}

// A patchOp is an operation of a patch, as RFC 6902 has it.
type patchOp struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
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
	parts := definitionParts{}
	for i, node := range of.Nodes {
		if err := parts.addPart(nodePath(d.Nodes[i].ID), node); err != nil {
			return nil, err
		}
	}
	for i, transition := range of.Transitions {
		if err := parts.addPart(transitionPath(d.Transitions[i].ID), transition); err != nil {
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

// opsOf returns the operations for one change. No operation changes the order of transitions: new ones come last.
func (parts definitionParts) opsOf(c workflow.DefinitionChange) (ops []patchOp) {
	path := ""
	switch {
	case c.Node != "":
		path = nodePath(c.Node)
	case c.Transition != "":
		path = transitionPath(c.Transition)
	default:
		for _, f := range c.Fields {
			if f.Field == "version" || strings.Contains(f.Field, " ") { // the run keeps its version, and the order of transitions is no field
				continue
			}
			op := patchOp{Op: "add", Path: "/" + f.Field, Value: f.After}
			if f.After == nil {
				op = patchOp{Op: "remove", Path: op.Path}
			}
			ops = append(ops, op)
		}
		return ops
	}
	if c.Kind == workflow.ChangeRemoved {
		return []patchOp{{Op: "remove", Path: path}}
	}
	return []patchOp{{Op: "add", Path: path, Value: parts[path]}}
}
