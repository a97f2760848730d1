package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/workflow"
)

// report is the node that comes last. It is no import path.
const report = "(report)"

// definition returns the workflow: a node per package, which needs those that
// the package imports. It has no transitions besides: needs are short for them.
//
//	unsafe --> errors --> io --> ... --> net/http --> (report)
//
// In a dag there are no tokens to think of: a node runs once, when all that
// leads to it is resolved, beside all other nodes that are ready.
func definition(packages []pkg) *workflow.Definition {
	def := &workflow.Definition{
		Name: "dag", Mode: workflow.ModeDAG,
		State: workflow.StateSpec{Initial: map[string]any{"packages": map[string]any{}}},
	}
	last := workflow.Node{
		ID: report, Task: "report",
		Input:  map[string]string{"packages": "state.packages"},
		Output: map[string]string{"output": "result"},
	}
	for _, p := range packages {
		path := strconv.Quote(p.Path)
		n := workflow.Node{
			ID: workflow.NodeID(p.Path), Task: "count",
			Input: map[string]string{
				"package": path,
				"files":   "input.files[" + path + "]",
				"imports": results(p.Imports),
			},
			Output: map[string]string{"state.packages[" + path + "]": "result"},
		}
		for _, i := range p.Imports {
			n.Needs = append(n.Needs, workflow.NodeID(i))
		}
		def.Nodes = append(def.Nodes, n)
		last.Needs = append(last.Needs, n.ID)
	}
	def.Nodes = append(def.Nodes, last)
	return def
}

// results returns an expression for the results of some nodes, by their id: in
// a dag data flows through nodes.
func results(ids []string) string {
	fields := make([]string, len(ids))
	for i, id := range ids {
		fields[i] = fmt.Sprintf("%q: nodes[%q].output", id, id)
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
