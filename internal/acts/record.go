package acts

import (
	"iter"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
)

// RecordOf returns a record of an engine with the types that its message and its decisions have.
func RecordOf(r *pawl.Record) decision.Record {
	out := decision.Record{Seq: r.Seq, At: r.At, Epoch: state.Epoch(r.Epoch), Planner: r.Planner, Decisions: make([]decision.Decision, len(r.Decisions))}
	out.Message, _ = r.Message.(state.Message)
	for i, d := range r.Decisions {
		out.Decisions[i], _ = d.(decision.Decision)
	}
	return out
}

// Records returns a journal with the types that messages and decisions have.
func Records(journal iter.Seq2[pawl.Record, error]) iter.Seq2[decision.Record, error] {
	return func(yield func(decision.Record, error) bool) {
		for r, err := range journal {
			if !yield(RecordOf(&r), err) {
				return
			}
		}
	}
}
