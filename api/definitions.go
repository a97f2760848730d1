package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// latestVersion stands in a path for the highest version that is published.
const latestVersion = "latest"

type definitionPage struct {
	Definitions []pawl.PublishedDefinition `json:"definitions"` // by name and version
}

// listDefinitions answers the definitions that are published, of one name or of all.
func (c *call) listDefinitions() error {
	out := definitionPage{Definitions: []pawl.PublishedDefinition{}}
	for d, err := range c.engine.Definitions(c.context(), pawl.DefinitionFilter{Workflow: c.query().textOf("workflow")}) {
		if err != nil {
			return err
		}
		out.Definitions = append(out.Definitions, d)
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
	var out definitionPage
	err := c.ask(ctx, &question{method: http.MethodGet, path: "/v1/definitions", query: textQuery("workflow", f.Workflow)}, &out)
	return out.Definitions, err
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
