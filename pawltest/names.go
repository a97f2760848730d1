package pawltest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// eventTypes are those that an expectation may count.
var eventTypes = eventNames(
	workflow.EventWorkflowStarted, workflow.EventWorkflowCompleted, workflow.EventWorkflowFailed,
	workflow.EventWorkflowTimedOut, workflow.EventWorkflowCancelled, workflow.EventWorkflowSuspended,
	workflow.EventWorkflowResumed, workflow.EventWorkflowPaused, workflow.EventArtifactStaged,
	workflow.EventArtifactCommitted, workflow.EventWorkflowPatched, workflow.EventLimitsRaised,
	workflow.EventWorkflowForked, workflow.EventTokenCreated, workflow.EventTokenWaiting, workflow.EventTokenCompleted,
	workflow.EventTokenFailed, workflow.EventTokenTimedOut, workflow.EventTokenCancelled, workflow.EventJoinCompleted,
	workflow.EventNodeSkipped, workflow.EventTaskDispatched, workflow.EventTaskCompleted, workflow.EventTaskFailed,
	workflow.EventTaskRetrying, workflow.EventTaskSnoozed, workflow.EventTaskParked, workflow.EventTaskInputRenewed,
	workflow.EventFanOutStarted, workflow.EventFanInCompleted, workflow.EventFanInAbandoned, workflow.EventFanInFailed,
	workflow.EventFanInShortfall, workflow.EventBranchesMerged, workflow.EventBranchAdded, workflow.EventGroupClosed,
	workflow.EventSubworkflowStarted, workflow.EventSubworkflowCompleted, workflow.EventSubworkflowFailed,
	workflow.EventSignalReceived, workflow.EventSignalTaken, workflow.EventSignalLost, workflow.EventSignalRejected,
	workflow.EventApprovalRequested, workflow.EventApprovalVoted, workflow.EventApprovalDecided,
)

func eventNames(types ...workflow.EventType) map[string]bool {
	out := make(map[string]bool, len(types))
	for _, t := range types {
		out[string(t)] = true
	}
	return out
}

// checkNames finds names that stand for nothing, which would be waited for, counted, or
// kept from starting, in vain. A patch may add any node.
func (s *Scenario) checkNames(e *document.Element) error {
	for _, ref := range eventReferences(e) {
		if !eventTypes[ref.name] {
			return errorAt(ref.at, "%s: there is no event type %q%s", ref.field, ref.name, suggestName(ref.name, eventTypes))
		}
	}
	nodes, definitions := map[string]bool{}, map[string]bool{}
	for _, src := range append(slices.Clone(s.definitions), s.definition) {
		if src.problem != nil {
			return nil
		}
		definitions[src.definition.Name] = true
		for i := range src.definition.Nodes {
			nodes[string(src.definition.Nodes[i].ID)] = true
		}
	}
	if slices.ContainsFunc(s.document.Events, func(e event) bool { return e.Patch.set }) {
		return nil
	}
	for _, ref := range nodeReferences(e) {
		if !nodes[ref.name] {
			return errorAt(ref.at, "%s: no definition has a node %q%s", ref.field, ref.name, suggestName(ref.name, nodes))
		}
	}
	for _, ref := range keysOf("expect: children", e.Member("expect").Member("children")) {
		if !definitions[ref.name] {
			return errorAt(ref.at, "%s: there is no definition %q%s", ref.field, ref.name, suggestName(ref.name, definitions))
		}
	}
	return nil
}

// suggestName returns the known name that differs from a wrong one by a slip, as the end of a message. It returns nothing if no name does.
func suggestName(wrong string, known map[string]bool) string {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if value.NearlyEqual(wrong, name) {
			return fmt.Sprintf("; did you mean %q?", name)
		}
	}
	return ""
}

// A reference is a place of a scenario that names something.
type reference struct {
	field, name string
	at          *document.Element
}

// keysOf returns the keys of an object, if there is one.
func keysOf(field string, of *document.Element) (out []reference) {
	if of == nil {
		return nil
	}
	for i := range of.Members {
		m := &of.Members[i]
		out = append(out, reference{field, m.Key, &document.Element{Line: m.Line, Column: m.Column}})
	}
	return out
}

// eventReferences returns the types of events that a scenario counts: of its runs, of its forks and of simulations.
func eventReferences(e *document.Element) []reference {
	expect := e.Member("expect")
	out := keysOf("expect: events", expect.Member("events"))
	if forks := expect.Member("forks"); forks != nil {
		for i := range forks.Members {
			out = append(out, keysOf("expect: forks: events", forks.Members[i].Value.Member("events"))...)
		}
	}
	events := e.Member("events")
	if events == nil {
		return out
	}
	for _, item := range events.Items {
		if s := item.Member("simulate"); s != nil {
			if x := s.Member("expect"); x != nil {
				out = append(out, keysOf("events: simulate: expect: events", x.Member("events"))...)
			}
		}
	}
	return out
}

// nodeReferences returns the nodes that a scenario names, in the order of the file but for
// its events, which may name nodes that are not there.
func nodeReferences(e *document.Element) []reference {
	out := keysOf("mocks", e.Member("mocks"))
	var addItems func(field string, of *document.Element)
	addItems = func(field string, of *document.Element) {
		for _, item := range of.Items {
			if item.Kind == document.List {
				addItems(field, item)
			} else {
				out = append(out, reference{field, item.Text, item})
			}
		}
	}
	expect := e.Member("expect")
	for i := range expect.Members {
		switch m := &expect.Members[i]; m.Key {
		case "nodes":
			out = append(out, keysOf("expect: nodes", m.Value)...)
		case "never", "before", "path":
			addItems("expect: "+m.Key, m.Value)
		}
	}
	return out
}
