package api

import (
	"net/http"

	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// explainRun answers what a run waits for, or why it failed.
func (c *call) explainRun() error {
	id := c.runID()
	x, err := c.readExplanation(id)
	if err != nil {
		return err
	}
	return c.replyTagged(http.StatusOK, c.viewerOf(id).showExplanation(x))
}

// drawRun answers a picture of the definition of a run, with the tokens on it. The picture has
// names and counts, no values, so View is enough. Its policy lets a browser that opens it alone run
// nothing.
func (c *call) drawRun() error {
	q := c.query()
	width := q.number("width")
	if q.err == nil && width > 10_000 {
		q.refuse("width", "a number of pixels up to 10000")
	}
	if q.err != nil {
		return q.err
	}
	id := c.runID()
	d, _, err := c.readDefinition(id)
	if err != nil {
		return err
	}
	g, err := workflow.Compile(d)
	if err != nil {
		return err
	}
	o, err := c.readOverview(id)
	if err != nil {
		return err
	}
	run := &diagram.Run{ID: id, Status: o.Status, Seq: o.Seq, Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{}}
	for _, n := range o.Nodes {
		run.Tokens[n.Node] = n.Tokens
	}
	c.w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	writeBody(c.w, http.StatusOK, "image/svg+xml", []byte(diagram.New(g, run).SVG(int(width))))
	return nil
}

// compareRuns answers where two runs part. With a hook that redacts it is refused: a difference is
// a value. Both recordings are read as a whole, and the difference may quote any value of either.
// With aAt or bAt the one or the other ends after that record, so that a run can be compared with
// itself as it was, or with what another had come to by then.
func (c *call) compareRuns() error {
	q := c.query()
	if q.textOf("a") == "" || q.textOf("b") == "" {
		return invalidf("a and b must name two runs")
	}
	if c.options.Redact != nil {
		return refusef(http.StatusForbidden, codeForbidden, "runs are not compared where values are redacted")
	}
	a, err := c.readRecording(q, "a")
	if err != nil {
		return err
	}
	b, err := c.readRecording(q, "b")
	if err != nil {
		return err
	}
	d, err := replay.Diff(a, b)
	if err != nil {
		return err
	}
	return c.reply(d)
}

// readRecording returns the run that a parameter names, up to the record that the one with At names.
func (c *call) readRecording(q *query, name string) (*replay.Recording, error) {
	id := workflow.RunID(q.textOf(name))
	last, err := c.recordNamed(q, name+"At", id)
	if err != nil {
		return nil, err
	}
	rec, err := c.engine.Recording(c.context(), id)
	if err != nil {
		return nil, err
	}
	return rec.Until(last), nil
}
