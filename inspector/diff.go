package inspector

import (
	"strconv"

	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A sideBody is one of two runs that are compared.
//
// Seq, Moment, At, Text and Why are of the choice by which the runs part, Value and ValueAt of the first value that differs.
type sideBody struct {
	ID      workflow.RunID
	Href    string
	Status  workflow.RunStatus
	Only    []workflow.NodeID // nodes that the other one never reached
	Seq     int64             // of its choice; 0 if it has not come there
	Moment  string            // leads to the run as it was then
	At      string
	Text    string
	Why     []string
	Value   *shownValue // the first that differs
	ValueAt string      // leads to where it was given
}

// A diffBody compares two runs. Equal is how many decisions of A, in its order, come before they part.
type diffBody struct {
	A, B  workflow.RunID // of a form that asks which runs; one of them is empty
	Sides [2]sideBody
	Equal int
	Place string // where they part; "" if they do not
	Value string // where the first value is that differs; "" if none does
}

// showDiff compares two runs: where they part, and why. Where the address does not name both it asks for them.
//
// Both journals are played for it. Values are compared as they are: nobody compares runs who does not see them so, as in the API.
func (s *server) showDiff(p *page) error {
	if !p.seesTexts() {
		return errForbidden
	}
	q := p.r.URL.Query()
	ids := [2]workflow.RunID{workflow.RunID(q.Get("a")), workflow.RunID(q.Get("b"))}
	if ids[0] == "" || ids[1] == "" {
		return p.showPage("diff.html", "Two runs", "runs", diffBody{A: ids[0], B: ids[1]})
	}
	var recs [2]*replay.Recording
	for i, id := range ids {
		rec, err := p.recording(p.r.Context(), id)
		if err != nil {
			return err
		}
		recs[i] = rec
	}
	c, err := replay.Diff(recs[0], recs[1])
	if err != nil {
		return err
	}
	b := diffBody{Equal: c.Equal}
	b.Sides[0] = sideBody{ID: c.A, Status: c.StatusA, Only: c.OnlyA}
	b.Sides[1] = sideBody{ID: c.B, Status: c.StatusB, Only: c.OnlyB}
	if c.Parting != nil {
		b.Place = c.Parting.Place
		b.Sides[0].addChoice(p, c.Parting.A)
		b.Sides[1].addChoice(p, c.Parting.B)
	}
	if v := c.Value; v != nil {
		b.Value = v.Place
		b.Sides[0].addValue(p, v.A, v.SeqA)
		b.Sides[1].addValue(p, v.B, v.SeqB)
	}
	for i := range b.Sides {
		b.Sides[i].Href = p.runLink(b.Sides[i].ID)
	}
	return p.showPage("diff.html", "Two runs", "runs", b)
}

// addChoice says what one run did where they part; nothing of a run that has not come there.
func (d *sideBody) addChoice(p *page, c *replay.Choice) {
	if c == nil {
		return
	}
	d.Seq, d.At, d.Text, d.Why = c.Seq, clockText(c.At), c.Text, c.Why
	d.Moment = p.runLink(d.ID, "at", strconv.FormatInt(c.Seq, 10))
}

// addValue shows the value of one run, and leads to the record that gave it, if that is known.
func (d *sideBody) addValue(p *page, v any, seq int64) {
	d.Value = p.valueAt(d.ID, "value", v, smallValue)
	if seq > 0 {
		d.ValueAt = p.runLink(d.ID, "at", strconv.FormatInt(seq, 10))
	}
}
