package inspector_test

import (
	"fmt"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// The list of runs takes a condition, says what is wrong with one, and lets who may act choose runs
// that have not ended.
func TestRunsByCondition(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	s.start("other-1", "name: other\nstart: a\nnodes: [{id: a, task: a}]\n", nil)
	ann := s.serve(as("ann", api.All))
	by := func(condition string) string { return "runs?" + url.Values{"where": {condition}}.Encode() }

	page := ann.see(by(`workflow == "other"`))
	require.Contains(t, page, `value="workflow == &#34;other&#34;"`)
	require.Contains(t, textOf(t, page), "other-1")
	require.NotContains(t, textOf(t, page), "order-1")
	require.Contains(t, page, `name="target" value="0 other-1"`)
	require.NotContains(t, s.see(by(`workflow == "other"`)), `name="target"`, "of who may only look")

	status, page := ann.get(by(`workflow = "other"`))
	require.Equal(t, 400, status)
	require.Contains(t, page, `value="workflow = &#34;other&#34;"`, "to be mended")
	require.Contains(t, textOf(t, page), "1:10")
	require.NotContains(t, textOf(t, page), "No run")

	asks := textOf(t, ann.see("act?do=pause&target=0+order-1&target=0+other-1"))
	require.Contains(t, asks, "order-1")
	require.Contains(t, asks, "other-1")
	form := url.Values{"do": {"pause"}, "target": {"0 order-1", "0 other-1"}, "reason": {"lunch"}}
	status, _, _ = ann.post("act", form, "same-origin")
	require.Equal(t, 303, status)
	both := textOf(t, ann.see(by(`status == "paused"`)))
	require.Contains(t, both, "other-1 paused")
	require.Contains(t, both, "order-1 paused")
}

// The name of a workflow is sent as it is, though browsers show it with fewer blanks.
func TestANameWithBlanksIsChosen(t *testing.T) {
	s := openShop(t)
	s.start("odd", "name: 'two  blanks'\nstart: a\nnodes: [{id: a, task: a}]", nil)
	require.Contains(t, s.see("runs?workflow=two++blanks"), `<option value="two  blanks" selected>`)
}

// Links and forms of an address that was typed with a slash at its end lead where those of the other one do, and of what was done
// no other page tells.
func TestAddressesThatWereTyped(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	ann := s.serve(as("ann", api.All))
	for _, address := range []string{"runs/", "inbox/?of=letters", "act/?do=pause&target=0+order-1"} {
		require.Contains(t, ann.see(address), `action="../act"`, address)
	}
	require.Contains(t, ann.see("runs"), `action="act"`)
	require.Contains(t, ann.see("inbox/?where=true"), `href="../inbox">Clear filter`)
	require.Contains(t, textOf(t, ann.see("run/order-1?view=journal&record=9223372036854775807")), "park")
	for i := range 50 {
		s.start(workflow.RunID(fmt.Sprint("w-", i)), "name: waits\nstart: a\nnodes: [{id: a, wait: {event: go}}]", nil)
	}
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(ann.see("runs?told=once"))
	require.NotNil(t, next)
	require.NotContains(t, next[1], "told")
}

// A condition that cannot be said of some run, since it compares a label with a number, is shown in its form with what is wrong with it, in
// the list of runs as in the inbox.
func TestAConditionThatFailsForARun(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	for _, list := range []string{"runs", "inbox"} {
		status, page := s.get(list + "?where=labels.n+%3E+3")
		require.Equal(t, 400, status)
		require.Contains(t, page, `name="where" value="labels.n &gt; 3"`)
		require.Regexp(t, `at 1:10, for run "order-1": no such overload; labels are texts: compare them with texts, as "3"`, textOf(t, page))
	}
}
