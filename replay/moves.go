package replay

import (
	"iter"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Move is what one record changed of the tokens of a run.
type Move struct {
	Seq    int64        `json:"record"`
	At     time.Time    `json:"at"`
	Tokens []MovedToken `json:"tokens,omitempty"` // that are new or have changed, by id
}

// A MovedToken is a token as a record left it.
type MovedToken struct {
	Token   workflow.TokenID     `json:"token"`
	Node    workflow.NodeID      `json:"node"`
	Status  workflow.TokenStatus `json:"status"`
	Scope   workflow.Scope       `json:"scope,omitzero"`
	Attempt int                  `json:"attempt,omitzero"`
	Failed  bool                 `json:"failed,omitzero"` // it has a failure: of its last attempt, or of its end
	Began   time.Time            `json:"began,omitzero"`  // of an attempt that the record ends: when somebody began to perform it, if that is known
}

// Moves plays a recording and yields a Move for each record, in order. An error ends the list:
// the recording cannot be read, or its records do not fit each other.
//
// The state collects the tokens that a record has changed; taking these changes after each record
// empties the collection for the next. A run with many branches thus costs what changes, and not the
// number of its tokens for each record.
func Moves(rec *Recording) iter.Seq2[Move, error] {
	return func(yield func(Move, error) bool) {
		p := newPlayer(rec)
		for r, err := range rec.eachRecord() {
			if err == nil {
				err = p.applyRecord(&r)
			}
			if err != nil {
				yield(Move{}, err)
				return
			}
			m, of := Move{Seq: r.Seq, At: r.At}, state.TokenOf(r.Message)
			for _, t := range p.state.TakeChanges().Tokens {
				moved := MovedToken{Token: t.ID, Node: t.Node, Status: t.Status, Scope: t.Scope, Attempt: t.Attempt, Failed: t.Failure != nil}
				if t.ID == of {
					moved.Began = state.BeganOf(r.Message)
				}
				m.Tokens = append(m.Tokens, moved)
			}
			if !yield(m, nil) {
				return
			}
		}
	}
}
