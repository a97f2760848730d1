package inspector_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// Parked tasks that differ in numbers alone are one row, which is opened to its members and acted on as a whole, and nothing else is.
func TestTheInboxIsGrouped(t *testing.T) {
	s := openShop(t)
	s.start("import-1", order, map[string]any{"amount": 7, "files": make([]string, 6)})
	require.NoError(t, s.engine.Complete(t.Context(), s.key("import-1", "quote"), nil))
	for i := range 5 {
		require.NoError(t, s.engine.Fail(t.Context(), s.key("import-1", "load"), pawl.TaskError{Code: "bad_row", Message: fmt.Sprintf("line %d of file %xf0 has 4 fields", 17+i, i)}))
	}
	require.NoError(t, s.engine.Fail(t.Context(), s.key("import-1", "load"), pawl.TaskError{Code: "bad_row", Message: "the file is empty"}))
	ann := s.serve(as("ann", api.All))
	inbox := ann.see("inbox")
	require.Contains(t, textOf(t, inbox), "5 × bad_row line # of file # has # fields load of order")
	require.Contains(t, textOf(t, inbox), "1 × bad_row the file is empty load of order")
	require.Contains(t, textOf(t, ann.see("")), "5 × bad_row")
	open := regexp.MustCompile(`<a href="(inbox\?[^"]*)#letters"><code>bad_row</code> line`).FindStringSubmatch(inbox)
	require.NotNil(t, open)
	members := ann.see(html.UnescapeString(open[1]))
	require.Len(t, regexp.MustCompile(`name="target" value="p`).FindAllString(members, -1), 5)
	require.NotContains(t, textOf(t, members), "the file is empty")
	require.Contains(t, textOf(t, members), "Parked tasks 5 ")
	require.Contains(t, textOf(t, ann.see("inbox?of=letters")), "Parked tasks 6 ")
	all := regexp.MustCompile(`href="(act\?[^"]*do=retry[^"]*)">Retry all 5 tasks…`).FindStringSubmatch(inbox)
	require.NotNil(t, all)
	asks := ann.see(html.UnescapeString(all[1]))
	require.Contains(t, textOf(t, asks), "Retry all 5 parked tasks?")
	form := formOf(asks)
	form.Set("reason", "the rows are mended")
	form.Set("most", "2")
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 200, status, body)
	require.Equal(t, 4, s.parked("import-1"))
	status, _, header := ann.post("act", formOf(body), "same-origin")
	require.Equal(t, 303, status)
	require.Contains(t, textOf(t, ann.see(header.Get("Location"))), "It is done: 5 retried.")
	require.Equal(t, 1, s.parked("import-1"))
}

// A reader who does not see messages sees groups of codes, and learns nothing of a message by guessing it.
func TestGroupsTellNoMessages(t *testing.T) {
	s := openShop(t)
	s.parkMany("import-1", 3)
	bob := s.serve(as("bob", api.View|api.Act))
	inbox := textOf(t, bob.see("inbox"))
	require.Contains(t, inbox, "3 × bad_row load of order")
	redacted := as("ann", api.All)
	redacted.Redact = func(_ workflow.RunID, _ string, v any) any { return v }
	for _, o := range []inspector.Options{as("bob", api.View|api.Act), redacted} {
		reader := s.serve(o)
		for _, like := range []string{"no", "line #"} {
			form := url.Values{"do": {"skip"}, "all": {"letters"}, "like": {like}, "reason": {"gone"}}
			status, page := reader.get("act?" + form.Encode())
			require.Equal(t, 403, status, page)
			require.Contains(t, textOf(t, page), "you may not choose by messages")
			status, page, _ = reader.post("act", form, "same-origin")
			require.Equal(t, 403, status, page)
			status, page = reader.get("inbox?of=letters&like=" + url.QueryEscape(like))
			require.Equal(t, 403, status, page)
		}
	}
	require.Equal(t, 3, s.parked("import-1"))
}

// Approvals are grouped by their question.
func TestApprovalsAreGrouped(t *testing.T) {
	s := openShop(t)
	for i := range 4 {
		s.start(workflow.RunID(fmt.Sprint("ask-", i)), "name: asks\nstart: w\nnodes: [{id: w, approval: {messageExpr: '\"Ship \" + string(input.n) + \" parcels?\"'}}]\n", map[string]any{"n": i})
	}
	ann := s.serve(as("ann", api.All))
	inbox := ann.see("inbox")
	require.Contains(t, textOf(t, inbox), "4 × Ship # parcels? w of asks")
	require.Contains(t, textOf(t, ann.see("inbox?of=approvals&run=ask-1")), "Approvals 1 ")
	all := regexp.MustCompile(`href="(act\?[^"]*do=approve[^"]*)">Approve all 4 requests…`).FindStringSubmatch(inbox)
	require.NotNil(t, all)
	form := formOf(ann.see(html.UnescapeString(all[1])))
	form.Set("reason", "fine")
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status, body)
	require.Contains(t, textOf(t, ann.see("inbox")), "Nobody is asked for anything.")
}
