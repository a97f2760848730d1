package decision

import (
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// An Event tells the world what a decision changed. Events of a run are
// numbered from 1 without gaps.
//
// It is derived from a decision and the state before it, so that a replay of the journal
// gives the same events again; nothing is decided by what they say.
type Event struct {
	Seq    int64              `json:"seq"`            // set by whoever keeps the event
	Record int64              `json:"record"`         // sequence of the journal record that it belongs to
	At     time.Time          `json:"at"`             // of that record
	Type   workflow.EventType `json:"type"`           // what happened
	Token  workflow.TokenID   `json:"token,omitzero"` // whose, if it concerns one
	Node   workflow.NodeID    `json:"node,omitzero"`  // where
	Group  workflow.GroupID   `json:"group,omitzero"` // the group, if the event concerns one
	Data   map[string]any     `json:"data,omitzero"`  // particulars, by type; nil if none
}
