package api

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// latestVersion stands in a path for the highest version that is published.
const latestVersion = "latest"

type definitionPage struct {
	Definitions []pawl.PublishedDefinition `json:"definitions"`     // by name and version
	Cursor      string                     `json:"cursor,omitzero"` // of the next page; "" if this is the last
}

// listDefinitions answers the definitions that are published, of one name or of all. A cursor is that of the last one: NAME@VERSION. A
// definition that is published between two pages is in the next one if it comes behind the cursor.
func (c *call) listDefinitions() error {
	q := c.query()
	limit := q.limit()
	var last pawl.PublishedDefinition
	if text := q.textOf("cursor"); text != "" {
		// The last @, as a name might have one.
		i := strings.LastIndexByte(text, '@')
		version, err := strconv.Atoi(text[i+1:])
		if i < 0 || err != nil {
			q.refuse("cursor", "one that a page has")
		}
		last.Name, last.Version = text[:max(i, 0)], version
	}
	if q.err != nil {
		return q.err
	}
	list := keepEntries(c.engine.Definitions(c.context(), pawl.DefinitionFilter{Workflow: q.textOf("workflow")}), func(d *pawl.PublishedDefinition) bool {
		return d.Name > last.Name || d.Name == last.Name && d.Version > last.Version
	})
	if c.acceptsType(typeLines, typeJSON) {
		return c.replyLines(mapList(list, func(d *pawl.PublishedDefinition) any { return *d }))
	}
	page, more, err := readPage(list, limit)
	if err != nil {
		return err
	}
	out := definitionPage{Definitions: page}
	if more {
		out.Cursor = page[limit-1].Name + "@" + strconv.Itoa(page[limit-1].Version)
	}
	return c.reply(out)
}

// showPublished answers a definition that is published.
func (c *call) showPublished() error {
	text, version := c.r.PathValue("version"), 0
	if text != latestVersion {
		var err error
		if version, err = strconv.Atoi(text); err != nil || version < 1 {
			return invalidf("the version is %q: it must be a number from 1 on, or %s", text, latestVersion)
		}
	}
	d, err := c.engine.Published(c.context(), c.r.PathValue("name"), version)
	if err != nil {
		return err
	}
	return c.replyTagged(http.StatusOK, d)
}

// Definitions lists the published definitions that the filter chooses, by name and version, as Engine.Definitions does.
func (c *Client) Definitions(ctx context.Context, f pawl.DefinitionFilter) ([]pawl.PublishedDefinition, error) {
	out := []pawl.PublishedDefinition{}
	q := &question{method: http.MethodGet, path: "/v1/definitions", query: textQuery("workflow", f.Workflow)}
	for d, err := range listLines[pawl.PublishedDefinition](ctx, c, q) {
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Published returns a definition that is published; version 0 is the latest.
func (c *Client) Published(ctx context.Context, name string, version int) (*workflow.Definition, error) {
	text := latestVersion
	if version != 0 {
		text = strconv.Itoa(version)
	}
	var out workflow.Definition
	if err := c.ask(ctx, &question{method: http.MethodGet, path: "/v1/definitions/" + url.PathEscape(name) + "/" + text}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

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
	if c.acceptsType(typeLines, typeJSON) {
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

// Revisions lists the revisions of a run's definition with numbers above after, as Engine.Revisions does.
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
	def, err := compiled.Boundless().ParseJSON(d.Definition)
	return def, d.Revision, err
}
