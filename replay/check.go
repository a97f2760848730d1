package replay

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A Report says how a recording replays.
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
type player struct {
	of    *Recording
	state *state.State
}

// newPlayer returns a player of rec, which is used only once there is a record of it.
func newPlayer(rec *Recording) *player { return &player{of: rec} }

// A played is what one record did.
type played struct {
	plan       decision.Plan
	routes     []planning.Route
	difference *Difference
}

// playRecord plans a record again and applies it as it is. The error says that the record does
// not fit the state before it.
func (p *player) playRecord(r *decision.Record) (played, error) {
	p.begin(r)
	var out played
	var err error
	out.plan, out.routes, err = planSafely(p.state, r.Message, r.At)
	out.difference = differenceOf(p.state, r, out.plan, err)
	return out, p.applyRecord(r)
}

// applyRecord applies a record without planning it again.
func (p *player) applyRecord(r *decision.Record) error {
	p.begin(r)
	if err := runfile.ApplyRecord(p.state, r, func([]decision.Event) {}); err != nil {
		return p.of.withSource(err)
	}
	return nil
}

// begin makes the state before the first record.
func (p *player) begin(r *decision.Record) {
	if p.state == nil {
		p.state = state.NewState(p.of.Run, p.of.graph)
	}
	p.state.Epoch = r.Epoch
}
