package api

import (
	"iter"
	"math"
	"slices"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// pastRun returns a copy of the run as it was after the record that the query names; nil if it
// names none. It is how ?at= works on every path that is about one run: each read function below
// asks it first, and answers from the copy if there is one. The copy replays the records from the
// beginning, so a request costs in proportion to them; readsWholeRun bounds how many do so at once.
func (c *call) pastRun() (*pawl.Simulation, error) {
	q := c.query()
	at := q.number("at")
	if q.err == nil && at == 0 && q.textOf("at") != "" {
		q.refuse("at", "the number of a record, from 1")
	}
	if q.err != nil || at == 0 {
		return nil, q.err
	}
	return c.engine.SimulateAt(c.context(), c.runID(), at)
}

// lastRecord returns the record of a run up to which the query asks; the highest there can be if it
// names none. For lists in sequence no copy is made: they end at this record. at=0 is refused, not
// taken for none, as no run has a record 0.
func (c *call) lastRecord(id workflow.RunID) (int64, error) {
	if c.query().textOf("at") != "" && c.acceptsType(typeStream) {
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
func (c *call) readExplanation(id workflow.RunID) (pawl.Explanation, error) {
	last, err := c.lastRecord(id)
	if err != nil {
		return pawl.Explanation{}, err
	}
	if last == math.MaxInt64 {
		return c.engine.Why(c.context(), id)
	}
	rec, err := c.engine.Recording(c.context(), id)
	if err != nil {
		return pawl.Explanation{}, err
	}
	x, err := replay.Why(rec.Until(last))
	if err == nil {
		err = x.ExplainBelow(func(child workflow.RunID) (*replay.Recording, error) { return c.engine.Recording(c.context(), child) })
	}
	return x, err
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
