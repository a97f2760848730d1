package decision

import (
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// An Event tells the world what a decision changed. Events of a run are
// numbered from 1 without gaps.
type Event struct {
	Seq    int64              // set by whoever keeps the event
	Record int64              // sequence of the journal record that it belongs to
	At     time.Time          // of that record
	Type   workflow.EventType // what happened
	Token  workflow.TokenID   // whose, if it concerns one
	Node   workflow.NodeID    // where
	Group  workflow.GroupID   // of which group, if it concerns one
	Data   map[string]any     // particulars, by type; nil if none
}
