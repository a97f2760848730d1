package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// A fullDisk is a codec with which nothing more of one run can be stored.
type fullDisk struct{ of atomic.Value }

func (*fullDisk) KeyID() string { return "plain" }

func (f *fullDisk) Encode(place string, plain []byte) ([]byte, error) {
	if run, _ := f.of.Load().(string); run != "" && strings.Contains(place, run) {
		return nil, pawl.ErrNoSpace
	}
	return plain, nil
}

func (*fullDisk) Decode(_, _ string, stored []byte) ([]byte, error) { return stored, nil }

// A batch that ends with an error of all runs answers what was done until then, and goes on from there.
func TestABatchThatAnErrorEnds(t *testing.T) {
	disk := &fullDisk{}
	e, _ := openEngine(t, pawl.Options{Codec: disk})
	for i := range 5 {
		run := workflow.Run{ID: workflow.RunID(fmt.Sprintf("w-%d", i)), Definition: parse(t, "name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n")}
		require.NoError(t, e.Start(t.Context(), run, nil))
	}
	require.NoError(t, e.Pause(t.Context(), "w-1"))
	disk.of.Store("w-3")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/batch?all=1", strings.NewReader(signed(`"do": "cancel"`)))
	w := httptest.NewRecorder()
	everything(e).ServeHTTP(w, r)
	require.Equal(t, http.StatusInsufficientStorage, w.Code, w.Body)
	require.Contains(t, w.Body.String(), `"code":"no_space"`)
	require.Contains(t, w.Body.String(), `"batch":{"applied":true,"found":3,"changed":3,"left":0,"refused":[],"cursor":"w-2"}`)

	c, closeClient := dialHandler(t, everything(e))
	defer closeClient()
	pause, f := api.Operation{Act: pawl.Pause{}, By: "ann", Reason: "the move"}, ofRuns(pawl.RunFilter{})
	disk.of.Store("w-4")
	done, err := c.DoAll(t.Context(), f, pause)
	require.ErrorIs(t, err, pawl.ErrNoSpace)
	require.Equal(t, pawl.Report{Applied: true, Found: 1, Changed: 1, Cursor: pawl.Target{Run: "w-3"}}, done)
	disk.of.Store("")
	f.After = done.Cursor
	done, err = c.DoAll(t.Context(), f, pause)
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Applied: true, Found: 1, Changed: 1}, done)
}

// So does a client that asked for many in steps: what earlier ones did is in its answer too.
func TestDoAllAddsUpToAnError(t *testing.T) {
	steps := 0
	c, closeClient := dialHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch steps++; steps {
		case 1:
			_, _ = w.Write([]byte(`{"applied":true,"found":2,"changed":2,"left":0,"refused":[],"cursor":"b"}`))
		case 2:
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = w.Write([]byte(`{"error":{"status":504,"code":"unknown_outcome","message":"x"},"batch":{"applied":true,"found":3,"changed":1,"left":1,"refused":[{"run":"c","error":{"status":409,"code":"conflict","message":"y"}}],"cursor":"e"}}`))
		}
	}))
	defer closeClient()
	done, err := c.DoAll(t.Context(), ofRuns(pawl.RunFilter{}), api.Operation{Act: pawl.Pause{}, Reason: "x"})
	require.ErrorIs(t, err, pawl.ErrUnknown)
	require.Equal(t, []any{5, 3, 1, 1, pawl.Target{Run: "e"}}, []any{done.Found, done.Changed, done.Left, len(done.Refused), done.Cursor})
}

// A batch whose time is over before anything was found has no cursor to go on from, and says how to choose; a count that is not
// finished says so.
func TestABatchThatFindsNothingInTime(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	waits := parse(t, "name: asks\nstart: a\nnodes: [{id: a, approval: {}}]\n")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: waits}, nil))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for target, c := range map[string]struct{ act, told string }{
		"batch?all=1":              {`"do": "cancel"`, "no runs were found in 20s: choose by what an index has, such as workflow and status"},
		"batch?dryRun=1":           {`"do": "cancel"`, "there are more than 0 runs: choose fewer"},
		"approvals/batch?all=1":    {`"do": "vote", "approved": true`, "no tokens were found in 20s: choose by run, or with another condition"},
		"approvals/batch?dryRun=1": {`"do": "vote", "approved": true`, "there are more than 0 tokens: choose fewer"},
	} {
		r := httptest.NewRequestWithContext(gone, http.MethodPost, "http://localhost/v1/"+target, strings.NewReader(signed(c.act)))
		w := httptest.NewRecorder()
		everything(e).ServeHTTP(w, r)
		require.Equal(t, http.StatusServiceUnavailable, w.Code, "%s: %s", target, w.Body)
		require.Contains(t, w.Body.String(), c.told, target)
	}
}
