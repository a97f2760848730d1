package api_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/schedule"
)

// A client does with schedules what the engine does, and is refused as the engine refuses.
func TestSchedulesOfAClient(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	server := httptest.NewServer(api.Handler(e, api.Options{Identify: everybody(api.All)}))
	t.Cleanup(server.Close)
	c := api.NewClient(server.URL, server.Client())
	ctx := t.Context()
	set := api.ScheduleSet{By: "ann", Reason: "begin", Schedules: []schedule.Schedule{
		{ID: "a", Workflow: schedule.Workflow{Name: "none"}, Every: time.Hour}, {ID: "b", Workflow: schedule.Workflow{Name: "none"}, At: []time.Time{time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}},
	}}
	changes, err := c.ApplySchedules(ctx, set, pawl.ApplyOptions{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, api.ScheduleChanges{Changes: []schedule.Change{{ID: "a", Kind: "created"}, {ID: "b", Kind: "created"}}}, changes)
	_, err = c.Schedule(ctx, "a")
	require.ErrorIs(t, err, pawl.ErrScheduleNotFound)
	_, err = c.ApplySchedules(ctx, set, pawl.ApplyOptions{})
	require.NoError(t, err)
	var ids []string
	for s, err := range c.Schedules(ctx, "") {
		require.NoError(t, err)
		ids = append(ids, s.Schedule.ID)
	}
	require.Equal(t, []string{"a", "b"}, ids)
	for _, do := range []string{"pause", "resume"} {
		_, err = c.ActOnSchedule(ctx, "a", api.ScheduleAct{Do: do, By: "ann", Reason: "why not"})
		require.NoError(t, err)
	}
	_, err = c.ActOnSchedule(ctx, "a", api.ScheduleAct{Do: "trigger", By: "ann", Reason: "now"})
	require.ErrorIs(t, err, pawl.ErrNotPublished, "there is no such workflow")
	events, err := c.ScheduleEvents(ctx, "a", time.Time{}, time.Time{})
	require.NoError(t, err)
	require.Len(t, events, 3)
	require.Equal(t, "ann", events[0].By)
	require.Equal(t, "why not", events[0].Reason)
	now := time.Now().UTC().Truncate(time.Hour)
	report, err := c.ActOnSchedule(ctx, "a", api.ScheduleAct{Do: "backfill", By: "ann", Reason: "now", From: now.Add(-2 * time.Hour), To: now})
	require.NoError(t, err)
	require.Equal(t, 2, report.Firings)
	_, err = c.ActOnSchedule(ctx, "b", api.ScheduleAct{Do: "delete", By: "ann", Reason: "gone"})
	require.NoError(t, err)
	_, err = c.ActOnSchedule(ctx, "b", api.ScheduleAct{Do: "pause", By: "ann", Reason: "gone"})
	require.ErrorIs(t, err, pawl.ErrScheduleNotFound)
	st, err := c.Schedule(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, time.Hour, st.Schedule.Every)
	require.NotEmpty(t, st.Why)
}
