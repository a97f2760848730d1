package api

import (
	"iter"
	"math"
	"net/http"
	"slices"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// pastRun returns a copy of the run as it was after the record that the query names; nil if it names none. It is how ?at= works on every
// path that is about one run: each read function below asks it first, and answers from the copy if there is one. The copy replays the
// records from the beginning, so a request costs in proportion to them; readsWholeRun bounds how many do so at once.
func (c *call) pastRun() (*pawl.Simulation, error) {
	q := c.query()
	at := q.number("at")
	if q.err == nil && at == 0 && q.textOf("at") != "" {
		q.refuse("at", "the number of a record, from 1")
	}
	if q.err != nil || at == 0 {
		return nil, q.err
	}
	return c.engine.Simulate(c.context(), pawl.OfRun{Run: c.runID(), At: at})
}

// lastRecord returns the record of a run up to which the query asks; the highest there can be if it names none. For lists in sequence no
// copy is made: they end at this record. at=0 is refused, not taken for none, as no run has a record 0.
func (c *call) lastRecord(id workflow.RunID) (int64, error) {
	if c.query().textOf("at") != "" && c.acceptsType(typeStream, typeLines, typeJSON) {
		return 0, invalidf("at is of the past, and a stream goes on: leave one of them out")
	}
	return c.recordNamed(c.query(), "at", id)
}

// recordNamed returns the record of a run that a parameter names; the highest there can be if the
// query has none. It refuses a record that the run does not have.
func (c *call) recordNamed(q *query, name string, id workflow.RunID) (int64, error) {
	at := q.number(name)
	if q.err == nil && at == 0 && q.textOf(name) != "" {
		q.refuse(name, "the number of a record, from 1")
	}
	if q.err != nil || at == 0 {
		return math.MaxInt64, q.err
	}
	s, err := c.engine.Summary(c.context(), id)
	if err == nil && at > s.Seq {
		err = invalidf("run %q has no record %d: there are 1 to %d", string(id), at, s.Seq)
	}
	return at, err
}

// readExplanation returns why a run stands where it stands, or stood. Children are explained as
// they stand now, since a record of the parent says nothing of how far a child was.
func (c *call) readExplanation(id workflow.RunID) (history.Explanation, error) {
	last, err := c.lastRecord(id)
	if err != nil {
		return history.Explanation{}, err
	}
	if last == math.MaxInt64 {
		return c.engine.Why(c.context(), id)
	}
	rec, err := c.recordingOf(id)
	if err != nil {
		return history.Explanation{}, err
	}
	x, err := replay.Why(rec.Until(last))
	if err == nil {
		err = replay.ExplainBelow(&x, c.recordingOf)
	}
	return x, err
}

// recordingOf returns a run as package replay looks at it.
func (c *call) recordingOf(id workflow.RunID) (*replay.Recording, error) {
	rec, err := c.engine.Recording(c.context(), id)
	if err != nil {
		return nil, err
	}
	return rec.(*replay.Recording), nil
}

// readBranches lists the branches of a run, or those that it had.
func (c *call) readBranches(id workflow.RunID, f pawl.BranchFilter) (iter.Seq2[pawl.BranchView, error], error) {
	past, err := c.pastRun()
	if err != nil || past == nil {
		return c.engine.Branches(c.context(), id, f), err
	}
	return past.Branches(f), nil
}

// readSignals lists the signals that a run keeps, or kept.
func (c *call) readSignals(id workflow.RunID) (iter.Seq2[pawl.KeptSignal, error], error) {
	past, err := c.pastRun()
	if err != nil || past == nil {
		return c.engine.Signals(c.context(), id), err
	}
	return func(yield func(pawl.KeptSignal, error) bool) {
		for s := range past.Signals() {
			if !yield(s, nil) {
				return
			}
		}
	}, nil
}

// readSummary returns how a run stands, or stood.
func (c *call) readSummary(id workflow.RunID) (pawl.RunSummary, error) {
	past, err := c.pastRun()
	if err != nil {
		return pawl.RunSummary{}, err
	}
	s, err := c.engine.Summary(c.context(), id)
	if err != nil || past == nil {
		return s, err
	}
	then := past.Snapshot()
	s.Outcome, s.Seq, s.Alarm = then.Outcome, then.Seq, then.Alarm // the rest does not change
	return s, nil
}

func (c *call) readOverview(id workflow.RunID) (pawl.Overview, error) {
	past, err := c.pastRun()
	if err != nil {
		return pawl.Overview{}, err
	}
	if past != nil {
		return past.Overview(), nil
	}
	return c.engine.Overview(c.context(), id)
}

func (c *call) readSnapshot(id workflow.RunID) (pawl.Snapshot, error) {
	past, err := c.pastRun()
	if err != nil {
		return pawl.Snapshot{}, err
	}
	if past != nil {
		return past.Snapshot(), nil
	}
	return c.engine.Inspect(c.context(), id)
}

func (c *call) readDefinition(id workflow.RunID) (*workflow.Definition, int, error) {
	past, err := c.pastRun()
	if err != nil {
		return nil, 0, err
	}
	if past != nil {
		return past.Definition()
	}
	return c.engine.Definition(c.context(), id)
}

// readTokens lists the tokens of a run, or those that it had. The copy lists all tokens by number,
// so the filter of the engine is applied here in the same way.
func (c *call) readTokens(id workflow.RunID, f pawl.TokenFilter) (iter.Seq2[pawl.Token, error], error) {
	past, err := c.pastRun()
	if err != nil || past == nil {
		return c.engine.Tokens(c.context(), id, f), err
	}
	return func(yield func(pawl.Token, error) bool) {
		for _, t := range past.Snapshot().Tokens {
			fits := t.ID > f.After && (f.Node == "" || t.Node == f.Node) && (f.Group == 0 || t.Scope.Group == f.Group) &&
				(f.Status == nil || slices.Contains(f.Status, t.Status))
			if t.Key = ""; fits && !yield(t, nil) { // who has it could complete the task of today
				return
			}
		}
	}, nil
}

// explainRun answers what a run waits for, or why it failed.
func (c *call) explainRun() error {
	id := c.runID()
	x, err := c.readExplanation(id)
	if err != nil {
		return err
	}
	return c.replyTagged(http.StatusOK, c.viewerOf(id).showExplanation(x))
}

// drawRun answers a picture of the definition of a run, with the tokens on it. The picture has names and counts, no values, so View is
// enough. Its policy lets a browser that opens it alone run nothing.
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
	g, err := compiled.Compile(compiled.Boundless(), d)
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

// compareRuns answers where two runs part. With a hook that redacts it is refused: a difference is a value. Both recordings are read as a
// whole, and the difference may quote any value of either. With aAt or bAt the one or the other ends after that record, so that a run can
// be compared with itself as it was, or with what another had come to by then.
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
	rec, err := c.recordingOf(id)
	if err != nil {
		return nil, err
	}
	return rec.Until(last), nil
}
