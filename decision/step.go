package decision

import (
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// StartStep notes that a node of a dag has its token.
//
// It is followed by the CreateToken of that token. A step leaves StepWaiting once, which is
// why a node of a dag runs at most once.
type StartStep struct {
	Node workflow.NodeID `json:"node"`
}

// String implements fmt.Stringer.
func (d StartStep) String() string {
	return newLine("start-step").addField("node", string(d.Node)).String()
}

func (d StartStep) evolveState(s *state.State) {
	x := s.Step(d.Node)
	x.Phase = state.StepStarted
	s.PutStep(&x)
}

func (StartStep) toldEvents(*state.State) []Event                 { return nil }
func (StartStep) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// EndStep resolves the transitions that leave a node of a dag: those listed
// are taken, the others dead. Skipped says that the node never runs.
//
// Where all are taken, All saves a list that may be as long as the node has transitions. A
// node whose failure nothing catches, or whose token was cancelled, takes none.
type EndStep struct {
	Node    workflow.NodeID         `json:"node"`
	Taken   []workflow.TransitionID `json:"taken,omitzero"`
	All     bool                    `json:"all,omitzero"` // all are taken, none is listed
	Skipped bool                    `json:"skipped,omitzero"`
}

// String implements fmt.Stringer.
func (d EndStep) String() string {
	return newLine("end-step").addField("node", string(d.Node)).addField("taken", joinNames(d.Taken)).addFlag("all", d.All).addFlag("skipped", d.Skipped).String()
}

// evolveState counts every transition that leaves the node as resolved at the node where it
// leads, and those that are taken as live there. The transitions to a node are thus only
// counted, never looked through, so that a graph costs time in proportion to its nodes and
// transitions.
func (d EndStep) evolveState(s *state.State) {
	x := s.Step(d.Node)
	x.Phase = state.StepDone
	n := s.Graph.Node(d.Node)
	if d.Skipped {
		x.Phase = state.StepSkipped
		if n.KeepsEnd {
			s.SetData(workflow.Scope{}, []string{state.SectionNodes, string(d.Node)}, map[string]any{"status": "skipped"})
		}
	}
	s.PutStep(&x)
	taken := d.Taken // in definition order, as what leaves the node
	for _, t := range n.Outgoing {
		y := s.Step(t.To)
		y.Resolved++
		switch {
		case d.All:
			y.Live++
		case len(taken) > 0 && taken[0] == t.ID:
			y.Live++
			taken = taken[1:]
		}
		s.PutStep(&y)
	}
}

func (d EndStep) toldEvents(*state.State) []Event {
	if !d.Skipped {
		return nil
	}
	return []Event{{Type: workflow.EventNodeSkipped, Node: d.Node}}
}

func (EndStep) withdrawnTokens(*state.State) []workflow.TokenID { return nil }
