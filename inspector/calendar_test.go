package inspector_test

import (
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/schedule"
)

// A month in which clocks change at midnight has each of its days once, and each firing on its day: in Santiago and Asuncion clocks jump over
// midnight, also that of the first day, and in Havana they are set back to it.
func TestCalendarsWhereClocksChangeAtMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openScheduleShop(t)
		for _, c := range []struct{ zone, month, title, clocks string }{
			{"America/Santiago", "2026-09", "September 2026", "Sun 6 6 clocks go from 00:00 to 01:00 01:30 ,"},
			{"America/Asuncion", "2023-10", "October 2023", "Sun 1 1 clocks go from 00:00 to 01:00 01:30 ,"},
			{"America/Havana", "2026-03", "March 2026", "Sun 8 8 clocks go from 00:00 to 01:00 01:30 ,"},
			{"America/Havana", "2026-11", "November 2026", "Sun 1 1 clocks go from 01:00 to 00:00 00:30 , Sun 1 Nov 00:30: it fires then 00:30 , Sun 1 Nov 00:30: left out: "},
		} {
			set, err := schedule.Parse([]byte(`schedules: [{id: clock, workflow: {name: fine}, cron: ["30 0 * * *"], timezone: ` + c.zone + `}]`))
			require.NoError(t, err)
			_, err = s.engine.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
			require.NoError(t, err)
			page := s.see("schedule?id=clock&month=" + c.month)
			require.Contains(t, page, c.title)
			require.Contains(t, page, c.clocks, c.zone)
			var want []string
			date, err := time.Parse("2006-01", c.month)
			require.NoError(t, err)
			for at := date; at.Month() == date.Month(); at = at.AddDate(0, 0, 1) {
				want = append(want, at.Format("Mon 2 2"))
				require.Regexp(t, fmt.Sprintf(`%s .*%s 0[01]:30: it fires then`, at.Format("Mon 2 2"), at.Format("Mon 2 Jan")), page)
			}
			require.Equal(t, want, regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d+ \d+`).FindAllString(page, -1))
		}
	})
}
