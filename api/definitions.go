package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// latestVersion stands in a path for the highest version that is published.
const latestVersion = "latest"

type definitionPage struct {
	Definitions []pawl.PublishedDefinition `json:"definitions"`     // by name and version
	Cursor      string                     `json:"cursor,omitzero"` // of the next page; "" if this is the last
}

// listDefinitions answers the definitions that are published, of one name or of all. A cursor is
// that of the last one: NAME@VERSION. A definition that is published between two pages is in the
// next one if it comes behind the cursor.
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
	if c.acceptsType(typeLines) {
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

// Definitions lists the definitions that are published and that the filter chooses, by name and version, as
// Engine.Definitions does.
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
