package inspector_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/state"
)

const patchable = "name: order\nstart: quote\nnodes: [{id: quote, wait: {event: quoted}}, {id: check, task: check}, {id: ship, task: ship}]\n" +
	"transitions: [{from: quote, to: check}, {from: check, to: ship}]\n"

// A patch is drawn as what it changes before it is applied, and each revision as what came with it.
func TestPatchDrawn(t *testing.T) {
	s := openShop(t)
	s.start("order-1", patchable, nil)
	ann := s.serve(as("ann", api.All))
	definition := ann.see("run/order-1?view=definition")
	require.Contains(t, definition, `href="../act?do=patch&amp;target=0&#43;order-1"`)
	require.NotContains(t, definition, "Revision</span>")
	noDefine := s.serve(as("eve", api.View|api.Values|api.Act))
	require.NotContains(t, noDefine.see("run/order-1?view=definition"), "do=patch")
	status, _ := noDefine.get("act?do=patch&target=0+order-1")
	require.Equal(t, 403, status)

	before := s.journals()
	asks := ann.see("act?do=patch&target=0+order-1")
	require.Contains(t, textOf(t, asks), "on revision 1")
	require.Contains(t, textOf(t, asks), "Not tried.")
	ops := `[{"op": "remove", "path": "/nodes/check"}, {"op": "add", "path": "/nodes/ask", "value": {"approval": {"message": "ok?"}}},
		{"op": "remove", "path": "/transitions/quote->check"}, {"op": "remove", "path": "/transitions/check->ship"},
		{"op": "add", "path": "/transitions/t1", "value": {"from": "quote", "to": "ask"}}, {"op": "add", "path": "/transitions/t2", "value": {"from": "ask", "to": "ship"}},
		{"op": "add", "path": "/nodes/ship/timeout", "value": "1h"}]`
	query := url.Values{"do": {"patch"}, "target": {"0 order-1"}, "at": {"1"}, "value": {ops}}
	shown := ann.see("act?" + query.Encode())
	for _, want := range []string{`class="node approval added`, `class="node task removed`, `class="node task changed`, `class="edge removed"`, `class="edge added"`, `class="node wait waiting start"`} {
		require.Contains(t, shown, want)
	}
	require.Contains(t, textOf(t, shown), "changed node ship timeout was not set")
	require.Contains(t, textOf(t, shown), "removed transition check->ship")
	require.Contains(t, textOf(t, shown), "workflow.patched")
	require.Equal(t, before, s.journals())

	for wrong, says := range map[string]string{
		`{"op": "remove"}`: "a list of operations",
		`[`:                "not JSON",
		`[]`:               "a list of operations",
		`[{"op": "remove", "path": "/nodes/nobody"}]`: "It would be refused",
		`[{"op": "remove", "path": "/nodes/quote"}]`:  "It would be refused",
	} {
		query.Set("value", wrong)
		require.Contains(t, textOf(t, ann.see("act?"+query.Encode())), says, wrong)
	}
	status, _ = ann.get("act?do=patch&target=0+nobody")
	require.Equal(t, 404, status)

	query.Set("value", ops)
	query.Set("reason", "the rule has changed")
	status, body, header := ann.post("act", query, "same-origin")
	require.Equal(t, 303, status, body)
	require.Equal(t, state.Act{By: "ann", Reason: "the rule has changed"}, s.last("order-1"))
	require.Contains(t, textOf(t, ann.see(header.Get("Location"))), "It is done: patched.")
	status, body, _ = ann.post("act", query, "same-origin")
	require.Equal(t, 409, status, "it is for revision 1")
	require.Contains(t, textOf(t, body), "0 patched, 1 refused")

	now := ann.see("run/order-1?view=definition")
	require.Contains(t, now, `class="node approval added`)
	require.Contains(t, textOf(t, now), "What the patch to revision 2 changed")
	first := ann.see("run/order-1?view=definition&revision=1")
	require.NotContains(t, first, " added")
	require.Contains(t, textOf(t, first), `"id": "check"`)
	for _, n := range []string{"0", "3", "x"} {
		status, _ = ann.get("run/order-1?view=definition&revision=" + n)
		require.Equal(t, 404, status)
	}
}

// A long field is shown around the place where it differs.
func TestPatchDrawnOfALongField(t *testing.T) {
	s := openShop(t)
	s.start("order-1", "name: order\nstart: w\nstate: {initial: {long: "+strings.Repeat("é", 1000)+", most: 1, rest: "+strings.Repeat("x", 1000)+"}}\nnodes: [{id: w, wait: {event: go}}]\n", nil)
	query := url.Values{"do": {"patch"}, "target": {"0 order-1"}, "value": {`[{"op": "replace", "path": "/state/initial/most", "value": 2}]`}}
	shown := textOf(t, s.serve(as("ann", api.All)).see("act?"+query.Encode()))
	require.Regexp(t, `changed the definition itself state …é+","most":1,"rest":"x+… → …é+","most":2,"rest":"x+… `, shown)
}
