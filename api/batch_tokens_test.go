package api_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// Runs of ships park a task before they ask people, those of asks only ask.
const (
	ships = "name: ships\nstart: ship\nnodes:\n  - {id: ship, task: ship, retry: {maxAttempts: 1, exhausted: park}}\n  - {id: ask, approval: {message: 'go?'}}\ntransitions: [{from: ship, to: ask}]\n"
	asks  = "name: asks\nstart: ask\nnodes: [{id: ask, approval: {message: 'go?'}}]\n"
)

// openInbox returns an engine with so many parked tasks, and then so many approvals that are open.
func openInbox(t *testing.T, parked, open int) *pawl.Engine {
	t.Helper()
	e, _ := openEngine(t, pawl.Options{})
	for i := range parked {
		id := workflow.RunID(fmt.Sprint("parked-", i))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: parse(t, ships)}, nil))
		awaitEvent(t, e, id, workflow.EventTaskParked)
	}
	for i := range open {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("asks-", i)), Definition: parse(t, asks)}, nil))
	}
	return e
}

// Both lists of the inbox are read page by page to their ends.
func TestPagesOfTheInbox(t *testing.T) {
	h := everything(openInbox(t, 5, 3))
	for path, want := range map[string]int{"/v1/dead-letters": 5, "/v1/approvals": 3} {
		var seen []string
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path+"?limit=2&cursor="+cursor, http.NoBody)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			var page struct {
				DeadLetters, Approvals []struct{ Run string }
				Cursor                 string
				More                   bool
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
			for _, x := range append(page.DeadLetters, page.Approvals...) {
				seen = append(seen, x.Run)
			}
			require.Equal(t, page.More, page.Cursor != "")
			cursor = page.Cursor
		}
		require.Len(t, seen, want, path)
		require.IsIncreasing(t, seen)
	}
}

// A filter chooses tokens to be retried, skipped or voted on: they are counted first, and acted on in steps; each
// refusal is told with its token.
func TestBatchOfTheInbox(t *testing.T) {
	e := openInbox(t, 5, 3)
	c, closeClient := dialHandler(t, everything(e))
	defer closeClient()
	retry := api.Operation{Act: pawl.Retry{}, By: "ann", Reason: "the bank is up"}
	all := pawl.DeadLetterFilter{Code: "closed"}
	counted, err := c.DoAll(t.Context(), pawl.Selection{DeadLetters: &all, DryRun: true}, retry)
	require.NoError(t, err)
	require.Equal(t, 5, counted.Found)
	require.True(t, counted.Targets[0].Parked)

	first := all
	first.Limit = 2
	done, err := c.DoAll(t.Context(), pawl.Selection{DeadLetters: &first}, api.Operation{Act: pawl.Skip{}, By: "ann", Reason: "by hand"})
	require.NoError(t, err)
	require.Equal(t, 2, done.Changed)
	require.Equal(t, workflow.RunID("parked-1"), done.Cursor.Run)
	require.NotZero(t, done.Cursor.Token)
	done, err = c.DoAll(t.Context(), pawl.Selection{DeadLetters: &all, After: done.Cursor}, retry)
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Applied: true, Found: 3, Changed: 3}, done)

	voted, err := c.DoAll(t.Context(), pawl.Selection{Approvals: &pawl.ApprovalFilter{Where: `workflow == "asks"`, Limit: 2}}, api.Operation{Act: pawl.Vote{Approved: true}, By: "ann", Reason: "fine"})
	require.NoError(t, err)
	require.Equal(t, 2, voted.Changed)
	left, err := c.DoAll(t.Context(), pawl.Selection{Approvals: &pawl.ApprovalFilter{}, DryRun: true}, api.Operation{Act: pawl.Vote{Approved: true}, By: "ann", Reason: "fine"})
	require.NoError(t, err)
	require.Equal(t, 3, left.Found)

	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/approvals/batch?all=1&limit=2", strings.NewReader(signed(`"do": "vote", "approved": true`)))
	w := httptest.NewRecorder()
	everything(e).ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Contains(t, w.Body.String(), `"found":2,"changed":2`)
	require.Contains(t, w.Body.String(), `"cursor":"`)

	// A person who has voted already is refused, with the token.
	const quorum = "name: quorum\nstart: ask\nnodes: [{id: ask, approval: {quorum: 2, message: 'go?'}}]\n"
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "both", Definition: parse(t, quorum)}, nil))
	for i, answer := range []bool{true, true, false} { // what has been said once may be said again
		voted, err = c.DoAll(t.Context(), pawl.Selection{Approvals: &pawl.ApprovalFilter{Run: "both"}}, api.Operation{Act: pawl.Vote{Approved: answer}, By: "ann", Reason: "fine"})
		require.NoError(t, err)
		require.Equal(t, 1, voted.Found)
		require.Len(t, voted.Refused, i/2)
	}
	require.ErrorIs(t, voted.Refused[0].Err, pawl.ErrAlreadyVoted)
	require.Equal(t, workflow.RunID("both"), voted.Refused[0].Run)
	require.NotZero(t, voted.Refused[0].Token)
}

// A batch of the inbox that says too little, or what is not done to it, is refused.
func TestBatchesOfTheInboxThatAreRefused(t *testing.T) {
	e := openInbox(t, 1, 1)
	for _, c := range []struct {
		path, body, says string
	}{
		{"dead-letters/batch", `"do": "retry"`, "everything that waits"},
		{"dead-letters/batch?task=&code=x", `"do": "retry"`, "task has no value"},
		{"approvals/batch?run=&node=approve", `"do": "vote", "approved": true`, "run has no value"},
		{"dead-letters/batch?all=1", `"do": "cancel"`, "retry, skip"},
		{"dead-letters/batch?all=1", `"do": "retry", "token": 3`, "the query chooses"},
		{"dead-letters/batch?all=1&cursor=x", `"do": "retry"`, "cursor"},
		{"approvals/batch?run=asks-0", `"do": "vote"`, "approved"},
		{"approvals/batch?run=asks-0", `"do": "retry"`, "vote can be"},
		{"approvals/batch?run=asks-0&code=x", `"do": "vote", "approved": true`, "code"},
	} {
		method := http.MethodPost
		if c.body == "" {
			method = http.MethodGet
		}
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/v1/"+c.path, strings.NewReader(signed(c.body)))
		w := httptest.NewRecorder()
		everything(e).ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code, c.path)
		require.Contains(t, w.Body.String(), c.says)
	}
	for range e.DeadLetters(t.Context(), pawl.DeadLetterFilter{}) {
		return
	}
	t.Fatal("the parked task is gone")
}

// A client takes the filters that the engine takes: one with After alone begins with the first token of that run.
func TestTheInboxAfterARunAlone(t *testing.T) {
	e := openInbox(t, 3, 3)
	c, closeClient := dialHandler(t, everything(e))
	defer closeClient()
	letters, approvals := pawl.DeadLetterFilter{After: "parked-1"}, pawl.ApprovalFilter{After: "asks-1"}
	require.Equal(t, listOf(t, e.DeadLetters(t.Context(), letters)), listOf(t, c.DeadLetters(t.Context(), letters)))
	require.Equal(t, listOf(t, e.Approvals(t.Context(), approvals)), listOf(t, c.Approvals(t.Context(), approvals)))
	counted, err := c.DoAll(t.Context(), pawl.Selection{DeadLetters: &letters, DryRun: true}, api.Operation{Act: pawl.Skip{}, By: "ann", Reason: "by hand"})
	require.NoError(t, err)
	require.Equal(t, 2, counted.Found)
}

// A cursor of a run that was purged is refused with one code by every list and batch, in whichever form: a client tells it as the engine does.
func TestACursorOfAPurgedRun(t *testing.T) {
	e := openInbox(t, 1, 1)
	for _, path := range []string{"runs?cursor=gone", "dead-letters?cursor=1:gone", "approvals?cursor=1:gone"} {
		for _, accept := range []string{"application/json", "application/x-ndjson"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/"+path, http.NoBody)
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			everything(e).ServeHTTP(w, r)
			require.Equal(t, http.StatusNotFound, w.Code, "%s %s", path, accept)
			require.Contains(t, w.Body.String(), `"code":"run_not_found","message":"the cursor is of a run that was purged: begin anew"`)
		}
	}
	c, closeClient := dialHandler(t, everything(e))
	defer closeClient()
	for _, err := range c.DeadLetters(t.Context(), pawl.DeadLetterFilter{After: "gone", AfterToken: 1}) {
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
	skip := api.Operation{Act: pawl.Skip{}, By: "ann", Reason: "by hand"}
	_, err := c.DoAll(t.Context(), pawl.Selection{DeadLetters: &pawl.DeadLetterFilter{}, After: pawl.Target{Run: "gone", Token: 1}}, skip)
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	_, err = c.DoAll(t.Context(), ofRuns(pawl.RunFilter{After: "gone"}), api.Operation{Act: pawl.Pause{}, By: "ann", Reason: "the move"})
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
}

func listOf[T any](t *testing.T, list iter.Seq2[T, error]) (out []T) {
	t.Helper()
	for x, err := range list {
		require.NoError(t, err)
		out = append(out, x)
	}
	return out
}
