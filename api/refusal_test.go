package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
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
