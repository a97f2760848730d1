package scheduling

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/schedule"
)

// A step of a schedule that has fired at every instant since it was applied looks at no more instants after a year than after two days: each
// takes memory.
func TestStepsOfOldSchedules(t *testing.T) {
	for name, s := range map[string]schedule.Schedule{
		"every":     {Every: time.Minute},
		"cron":      {Cron: []string{"* * * * *"}, Timezone: "Europe/Berlin"},
		"exception": {Every: time.Minute, Except: []string{"0-58 * * * *"}},
	} {
		s.ID, s.Workflow.Name = "s", "w"
		table, err := schedule.Compile(&s)
		require.NoError(t, err)
		now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
		costOf := func(days int) float64 {
			begun := now.AddDate(0, 0, -days)
			st := &state{AppliedAt: begun, Begun: begun, Told: begun}
			st.closeSpan(begun, now.Add(-time.Minute))
			return testing.AllocsPerRun(100, func() { decideInstants(table, st, now) })
		}
		require.LessOrEqual(t, costOf(365), costOf(2)+1, name) // others in the process may allocate too
	}
}

// Instants that came too late between spans in which all is decided are told, up to the span that is not over.
func TestInstantsBetweenSpansAreTold(t *testing.T) {
	s := schedule.Schedule{ID: "s", Workflow: schedule.Workflow{Name: "w"}, Every: time.Hour}
	table, err := schedule.Compile(&s)
	require.NoError(t, err)
	now := time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC)
	begun := now.AddDate(0, 0, -8)
	st := &state{AppliedAt: begun, Begun: begun, Told: begun}
	st.closeSpan(begun, begun.Add(10*time.Hour))
	st.closeSpan(begun.Add(12*time.Hour), now)
	v := verdict{state: st.clone()}
	v.passOver(table, now.Add(-24*time.Hour))
	require.Len(t, v.skips, 1)
	require.Equal(t, 2, v.skips[0].Count)
	require.Equal(t, begun.Add(12*time.Hour), v.skips[0].Until)
}

// A backfill that is kept of a schedule whose instants follow its runs has none, and so it is over.
func TestNoInstantsToBackfillAfterRuns(t *testing.T) {
	s := schedule.Schedule{ID: "s", Workflow: schedule.Workflow{Name: "w"}, After: time.Minute}
	table, err := schedule.Compile(&s)
	require.NoError(t, err)
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	e := &entry{view: view{table: table}}
	_, found := e.nextBackfilled(&state{Backfills: []schedule.Backfill{{From: now.Add(-time.Hour), To: now, Most: 1}}})
	require.False(t, found)
}
