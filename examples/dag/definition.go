package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/build"
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
	b := build.New("dag").DAG(true).State(nil, map[string]any{"packages": map[string]any{}})
	var all []workflow.NodeID
	for _, p := range packages {
		path := strconv.Quote(p.Path)
		var imports []workflow.NodeID
		for _, i := range p.Imports {
			imports = append(imports, workflow.NodeID(i))
		}
		id := workflow.NodeID(p.Path)
		b.Task(id).Type("count").Needs(imports...).
			Input("package", path).
			Input("files", "input.files["+path+"]").
			Input("imports", results(p.Imports)).
			Output("state.packages["+path+"]", "result")
		all = append(all, id)
	}
	b.Task(report).Type("report").Needs(all...).Input("packages", "state.packages").Output("output", "result")
	return b.MustDefinition()
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
