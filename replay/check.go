package replay

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A Report says how a recording replays.
// If Difference is nil, all records were replayed, and Status is how the run stands. Otherwise Records
// counts those before the difference, and Status is that after the record that differs, as it was
// recorded.
type Report struct {
	Run        workflow.RunID     `json:"run"`
	Workflow   string             `json:"workflow"`
	Version    int                `json:"version"`
	Status     workflow.RunStatus `json:"status"`  // after the last record that was replayed
	Records    int64              `json:"records"` // that decide the same again
	Difference *Difference        `json:"difference,omitempty"`
}

// Check plans the records of a run again, from the first to the last or to the first that
// differs: another planner than the one that made them may decide otherwise. An error says
// that the recording cannot be read, or that a newer planner made it.
//
// The Report counts only while the records can be read and applied: with an error it says how far it
// came. A difference ends the check, since a planner that differs once usually differs in all that
// follows, and the first is the cause.
func Check(rec *Recording) (out Report, err error) {
	defer rec.explainPanic(&err)
	p := newPlayer(rec)
	for r, err := range rec.eachRecord() {
		if err != nil {
			return out, err
		}
		if out.Run == "" {
			d := rec.Definition()
			out = Report{Run: rec.Run, Workflow: d.Name, Version: max(d.Version, 1)}
		}
		step, err := p.playRecord(&r)
		out.Status, out.Difference = p.state.Status, step.difference
		if out.Difference != nil {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out.Records++
	}
	return out, nil
}

// A player plays the records of a run one after another: it plans each again, and applies
// what was decided.
// state is nil before the first record, and otherwise that after the last record that was applied. It
// is always the recorded run that is played: what is planned again is compared and thrown away.
type player struct {
	of    *Recording
	state *state.State
}

// newPlayer returns a player of rec, which is used only once there is a record of it.
//
// A recording without records, or of nobody's making, has no graph; the state is made later, in begin,
// when eachRecord has refused such a one.
func newPlayer(rec *Recording) *player { return &player{of: rec} }

// A played is what one record did.
// routes and plan say why, from the planner of today; difference is nil if it decides as recorded.
// plan is empty if the planner refuses the message or fails.
type played struct {
	plan       decision.Plan
	routes     []planning.Route
	difference *Difference
}

// playRecord plans a record again and applies it as it is. The error says that the record does
// not fit the state before it.
// The error counts more than the difference: a record whose decisions do not fit is damage, whoever
// planned them. Check therefore reports a difference first, since both may come from one record.
func (p *player) playRecord(r *decision.Record) (played, error) {
	p.begin(r)
	var out played
	var err error
	out.plan, out.routes, err = planSafely(p.state, r.Message, r.At, r.Planner)
	out.difference = differenceOf(p.state, r, out.plan, err)
	return out, p.applyRecord(r)
}

// applyRecord applies a record without planning it again.
//
// It is much cheaper than playRecord, for Why, Moves and the way of a Stepper to its record. The
// events of the record are made on the way, and thrown away here.
func (p *player) applyRecord(r *decision.Record) error {
	p.begin(r)
	if err := runfile.ApplyRecord(p.state, r, func([]decision.Event) {}); err != nil {
		return p.of.withSource(err)
	}
	return nil
}

// begin makes the state before the first record.
// It may be called twice for one record, as playRecord does. Each record brings the epoch of the
// engine that wrote it, which planning and applying both read.
func (p *player) begin(r *decision.Record) {
	if p.state == nil {
		p.state = state.NewState(p.of.Run, p.of.graph)
	}
	p.state.Epoch = r.Epoch
}
