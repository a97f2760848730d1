package inspector

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// The page of the workers lists the types first whose tasks have waited longest, and says how many more there are than it lists.
func TestTheOldestTasksAreListedFirst(t *testing.T) {
	p := newServerForTest().newPage(httptest.NewRecorder(), httptest.NewRequest("GET", "/workers", nil))
	var load []history.TypeLoad
	for i := range shownRows {
		load = append(load, history.TypeLoad{Task: fmt.Sprintf("a%03d", i), Pending: 1})
	}
	load = append(load, history.TypeLoad{Task: "x", Running: 1, Longest: time.Hour}, history.TypeLoad{Task: "y", Waiting: 1, Oldest: time.Minute}, history.TypeLoad{Task: "z", Waiting: 1, Oldest: time.Hour})
	var b workersBody
	b.takeLoad(p, load)
	require.Len(t, b.Process, shownRows)
	require.Equal(t, "3", b.Others)
	require.Equal(t, []string{"z", "y", "x", "a000"}, []string{b.Process[0].Type, b.Process[1].Type, b.Process[2].Type, b.Process[3].Type})
	b = workersBody{}
	b.takeLoad(p, load[:shownRows])
	require.Empty(t, b.Others)
}

// Each list of the page of the workers says how many rows it leaves out, and the types come first whose tasks wait longest.
func TestWorkersSayWhatTheyLeaveOut(t *testing.T) {
	w := httptest.NewRecorder()
	p := newServerForTest().newPage(w, httptest.NewRequest("GET", "/workers", nil))
	var s worker.Status
	for i := range shownRows + 7 {
		s.Workers = append(s.Workers, worker.WorkerStatus{ID: fmt.Sprint(i)})
		s.Types = append(s.Types, worker.TypeStatus{Type: fmt.Sprintf("t%03d", i), Queued: 1, OldestQueued: time.Duration(i) * time.Second})
	}
	b := workersBody{Pool: true}
	b.fillFrom(p, &s)
	require.Equal(t, []int{7, 7, 0, 0, shownRows + 7 - shownMissing}, []int{b.MoreWorkers, b.MoreTypes, b.MoreTenants, b.MoreHeld, b.MoreMissing})
	require.Equal(t, "t206", b.Types[0].Type)
	require.Equal(t, "t206", b.Missing[0].Type)
	require.Len(t, b.Missing, shownMissing)
	require.NoError(t, p.showPage("workers.html", "Workers", "workers", b))
	require.Equal(t, 2, strings.Count(w.Body.String(), "7 more are not listed."))
	require.Contains(t, w.Body.String(), "No worker takes 202 more types")
}

// The first page lists a few of many workflows, the busiest first, and leads to all.
func TestTheFirstPageHasTheBusiestWorkflows(t *testing.T) {
	p := newServerForTest().newPage(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	var rows []workflowRow
	for i := range 30 {
		rows = append(rows, workflowRow{Name: fmt.Sprint(i), Parts: []statusCount{{Status: workflow.RunRunning, N: int64(i % 25)}, {Status: workflow.RunCompleted, N: 100}}})
	}
	list := p.firstWorkflows(rows)
	require.Len(t, list.Rows, shownFlows)
	require.Equal(t, 30, list.Of)
	require.Equal(t, "24", list.Rows[0].Name)
	require.Equal(t, "0", rows[0].Name)
	require.Len(t, p.firstWorkflows(rows[:3]).Rows, 3)
}
