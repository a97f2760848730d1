package inspector_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
)

// An attempt that asked to be called again is not told as one that has failed, as one is that is retried: the next wait has the same status.
func TestATimelineTellsASnoozeFromAFailure(t *testing.T) {
	s := openShop(t)
	s.start("polls", "name: polls\nstart: w\nnodes: [{id: w, task: w}]\n", nil)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("polls", "w"), pawl.Snooze(time.Hour)))
	page := s.see("run/polls?view=timeline")
	require.Contains(t, page, "ran and snoozed, ")
	require.NotContains(t, page, "failed, ")

	s.start("breaks", "name: breaks\nstart: w\nnodes: [{id: w, task: w, retry: {maxAttempts: 3, initialInterval: 1h}}]\n", nil)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("breaks", "w"), pawl.TaskError{Code: "busy"}))
	page = s.see("run/breaks?view=timeline")
	require.Contains(t, page, "ran and failed, ")
	require.NotContains(t, page, "snoozed")
}
