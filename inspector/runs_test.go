package inspector_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
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
