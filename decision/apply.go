package decision

import (
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Evolve applies d to s. It is the meaning of a decision. It panics if d cannot
// follow from s: a planner has broken an invariant.
//
// Planners call it on an overlay with each decision as they make it, and Apply calls it on
// the run's own state. That both go through this one function is why a plan cannot mean one
// thing to the planner that made it and another to the run that takes it, or to a replay
// years later.
func Evolve(s *state.State, d Decision) { d.evolveState(s) }

// Events returns what d tells the world, given the state before it. It is pure and total; it
// panics if d cannot follow from s. Seq, Record and At are left to the caller. It needs the
// state before because many decisions take away what the event tells: the node of a token,
// the attempt that failed, the tokens that were alive.
func Events(s *state.State, d Decision) []Event { return d.toldEvents(s) }

// Withdrawn returns the tokens whose running task or child d makes unwanted, given the state
// before it: their executors, or the child runs, are told to stop. It panics as Evolve does.
// An actor asks before it applies the decision, and tells them only after the commit: a
// decision whose commit fails must not have stopped anything.
func Withdrawn(s *state.State, d Decision) []workflow.TokenID { return d.withdrawnTokens(s) }

// Apply evolves s by d, a decision of record r, and returns the events that d causes,
// numbered and with the name of whoever sent the message. A replay calls it with each
// decision of the journal. It panics as Evolve does.
func Apply(s *state.State, d Decision, r *Record) []Event { return EventsOf(ApplyTo(nil, s, d, r)) }

// ApplyTo is Apply, and adds the events to told. An actor calls it with each decision of a plan.
func ApplyTo(told []Told, s *state.State, d Decision, r *Record) []Told {
	s.CountRecord(r.Seq, r.Planner, r.Message)
	before := len(told)
	told = appendEvents(told, s, d)
	// Events are numbered in the order in which they are told, over all records of the run.
	// The additions look at the state as it was, so that they come before Evolve.
	for i := before; i < len(told); i++ {
		t := &told[i]
		s.Events++
		t.event.Seq, t.event.Record, t.event.At = s.Facts.Events, r.Seq, r.At
		addBegan(r.Message, t)
		nameActor(r.Message, t)
		if t.later == nil { // else it tells of no time-out and no failure
			addElapsed(s, &t.event)
			addMetadata(r.Message, &t.event)
		}
	}
	Evolve(s, d)
	return told
}

// Outcome returns how a run stands.
//
// For a run that goes on, the failure is that of a join which can no longer be met, if there
// is one, or why the run is suspended.
func Outcome(s *state.State) workflow.Outcome {
	return workflow.Outcome{
		Run: s.Run, Status: s.Status, Output: s.Output, Failure: s.FailureOrIncident(),
		StartedAt: s.StartedAt, EndedAt: s.EndedAt, Artifacts: endedArtifacts(s),
	}
}

// endedArtifacts returns the artifacts of a run that has ended. While a run goes on they are
// only staged, and no outcome lists them. The engine leaves them out of the outcome of a run
// that ended otherwise than completed, unless it is told to keep them.
func endedArtifacts(s *state.State) []workflow.Artifact {
	if !s.Status.Final() {
		return nil
	}
	return s.Artifacts
}

// runningTokens returns those of ids whose task is with the executor, or whose child runs.
// Only these have something outside the run that can be told to stop. A token in a back-off,
// at a timer, an approval or a lock has none: that it ends is all that happens to it.
func runningTokens(s *state.State, ids ...workflow.TokenID) []workflow.TokenID {
	var out []workflow.TokenID
	for _, id := range ids {
		if t := s.Token(id); t != nil && (t.Status == workflow.Dispatched || t.Status == workflow.WaitingForChild) {
			out = append(out, id)
		}
	}
	return out
}
