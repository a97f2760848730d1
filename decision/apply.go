package decision

import (
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Apply evolves s by d and returns the events that it tells, numbered: what an
// actor does with each decision of a plan, and what replays them does again. It
// panics as Evolve does.
func Apply(s *state.State, d Decision, record int64, at time.Time) []Event {
	events := Events(s, d)
	for i := range events {
		s.Events++
		events[i].Seq, events[i].Record, events[i].At = s.Facts.Events, record, at
	}
	Evolve(s, d)
	return events
}

// Outcome returns how a run stands.
func Outcome(s *state.State) workflow.Outcome {
	return workflow.Outcome{
		Run: s.Run, Status: s.Status, Output: s.Output, Failure: s.Failure,
		StartedAt: s.StartedAt, EndedAt: s.EndedAt, Artifacts: endedArtifacts(s),
	}
}

// endedArtifacts returns the artifacts of a run that has ended.
func endedArtifacts(s *state.State) []workflow.Artifact {
	if !s.Status.Final() {
		return nil
	}
	return s.Artifacts
}
