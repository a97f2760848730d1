package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// Start starts a run, as Engine.Start does.
func (c *Client) Start(ctx context.Context, id workflow.RunID, s Start) (out pawl.RunSummary, err error) {
	q := aboutRun(id, "")
	q.method, q.body, q.acts = http.MethodPut, s, true
	err = c.ask(ctx, q, &out)
	return out, err
}

// DryRunStart says what Start would begin. Nothing is changed.
func (c *Client) DryRunStart(ctx context.Context, id workflow.RunID, s Start) (out Tried, err error) {
	q := aboutRun(id, "")
	q.method, q.body = http.MethodPut, s
	q.query.Set("dryRun", "1")
	err = c.ask(ctx, q, &out)
	return out, err
}

// Do does something to a run. The Target of an act on a token says to which.
func (c *Client) Do(ctx context.Context, id workflow.RunID, o Operation) (Acted, error) {
	return c.doOrTry(ctx, id, o, false)
}

// DryRun says what Do would do. Nothing is changed.
func (c *Client) DryRun(ctx context.Context, id workflow.RunID, o Operation) (Acted, error) {
	return c.doOrTry(ctx, id, o, true)
}

func (c *Client) doOrTry(ctx context.Context, id workflow.RunID, o Operation, dry bool) (out Acted, err error) {
	verb := acts.Of(o.Act)
	if verb.Path == "" {
		return out, invalidf("there is no act %q to do", verb.Name)
	}
	path, node := verb.Path, ""
	if t, ok := acts.TargetOf(o.Act); ok {
		target := strconv.FormatInt(int64(t.Token), 10)
		if t.Token == 0 {
			target, node = anyToken, string(t.Node)
		}
		if t.Token == 0 && node == "" {
			return out, invalidf("%s is done to a token: name it, or its node", verb.Name)
		}
		path = strings.Replace(path, "{token}", target, 1)
	}
	body, err := o.bodyOf(false)
	if err != nil {
		return out, invalidf("%v", err)
	}
	q := aboutRun(id, path)
	if node != "" {
		q.query.Set("node", node)
	}
	if q.method, q.body, q.acts = http.MethodPost, json.RawMessage(body), !dry; dry {
		q.query.Set("dryRun", "1")
	}
	err = c.ask(ctx, q, &out)
	return out, err
}

// Fork makes a new run of another one, as Engine.Fork and Engine.Rerun do.
func (c *Client) Fork(ctx context.Context, id workflow.RunID, f Fork) (out Forked, err error) {
	q := aboutRun(id, "/forks")
	q.method, q.body, q.acts = http.MethodPost, f, true
	err = c.ask(ctx, q, &out)
	return out, err
}

// DryRunFork says what Fork would make. Nothing is changed.
func (c *Client) DryRunFork(ctx context.Context, id workflow.RunID, f Fork) (out Tried, err error) {
	q := aboutRun(id, "/forks")
	q.method, q.body = http.MethodPost, f
	q.query.Set("dryRun", "1")
	err = c.ask(ctx, q, &out)
	return out, err
}

// Try says what would become of a run. Nothing is changed.
func (c *Client) Try(ctx context.Context, id workflow.RunID, t Trial) (out Acted, err error) {
	q := aboutRun(id, "/simulate")
	q.method, q.body = http.MethodPost, t
	if t.At != 0 {
		q.query.Set("at", strconv.FormatInt(t.At, 10))
	}
	err = c.ask(ctx, q, &out)
	return out, err
}

// Diff says where two runs part, as replay.Diff does.
func (c *Client) Diff(ctx context.Context, a, b workflow.RunID) (d replay.Comparison, err error) {
	err = c.ask(ctx, &question{method: http.MethodGet, path: "/v1/diff", query: url.Values{"a": {string(a)}, "b": {string(b)}}}, &d)
	return d, err
}

// Publish publishes a definition under its name and version, as Engine.Publish does.
func (c *Client) Publish(ctx context.Context, d *workflow.Definition) error {
	if d == nil {
		return invalidf("the definition is nil")
	}
	return c.ask(ctx, publishQuestion(d), new(Published))
}

// DryRunPublish says whether Publish would take a definition, and its warnings. Nothing is changed.
func (c *Client) DryRunPublish(ctx context.Context, d *workflow.Definition) (out Published, err error) {
	if d == nil {
		return out, invalidf("the definition is nil")
	}
	q := publishQuestion(d)
	q.acts, q.query = false, url.Values{"dryRun": {"1"}}
	err = c.ask(ctx, q, &out)
	return out, err
}

func publishQuestion(d *workflow.Definition) *question {
	return &question{method: http.MethodPut, path: "/v1/definitions/" + url.PathEscape(d.Name) + "/" + strconv.Itoa(max(d.Version, 1)), body: d, acts: true}
}
