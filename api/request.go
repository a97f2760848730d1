package api

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// Bounds of a page.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// A query reads the parameters of a request, and remembers the first that is wrong. Handlers read
// all parameters first and look at err once; the result of a method after an error is of no use.
// A query is made for each reading and is not shared.
type query struct {
	values url.Values
	err    error
}

// parseQuery reads the raw text of a query, for checkQuery. url.Values of a request drops what it
// cannot read; here that is an error, as a filter that was dropped would choose more.
func parseQuery(raw string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalidf("the query cannot be read: %v", err)
	}
	return values, nil
}

func (c *call) query() *query { return &query{values: c.r.URL.Query()} }

func (q *query) refuse(name, want string) { q.refuseText(name, q.values.Get(name), want) }

func (q *query) refuseText(name, text, want string) {
	if q.err == nil {
		q.err = invalidf("%s is %q: it must be %s", name, text, want)
	}
}

func (q *query) textOf(name string) string { return q.values.Get(name) }

// runFilter returns the filter of what is about many runs. Lists and batches share it, so that a
// batch acts on what the list with the same query shows. Limit and Newest are left to the caller.
func (q *query) runFilter() pawl.RunFilter {
	return pawl.RunFilter{
		Workflow: q.textOf("workflow"), Parent: workflow.RunID(q.textOf("parent")), Tenant: q.textOf("tenant"), Prefix: q.textOf("prefix"), Roots: q.flag("roots"),
		Status: q.runStatuses(), Since: q.instant("since"), Until: q.instant("until"), EndedSince: q.instant("endedSince"), EndedUntil: q.instant("endedUntil"),
		Labels: q.labels(), Where: q.textOf("where"), ForkedFrom: workflow.RunID(q.textOf("forkedFrom")), After: workflow.RunID(q.textOf("cursor")),
	}
}

// limit returns how many entries a page has at most. It is defaultLimit if the query has none, and
// refused above maxLimit rather than cut: a client that asks for 5,000 must not take 1,000 for all.
func (q *query) limit() int {
	n := q.number("limit")
	if q.values.Get("limit") != "" && (n < 1 || n > maxLimit) {
		q.refuse("limit", "a number from 1 to 1000")
	}
	if n == 0 {
		n = defaultLimit
	}
	return int(n)
}

// number returns a whole number of at least 0; 0 if it is not there.
func (q *query) number(name string) int64 {
	text := q.values.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		q.refuse(name, "a whole number of at least 0")
	}
	return n
}

func (q *query) flag(name string) bool {
	if !q.values.Has(name) {
		return false
	}
	switch q.values.Get(name) {
	case "0", "false":
		return false
	case "1", "true":
		return true
	}
	q.refuse(name, "0 or 1")
	return false
}

func (q *query) instant(name string) time.Time {
	text := q.values.Get(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		q.refuse(name, "an instant such as 2026-11-22T08:30:00Z")
	}
	return t
}

func (q *query) duration(name string) time.Duration {
	text := q.values.Get(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		q.refuse(name, `a duration such as "30s"`)
	}
	return d
}

// labels returns labels that are written as KEY=VALUE; nil if there are none. A label that comes
// twice is refused: a run has one value of a key, so both could never fit.
func (q *query) labels() map[string]string {
	var out map[string]string
	for _, text := range q.values["label"] {
		key, value, ok := strings.Cut(text, "=")
		if _, twice := out[key]; !ok || twice || key == "" {
			q.refuseText("label", text, "a key and a value such as customer=7, each key once")
			return nil
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out
}

func (q *query) runStatuses() (out []workflow.RunStatus) {
	for _, text := range q.values["status"] {
		s, err := workflow.ParseRunStatus(text)
		if err != nil {
			q.refuseText("status", text, "a status of runs")
		}
		out = append(out, s)
	}
	return out
}

func (q *query) tokenStatuses() (out []workflow.TokenStatus) {
	for _, text := range q.values["status"] {
		s, err := workflow.ParseTokenStatus(text)
		if err != nil {
			q.refuseText("status", text, "a status of tokens")
		}
		out = append(out, s)
	}
	return out
}
