package main

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// bounds are those of a text, before anything of it is kept.
func bounds() workflow.Bounds {
	return workflow.Bounds{Bytes: 64 << 10, Expressions: 16 << 10, Nodes: 200, Transitions: 1_000}
}

// limits are those of a run. A definition may lower them further.
func limits() workflow.Limits {
	return workflow.Limits{
		Foreach: 1_000, LiveTokens: 2_000, Tokens: 10_000, Loop: 100,
		CELCost: 100_000, PayloadBytes: 64 << 10, JSONDepth: 32,
		SubworkflowDepth: 1, Descendants: 1, Snoozes: 10,
		RunBytes: 64 << 20, SignalBytes: 1 << 20,
	}
}

// The most that one node and one run may take.
const (
	maxAttempts = 5
	maxTask     = time.Minute    // one attempt
	maxRun      = 24 * time.Hour // from its start
)

// admit reads a tenant's definition and sets what its author may not. It fails with a
// *workflow.DefinitionError; the rest is checked when the run is started.
func admit(tenant string, text []byte, offered pawl.Handlers) (*workflow.Definition, error) {
	def, err := bounds().ParseJSON(text)
	if err != nil {
		return nil, err
	}
	var problems []workflow.Problem
	for i := range def.Nodes {
		problems = append(problems, checkNode(&def.Nodes[i], offered)...)
	}
	if len(problems) > 0 {
		return nil, &workflow.DefinitionError{Name: def.Name, Problems: problems}
	}
	def.Name = tenant + "." + def.Name
	def.Timeout = lower(def.Timeout, maxRun)
	def.Limits = lowerAll(def.Limits, limits())
	return def, nil
}

// checkNode bounds a node, and returns what it asks for that is not offered.
func checkNode(n *workflow.Node, offered pawl.Handlers) []workflow.Problem {
	var problems []workflow.Problem
	refuse := func(field, format string, args ...any) {
		problems = append(problems, workflow.Problem{Code: "unknown_value", Node: n.ID, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if n.Kind() == workflow.KindTask {
		for _, task := range n.TaskTypes() {
			if offered[task] == nil {
				refuse("task", "there is no task %q here", task)
			}
		}
		n.Timeout = lower(n.Timeout, maxTask)
	}
	if n.Subworkflow != nil {
		refuse("subworkflow", "child runs are not offered: they would be of what others have published")
	}
	if n.Retry != nil && n.Retry.MaxAttempts > maxAttempts {
		refuse("retry.maxAttempts", "%d is not in 1..%d", n.Retry.MaxAttempts, maxAttempts)
	}
	return problems
}

// lower returns v if it is set and below most.
func lower[T ~int | ~int64 | ~uint64](v, most T) T {
	if v != 0 && v < most { // what is negative is refused by Start
		return v
	}
	return most
}

// lowerAll lowers all limits but Meta, which bounds what handlers report, such as costs.
func lowerAll(l, most workflow.Limits) workflow.Limits {
	return workflow.Limits{
		Foreach: lower(l.Foreach, most.Foreach), LiveTokens: lower(l.LiveTokens, most.LiveTokens),
		Tokens: lower(l.Tokens, most.Tokens), Loop: lower(l.Loop, most.Loop),
		CELCost: lower(l.CELCost, most.CELCost), PayloadBytes: lower(l.PayloadBytes, most.PayloadBytes),
		JSONDepth: lower(l.JSONDepth, most.JSONDepth), SubworkflowDepth: lower(l.SubworkflowDepth, most.SubworkflowDepth),
		Descendants: lower(l.Descendants, most.Descendants), Snoozes: lower(l.Snoozes, most.Snoozes),
		RunBytes: lower(l.RunBytes, most.RunBytes), SignalBytes: lower(l.SignalBytes, most.SignalBytes),
		Meta: l.Meta,
	}
}
