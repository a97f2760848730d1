package inspector_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// parkMany starts a run that has so many parked tasks.
func (s *shop) parkMany(id workflow.RunID, n int) {
	s.t.Helper()
	files := make([]string, n)
	for i := range files {
		files[i] = fmt.Sprint("file-", i)
	}
	s.start(id, order, map[string]any{"amount": 7, "files": files})
	require.NoError(s.t, s.engine.Complete(s.t.Context(), s.key(id, "quote"), nil))
	for tok, err := range s.engine.Tokens(s.t.Context(), id, pawl.TokenFilter{Node: "load"}) {
		require.NoError(s.t, err)
		require.NoError(s.t, s.engine.Fail(s.t.Context(), tok.Key, pawl.TaskError{Code: "bad_row", Message: "no"}))
	}
}

// parked counts the parked tasks of a run.
func (s *shop) parked(id workflow.RunID) (n int) {
	s.t.Helper()
	for _, err := range s.engine.DeadLetters(s.t.Context(), pawl.DeadLetterFilter{Run: id}) {
		require.NoError(s.t, err)
		n++
	}
	return n
}

// nextPage finds where a list goes on.
var nextPage = regexp.MustCompile(`rel="next" href="([^"]+)"`)

// Beyond the oldest 200 the inbox has more pages, on which every parked task stands once.
func TestPagesOfTheInbox(t *testing.T) {
	s := openShop(t)
	s.parkMany("import-1", 203)
	s.parkMany("import-2", 2)
	ann := s.serve(as("ann", api.All)) // who may act has check boxes
	seen := map[string]bool{}
	address, pages := "inbox?of=letters", 0
	for ; address != ""; pages++ {
		page := ann.see(address)
		require.Contains(t, textOf(t, page), "Parked tasks 205")
		for _, m := range regexp.MustCompile(`name="target" value="([^"]+)"`).FindAllStringSubmatch(page, -1) {
			require.False(t, seen[m[1]], "twice: %s", m[1])
			seen[m[1]] = true
		}
		require.Equal(t, pages > 0, strings.Contains(page, ">Oldest</a>"))
		next := nextPage.FindStringSubmatch(page)
		if address = ""; next != nil {
			address = html.UnescapeString(next[1])
		}
	}
	require.Equal(t, 2, pages)
	require.Len(t, seen, 205)
	status, _ := s.get("inbox?letters=x")
	require.Equal(t, 404, status)
	require.Contains(t, textOf(t, s.see("inbox?letters="+url.QueryEscape("3 nobody"))), "205 × bad_row", "of a run that was purged: the first page")
}

// All parked tasks that fit are retried as one act: counted and tried first, in steps, each with its reason.
func TestActOnAllOfTheInbox(t *testing.T) {
	s := openShop(t)
	s.parkMany("import-1", 3)
	s.parkMany("import-2", 2)
	ann := s.serve(as("ann", api.All))
	before := s.journals()
	where := url.QueryEscape(`run == "import-1"`)
	inbox := ann.see("inbox?where=" + where)
	link := regexp.MustCompile(`href="(act\?all=letters&amp;do=retry[^"]+)"`).FindStringSubmatch(inbox)
	require.NotNil(t, link)
	require.NotContains(t, s.see("inbox"), "all=letters", "of who may only look")
	asks := ann.see(html.UnescapeString(link[1]))
	require.Contains(t, textOf(t, asks), "Retry all 3 parked tasks?")
	require.Contains(t, textOf(t, asks), `Those are the parked tasks of runs that fit the condition run == "import-1".`)
	require.Contains(t, textOf(t, asks), "load of import-1")
	require.Equal(t, before, s.journals())

	form := formOf(asks)
	form.Set("reason", "the file is mended")
	form.Set("most", "2")
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 200, status, body)
	require.Contains(t, textOf(t, body), "2 retried")
	require.Contains(t, textOf(t, body), "which stand after import-1 t4")
	require.Equal(t, 1, s.parked("import-1"))
	status, _, header := ann.post("act", formOf(body), "same-origin")
	require.Equal(t, 303, status)
	require.Contains(t, textOf(t, ann.see(header.Get("Location"))), "It is done: 3 retried.")
	require.Equal(t, state.Act{By: "ann", Reason: "the file is mended"}, s.last("import-1"))
	require.Equal(t, 0, s.parked("import-1"))
	require.Equal(t, 2, s.parked("import-2"))

	for _, wrong := range []string{"all=letters&do=approve", "all=approvals&do=retry", "all=1&do=skip", "all=letters&do=retry&cursor=x", "all=approvals&do=reject"} {
		status, _ := ann.get("act?" + wrong)
		require.GreaterOrEqual(t, status, 400, wrong)
		require.Less(t, status, 500, wrong)
	}
}

// Approvals that fit are answered as one act too; who has voted already is told with the token.
func TestAnswerAllApprovals(t *testing.T) {
	s := openShop(t)
	for _, id := range []workflow.RunID{"a", "b"} {
		s.start(id, "name: asks\nstart: w\nnodes: [{id: w, approval: {message: go, quorum: 2}}]\n", nil)
	}
	ann := s.serve(as("ann", api.All))
	form := formOf(ann.see("act?all=approvals&do=approve"))
	form.Set("reason", "fine")
	status, _, header := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status)
	require.Contains(t, textOf(t, ann.see(header.Get("Location"))), "It is done: 2 approved.")
	status, _, _ = ann.post("act", form, "same-origin")
	require.Equal(t, 303, status, "the same once more is no other vote")
	form.Set("reason", "on second thoughts")
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 409, status)
	require.Contains(t, textOf(t, body), "0 approved, 2 refused")
	require.Contains(t, body, `href="inbox"`)
}
