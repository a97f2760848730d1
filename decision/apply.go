package decision

import (
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Evolve applies d to s. It is the meaning of a decision. It panics if d cannot
// follow from s: a planner has broken an invariant.
func Evolve(s *state.State, d Decision) { d.evolveState(s) }

// Events returns what d tells the world, given the state before it. It is pure
// and total; it panics if d cannot follow from s. Seq, Record and At are left to
// the caller.
func Events(s *state.State, d Decision) []Event { return d.toldEvents(s) }

// Withdrawn returns the tokens whose running task or child d makes unwanted,
// given the state before it: their executors, or the child runs, are told to
// stop. It panics as Evolve does.
func Withdrawn(s *state.State, d Decision) []workflow.TokenID { return d.withdrawnTokens(s) }

// Apply evolves s by d, a decision of record r, and returns the events that d causes,
// numbered and with the name of whoever sent the message. An actor calls it with each
// decision of a plan, and a replay calls it again with each decision of the journal. It
// panics as Evolve does.
func Apply(s *state.State, d Decision, r *Record) []Event {
	events := Events(s, d)
	for i := range events {
		s.Events++
		events[i].Seq, events[i].Record, events[i].At = s.Facts.Events, r.Seq, r.At
		nameActor(r.Message, &events[i])
		addElapsed(s, &events[i])
		addMetadata(r.Message, &events[i])
	}
	Evolve(s, d)
	return events
}

// Outcome returns how a run stands.
func Outcome(s *state.State) workflow.Outcome {
	return workflow.Outcome{
		Run: s.Run, Status: s.Status, Output: s.Output, Failure: s.FailureOrIncident(),
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

// runningTokens returns those of ids whose task is with the executor, or whose
// child runs.
func runningTokens(s *state.State, ids ...workflow.TokenID) []workflow.TokenID {
	var out []workflow.TokenID
	for _, id := range ids {
		if t := s.Token(id); t != nil && (t.Status == workflow.Dispatched || t.Status == workflow.WaitingForChild) {
			out = append(out, id)
		}
	}
	return out
}
