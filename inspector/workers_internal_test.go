package inspector

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/history"
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
