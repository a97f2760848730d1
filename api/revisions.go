package api

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A revisionPage is a page of the revisions of a run's definition.
type revisionPage struct {
	Revisions []pawl.RunRevision `json:"revisions"`
	After     int                `json:"after,omitzero"` // of the next page; 0 if this is the last
}

// listRevisions answers when a run got the revisions of its definition, and from whom. With at,
// revisions that came after that record are left out.
func (c *call) listRevisions() error {
	q := c.query()
	after, limit := q.number("after"), q.limit()
	if q.err != nil {
		return q.err
	}
	last, err := c.lastRecord(c.runID())
	if err != nil {
		return err
	}
	known := func(r *pawl.RunRevision) bool { return r.Seq <= last }
	revisions := firstEntries(c.engine.Revisions(c.context(), c.runID(), int(min(after, 1<<30))), known)
	if c.acceptsType(typeLines) {
		return c.replyLines(mapList(revisions, func(r *pawl.RunRevision) any { return *r }))
	}
	page, more, err := readPage(revisions, limit)
	if err != nil {
		return err
	}
	out := revisionPage{Revisions: append([]pawl.RunRevision{}, page...)}
	if more {
		out.After = page[limit-1].Revision
	}
	return c.reply(out)
}

// showRevision answers with the definition that a run has or had at a revision. The overview says
// how many revisions there are, or were at the record: so one that is still to come is 404 there.
func (c *call) showRevision() error {
	text := c.r.PathValue("revision")
	revision, err := strconv.Atoi(text)
	if err != nil || revision < 1 {
		return invalidf("the revision is %q: it must be a number, from 1", text)
	}
	now, err := c.readOverview(c.runID())
	if err != nil {
		return err
	}
	if revision > now.Revision {
		return refusef(http.StatusNotFound, codeNotFound, "run %q has no revision %d: there are 1 to %d", string(c.runID()), revision, now.Revision)
	}
	d, err := c.engine.Revision(c.context(), c.runID(), revision)
	if err != nil {
		return err
	}
	return c.reply(RunDefinition{revision, d})
}

// Revisions lists the revisions of a run's definition that follow one of them, as Engine.Revisions does.
func (c *Client) Revisions(ctx context.Context, id workflow.RunID, after int) iter.Seq2[pawl.RunRevision, error] {
	q := aboutRun(id, "/revisions")
	q.query.Set("after", strconv.Itoa(max(after, 0)))
	return listLines[pawl.RunRevision](ctx, c, q)
}

// Revision returns the definition that a run had at a revision, as Engine.Revision does.
func (c *Client) Revision(ctx context.Context, id workflow.RunID, revision int) (*workflow.Definition, error) {
	d, _, err := c.askDefinition(ctx, aboutRun(id, "/revisions/"+strconv.Itoa(revision)))
	return d, err
}

// askDefinition returns the definition of a run, and its revision.
func (c *Client) askDefinition(ctx context.Context, q *question) (*workflow.Definition, int, error) {
	var d struct {
		Revision   int             `json:"revision"`
		Definition json.RawMessage `json:"definition"`
	}
	if err := c.ask(ctx, q, &d); err != nil {
		return nil, 0, err
	}
	def, err := workflow.Boundless().ParseJSON(d.Definition)
	return def, d.Revision, err
}
