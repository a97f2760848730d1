package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// A refusal says in the words of the request what this lacks, or says twice, and nothing is done.
func TestWhatARequestLacks(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	h := everything(e)
	const definition = `{"definition": {"name": "x", "start": "a", "nodes": [{"id": "a"}]}`
	for _, x := range []struct{ method, path, body, want string }{
		{"GET", "/v1/runs?status=running&status=odd", "", `unknown run status "odd": there are created, running`},
		{"GET", "/v1/runs?label=a=1&label=a=2", "", `label is "a=2"`},
		{"GET", "/v1/runs?limit=-1", "", `limit is "-1": it must be a number from 1 to 1000`},
		{"GET", "/v1/runs?limit=0", "", `limit is "0": it must be a number from 1 to 1000`},
		{"GET", "/v1/runs/order-1/events?limit=1.5", "", `limit is "1.5": it must be a number from 1 to 1000`},
		{"POST", "/v1/runs/order-1/tokens/-/vote", signed(`"approved": true`), "name the node where that is by ?node=NODE"},
		{"POST", "/v1/runs/order-1/cancel", `null`, "it is no JSON object"},
		{"POST", "/v1/runs/order-1/cancel", "{\n\"reason\": x}", "invalid character 'x' looking for beginning of value at byte 12, line 2 column 11"},
		{"POST", "/v1/runs/order-1/cancel", `{"by": 1}`, `the field "by" cannot be of type number`},
		{"POST", "/v1/runs/order-1/signals", `{"reason": "r", "name": "other", "early": true, "id": "\ud800"}`, ": half of a surrogate pair at byte 55"},
		{"POST", "/v1/runs/order-1/signals", "{\"reason\": \"r\", \"name\": \"other\", \"early\": true, \"id\": \"a\xff\"}", ": string is not UTF-8 at byte"},
		{"PUT", "/v1/runs/new", `{"workflow": "x", "labels": {"\udc00": "a"}}`, "half of a surrogate pair at byte 30"},
		{"PUT", "/v1/schedules", signed(`"schedules": [{"id": "\ud800"}]`), "half of a surrogate pair at byte"},
		{"PUT", "/v1/runs/new", `{"workflow": "x", "labels": {"a": 1}}`, `the field "labels.a" cannot be of type number: a string is needed`},
		{"POST", "/v1/runs/order-1/raise", signed(`"meta": {"tokens": 1, "cost": "5"}`), `the field "meta.cost" cannot be of type string`},
		{"POST", "/v1/runs/order-1/raise", signed(`"meta": [1]`), `the field "meta" cannot be of type array`},
		{"POST", "/v1/runs/order-1/cancel-nodes", signed(`"nodes": ["a", {}]`), `the field "nodes[1]" cannot be of type object`},
		{"POST", "/v1/runs/order-1/close-group", signed(`"group": "g", "origin": 1.5`), `the field "origin" cannot be of type number 1.5`},
		{"POST", "/v1/runs/order-1/forks", signed(`"to": "b", "results": [{"token": 1}, {"token": "2"}]`), `the field "results[1].token" cannot be of type string: a whole number is needed`},
		{"POST", "/v1/runs/order-1/cancel-nodes", signed(""), "nodes must name some"},
		{"POST", "/v1/runs/order-1/branches", signed(`"item": 1`), "group must name a group"},
		{"POST", "/v1/runs/order-1/close-group", signed(""), "group must name a group"},
		{"POST", "/v1/runs/order-1/simulate", `{"results": {"quote": {"output": 1}, "qoute": {"output": 1}}}`, `results has "qoute", and the run has no node of that name`},
		{"POST", "/v1/runs/order-1/simulate", `{"acts": [{"do": "elapse"}]}`, "elapse must say how much time passes"},
		{"POST", "/v1/runs/order-1/simulate", `{"acts": [{"do": "pause"}, {"do": "elapse"}]}`, "act 2 of 2: elapse must say how much time passes"},
		{"POST", "/v1/runs/order-1/simulate", `{"acts": [{"do": "elapse", "elapse": "1s"}, {"do": "cancelNodes"}, {"do": "pause"}]}`, "act 2 of 3: nodes must name some"},
		{"POST", "/v1/runs/order-1/simulate", `{"acts": [{"do": "vote", "token": 2, "node": "quote", "approved": true}]}`, "not both"},
		{"POST", "/v1/runs/order-1/forks", signed(`"to": "b", "token": 2, "node": "quote"`), "not both"},
		{"POST", "/v1/runs/order-1/tokens/2/vote?node=approve", signed(`"approved": true`), `the path of a node is "-"`},
		{"PUT", "/v1/runs/new", definition + `, "version": 3}`, "a definition has its own"},
		{"PUT", "/v1/runs/-?run=", definition + `}`, "the run id is empty"},
		{"PUT", "/v1/definitions/x/1", `{"name": "x", "start": "a", "nodes": [{"id": "\ud800"}]}`, "surrogate"},
		{"PUT", "/v1/definitions/x/01", definition[len(`{"definition": `):], `the path names "x" version "01"`},
	} {
		status, body := send(t, h, x.method, x.path, x.body)
		require.Equal(t, http.StatusBadRequest, status, "%s %s: %s", x.path, x.body, body)
		require.Contains(t, strings.ReplaceAll(body, `\"`, `"`), x.want, x.path)
	}
	s, err := e.Summary(t.Context(), "order-1")
	require.NoError(t, err)
	require.Equal(t, int64(2), s.Seq)
}

// A body that is compressed is refused as such, not as one that is no JSON.
func TestACompressedBody(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	h := everything(e)
	for coding, want := range map[string]int{"gzip": http.StatusUnsupportedMediaType, "identity": http.StatusOK, "": http.StatusOK} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/runs/order-1/pause", strings.NewReader(signed("")))
		r.Header.Set("Content-Encoding", coding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, want, w.Code, w.Body)
		require.Equal(t, want != http.StatusOK, strings.Contains(w.Body.String(), "send it as it is"))
	}
}

// A caller who may act and not see values is refused without them, on every path; another who sees them is told what is wrong.
func TestNoValueIsInARefusal(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	const output = "name: pay\nstart: a\nnodes: [{id: a, task: ship, output: {state.t: timestamp(input.card)}, retry: {maxAttempts: 1, exhausted: park}}]"
	const input = "name: send\nstart: a\nnodes: [{id: a, task: ship, input: {x: input.card}, retry: {maxAttempts: 1, exhausted: park}}]"
	for id, text := range map[workflow.RunID]string{"pay-1": output, "send-1": input} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: parse(t, text)}, map[string]any{"card": "4111"}))
		awaitEvent(t, e, id, workflow.EventTaskParked)
	}
	patch := pawl.Patch{Base: 1, Ops: []any{map[string]any{"op": "replace", "path": "/nodes/a/input/x", "value": "timestamp(input.card)"}}}
	require.NoError(t, e.Do(t.Context(), "send-1", patch))
	_, err := e.Publish(t.Context(), parse(t, "name: card\nstart: a\nnodes: [{id: a, task: quote, output: {output.o: result.card}}]"))
	require.NoError(t, err)
	set, err := schedule.Parse([]byte(`schedules: [{id: s, workflow: {name: card}, every: 1h, input: {n: "last == null ? scheduled : timestamp(last.output.o)"}}]`))
	require.NoError(t, err)
	_, err = e.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
	require.NoError(t, err)
	run, err := e.Schedules().Trigger(t.Context(), "s")
	require.NoError(t, err)
	_, err = e.Wait(t.Context(), run)
	require.NoError(t, err)
	for st := (schedule.Standing{Running: []workflow.RunID{run}}); len(st.Running) > 0; {
		st, err = e.Schedules().Get(t.Context(), "s")
		require.NoError(t, err)
	}
	_, err = e.Publish(t.Context(), parse(t, "name: strict\nstart: a\nnodes: [{id: a}]\ninput: {schema: {properties: {card: {enum: [x]}}}}"))
	require.NoError(t, err)

	hide := func(workflow.RunID, string, any) any { return "***" }
	for name, o := range map[string]api.Options{
		"no values": {Identify: everybody(api.View | api.Act)},
		"redacted":  {Identify: everybody(api.All), Redact: hide},
		"all":       {Identify: everybody(api.All)},
	} {
		h := api.Handler(e, o)
		for _, x := range []struct{ path, body, want string }{
			{"/v1/runs/pay-1/tokens/a/skip", `{"reason": "a test"}`, `skip node \"a\": expression_error`},
			{"/v1/runs/pay-1/tokens/a/skip?dryRun=1", `{"reason": "a test"}`, `skip node \"a\": expression_error`},
			{"/v1/runs/pay-1/simulate", `{"acts": [{"do": "skip", "node": "a"}]}`, `skip node \"a\": expression_error`},
			{"/v1/runs/pay-1/simulate", `{"acts": [{"do": "pause"}, {"do": "resume"}, {"do": "skip", "node": "a"}]}`, `act 3 of 3: skip node \"a\": expression_error`},
			{"/v1/dead-letters/batch?workflow=pay", `{"reason": "a test", "do": "skip"}`, `skip node \"a\": expression_error`},
			{"/v1/runs/send-1/tokens/a/retry", `{"reason": "a test"}`, `keep the old one: expression_error at node \"a\"`},
			{"/v1/dead-letters/batch?workflow=send", `{"reason": "a test", "do": "retry"}`, `keep the old one: expression_error at node \"a\"`},
			{"/v1/schedules/s/trigger", `{"reason": "a test"}`, "the run cannot begin: "},
		} {
			status, body := send(t, h, http.MethodPost, x.path, x.body)
			if status == http.StatusForbidden && name == "no values" {
				continue
			}
			require.Equal(t, name == "all", strings.Contains(body, "4111"), "%s: %s: %s", name, x.path, body)
			if name != "all" {
				require.Contains(t, body, x.want, x.path)
			}
		}
		// An input that does not fit is that of the caller.
		status, body := send(t, h, http.MethodPut, "/v1/runs/new", `{"workflow": "strict", "input": {"card": "4222"}}`)
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, body, "/card")
		require.Contains(t, body, "value must be")
	}
}
