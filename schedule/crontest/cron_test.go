package crontest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/adhocore/gronx"
	cron "github.com/netresearch/go-cron"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/schedule"
)

// ours returns the first instant of package schedule.
func ours(t rapid.TB, text, zone string, after time.Time) (time.Time, error) {
	tt, err := schedule.Compile(&schedule.Schedule{ID: "s", Workflow: schedule.Workflow{Name: "w"}, Cron: []string{text}, Timezone: zone})
	if err != nil {
		return time.Time{}, err
	}
	f, ok := tt.Next(after)
	if !ok {
		t.Fatalf("%s: no instant", text)
	}
	return f.At, nil
}

// netresearch returns the first instant of netresearch/go-cron.
func netresearch(t rapid.TB, text, zone string, after time.Time) time.Time {
	location, err := time.LoadLocation(zone)
	require.NoError(t, err)
	s, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom).Parse(text)
	require.NoError(t, err, text)
	return s.Next(after.In(location)).UTC()
}

// gronxNext returns the first instant of adhocore/gronx.
func gronxNext(t rapid.TB, text, zone string, after time.Time) time.Time {
	location, err := time.LoadLocation(zone)
	require.NoError(t, err)
	at, err := gronx.NextTickAfter(text, after.In(location), false)
	require.NoError(t, err, text)
	return at.UTC()
}

// drawField draws the text of a field in a form that all three read alike.
func drawField(t *rapid.T, least, most int, names string) string {
	all, named := strings.Fields(names), rapid.Bool().Draw(t, "name")
	name := func(v int) string {
		if len(all) > 0 && named {
			return all[v-least]
		}
		return fmt.Sprint(v)
	}
	item := func() string {
		low := rapid.IntRange(least, most).Draw(t, "low")
		high := rapid.IntRange(low, most).Draw(t, "high")
		switch form := rapid.IntRange(0, 3).Draw(t, "form"); {
		case form == 0:
			return name(low) + "-" + name(high)
		case form == 1 && high > low+1:
			return fmt.Sprintf("%s-%s/%d", name(low), name(high), rapid.IntRange(2, high-low).Draw(t, "step"))
		}
		return name(low)
	}
	if rapid.IntRange(0, 2).Draw(t, "wild") == 0 {
		return "*"
	}
	var items []string
	for range rapid.IntRange(1, 3).Draw(t, "items") {
		items = append(items, item())
	}
	return strings.Join(items, ",")
}

// In UTC the three agree on all expressions that they read alike.
func TestAlikeInUTC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minute := drawField(t, 0, 59, "")
		if rapid.IntRange(0, 3).Draw(t, "step") == 0 {
			minute = fmt.Sprintf("*/%d", rapid.IntRange(2, 30).Draw(t, "every"))
		}
		text := strings.Join([]string{
			minute, drawField(t, 0, 23, ""), drawField(t, 1, 31, ""),
			drawField(t, 1, 12, "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"), drawField(t, 0, 6, ""),
		}, " ")
		after := time.Unix(rapid.Int64Range(1_600_000_000, 1_900_000_000).Draw(t, "after"), 0).UTC()
		have, err := ours(t, text, "UTC", after)
		if err != nil {
			require.ErrorContains(t, err, "there is no such date", text)
			require.True(t, netresearch(t, text, "UTC", after).IsZero(), text)
			return
		}
		require.Equal(t, netresearch(t, text, "UTC", after), have, "%s after %s: netresearch", text, after)
		require.Equal(t, gronxNext(t, text, "UTC", after), have, "%s after %s: gronx", text, after)
	})
}

// The three differ where clocks change: go-cron shifts a missing time as pawl does, but not midnight and not half an hour,
// and has a repeated time twice; gronx leaves a missing time out. They differ as well about days: with a step of a wildcard
// in one of its two fields, pawl and gronx want both to fit, as Vixie cron does. go-cron reads neither THU beside other
// weekdays nor a range of weekdays that ends with it. A release of one of them that changes this fails here.
func TestDifferences(t *testing.T) {
	const spring, autumn = "2026-03-08T05:00:00Z", "2026-11-01T04:00:00Z" // midnight of New York, before the clocks change
	for _, d := range []struct {
		what, text, zone, after  string
		pawl, netresearch, gronx string // the first two instants
	}{
		{"a missing time", "30 2 * * *", "America/New_York", "2026-03-08T05:00:00Z", "03-08T07:30Z 03-09T06:30Z", "03-08T07:30Z 03-09T06:30Z", "03-09T06:30Z 03-10T06:30Z"},
		{"a missing hour of an hourly job", "0 * * * *", "America/New_York", "2026-03-08T06:30:00Z", "03-08T07:00Z 03-08T08:00Z", "03-08T07:00Z 03-08T08:00Z", "03-08T07:00Z 03-08T08:00Z"},
		{"a repeated time", "30 1 * * *", "America/New_York", "2026-11-01T04:00:00Z", "11-01T05:30Z 11-02T06:30Z", "11-01T05:30Z 11-01T06:30Z", "11-01T05:30Z 11-02T06:30Z"},
		{"a repeated hour of an hourly job", "0 * * * *", "America/New_York", "2026-11-01T05:30:00Z", "11-01T06:00Z 11-01T07:00Z", "11-01T06:00Z 11-01T07:00Z", "11-01T06:00Z 11-01T07:00Z"},
		{"a missing midnight", "0 0 * * *", "Asia/Beirut", "2022-03-26T12:00:00Z", "03-26T22:00Z 03-27T21:00Z", "03-27T21:00Z 03-28T21:00Z", "03-27T21:00Z 03-28T21:00Z"},
		{"a repeated midnight", "0 0 * * *", "America/Havana", "2024-11-02T12:00:00Z", "11-03T04:00Z 11-04T05:00Z", "11-03T04:00Z 11-03T05:00Z", "11-03T04:00Z 11-04T05:00Z"},
		{"half an hour", "0 2 * * *", "Australia/Lord_Howe", "2024-10-05T12:00:00Z", "10-05T15:30Z 10-06T15:00Z", "10-06T15:00Z 10-07T15:00Z", "10-06T15:00Z 10-07T15:00Z"},
		{"both fields of days, one with a step of a wildcard", "0 0 */2 * 1", "UTC", "2026-06-01T00:00:00Z", "06-15T00:00Z 06-29T00:00Z", "06-03T00:00Z 06-05T00:00Z", "06-15T00:00Z 06-29T00:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, d.after)
		require.NoError(t, err)
		two := func(next func(t rapid.TB, text, zone string, after time.Time) time.Time) string {
			first := next(t, d.text, d.zone, after)
			return first.Format("01-02T15:04Z") + " " + next(t, d.text, d.zone, first).Format("01-02T15:04Z")
		}
		have := two(func(t rapid.TB, text, zone string, after time.Time) time.Time {
			at, err := ours(t, text, zone, after)
			require.NoError(t, err)
			return at
		})
		require.Equal(t, d.pawl, have, "%s: pawl", d.what)
		require.Equal(t, d.netresearch, two(netresearch), "%s: go-cron", d.what)
		require.Equal(t, d.gronx, two(gronxNext), "%s: gronx", d.what)
	}
}
