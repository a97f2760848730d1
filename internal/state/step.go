package state

import "github.com/pawl-run/pawl/workflow"

// A StepPhase says how a node of a dag stands.
type StepPhase uint8

// The phases of a step. StepDone and the ones after it are final.
const (
	StepWaiting StepPhase = iota // for its incoming transitions
	StepStarted                  // its token is made
	StepDone                     // its token has ended
	StepSkipped                  // it never runs
)

var stepPhaseNames = [...]string{"waiting", "started", "done", "skipped"}

// String returns the text form: waiting, started, done or skipped.
func (p StepPhase) String() string { return stepPhaseNames[p] }

// A Step is a node of a dag and how far its incoming transitions are resolved. Steps are immutable: a change replaces
// the step. A node to which nothing has happened has no step; it is waiting, with nothing resolved. When Resolved is
// the number of its incoming transitions, or enough of them are live for its join, it starts or is skipped, which is
// final: in a dag a node runs at most once.
type Step struct {
	Node     workflow.NodeID `json:"node"`
	Phase    StepPhase       `json:"phase,omitzero"`
	Resolved int             `json:"resolved,omitzero"` // incoming transitions that are taken or dead
	Live     int             `json:"live,omitzero"`     // of these, taken ones
}

// Step returns the step of a node: a fresh one, if nothing has happened to it.
func (s *State) Step(id workflow.NodeID) Step {
	for t := s; t != nil; t = t.base {
		if x := t.steps[id]; x != nil {
			return *x
		}
	}
	return Step{Node: id}
}

// PutStep replaces the step of a node. In a state without base the step is written to the store with the next
// changes.
func (s *State) PutStep(x *Step) {
	if s.steps == nil {
		s.steps = map[workflow.NodeID]*Step{}
	}
	s.steps[x.Node] = x
	if s.base != nil {
		return
	}
	if s.changes.steps == nil {
		s.changes.steps = map[workflow.NodeID]bool{}
	}
	s.changes.steps[x.Node] = true
}
