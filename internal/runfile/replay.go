package runfile

import (
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
)

// ApplyRecord applies a record to s and reports its events. A record that no planner
// would make is an error.
func ApplyRecord(s *state.State, r *decision.Record, happened func([]decision.Event)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("record %d: %v", r.Seq, p)
		}
	}()
	for _, dec := range r.Decisions {
		happened(decision.Apply(s, dec, r.Seq, r.At))
	}
	return nil
}
