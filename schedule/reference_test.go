package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// A drawn is an expression that was drawn together with what it means: the reference does not read texts.
type drawn struct {
	text                      string
	fields                    [5]map[int]bool
	wildDay, wildWeekday, all bool // all: the hours are a wildcard or have a step
}

// drawField draws one field: its text and its values.
func drawField(t *rapid.T, f *cronField) (string, map[int]bool) {
	set, top := map[int]bool{}, f.max
	name := func(v int) string {
		if i := v - f.min; f.names != nil && i < len(f.names) && rapid.Bool().Draw(t, "name") {
			return rapid.SampledFrom([]string{f.names[i], strings.ToLower(f.names[i])}).Draw(t, "case")
		}
		return strconv.Itoa(v)
	}
	add := func(from, to, step int) {
		for v := from; v <= to; v += step {
			if f.max == 7 && v == 7 {
				set[0] = true
			} else {
				set[v] = true
			}
		}
	}
	item := func() string {
		value := rapid.IntRange(f.min, top)
		low := value.Draw(t, "low")
		high := rapid.IntRange(low, top).Draw(t, "high")
		step := rapid.IntRange(1, min(top-f.min, 12)).Draw(t, "step")
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			add(f.min, top, 1)
			return "*"
		case 1:
			last := top
			if top == 7 {
				last = 6 // * has each weekday once
			}
			add(f.min, last, step)
			return fmt.Sprintf("*/%d", step)
		case 2:
			add(low, high, 1)
			return name(low) + "-" + name(high)
		case 3:
			add(low, high, step)
			return fmt.Sprintf("%s-%s/%d", name(low), name(high), step)
		case 4:
			add(low, top, step)
			return fmt.Sprintf("%s/%d", name(low), step)
		}
		add(low, low, 1)
		return name(low)
	}
	var items []string
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "items") {
		items = append(items, item())
	}
	return strings.Join(items, ","), set
}

func drawCron(t *rapid.T) drawn {
	var d drawn
	var texts []string
	for i := range cronFields {
		text, set := "*", map[int]bool{}
		// Days are wild more often than not, or nothing would fire around a transition.
		if i >= 2 && rapid.IntRange(0, 2).Draw(t, "wild") > 0 {
			for v := range 32 {
				set[v] = true
			}
		} else {
			text, set = drawField(t, &cronFields[i])
		}
		texts, d.fields[i] = append(texts, text), set
	}
	d.text = strings.Join(texts, " ")
	d.wildDay, d.wildWeekday = texts[2][0] == '*', texts[4][0] == '*'
	d.all = strings.ContainsAny(texts[1], "*/") || len(d.fields[1]) == 24
	return d
}

// has reports whether an expression has a time on the clock.
func (d *drawn) has(w time.Time) bool {
	day, weekday := d.fields[2][w.Day()], d.fields[4][int(w.Weekday())]
	fits := day && weekday
	if !d.wildDay && !d.wildWeekday {
		fits = day || weekday
	}
	return d.fields[0][w.Minute()] && d.fields[1][w.Hour()] && d.fields[3][int(w.Month())] && fits
}

// clockOf returns what the clock of a zone shows, as if it were in UTC.
func clockOf(at time.Time, zone *time.Location) time.Time {
	l := at.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
}

// referenceOf returns the firings of some expressions between two instants, as shown by text. It goes minute by minute
// over the instants and writes down what the clock shows at each, and then minute by minute over the times on the clock:
// one that was never shown is missing, one that was shown twice is repeated.
func referenceOf(crons, except []drawn, dst DST, zone *time.Location, from, until time.Time) (out []string) {
	const margin = 50 * time.Hour
	shown := map[time.Time][]time.Time{}
	for at := from.Add(-margin); at.Before(until.Add(margin)); at = at.Add(time.Minute) {
		w := clockOf(at, zone)
		shown[w] = append(shown[w], at)
	}
	instants := map[time.Time]Clock{}
	fire := func(at time.Time, clock Clock) {
		if have, twice := instants[at]; !at.Before(from) && at.Before(until) && (!twice || have == ClockShifted) {
			instants[at] = clock
		}
	}
	last := shown[clockOf(from.Add(-20*time.Hour), zone)][0]
	for w := clockOf(last, zone); w.Before(clockOf(until.Add(20*time.Hour), zone)); w = w.Add(time.Minute) {
		at := shown[w]
		if len(at) > 0 {
			last = at[len(at)-1]
		}
		if slices.ContainsFunc(except, func(e drawn) bool { return e.has(w) }) {
			continue
		}
		for _, c := range crons {
			switch {
			case !c.has(w):
			case len(at) == 1:
				fire(at[0], "")
			case len(at) > 1:
				policy := dst.Repeated
				if policy == "" && c.all {
					policy = RepeatedBoth
				}
				if policy != RepeatedLast {
					fire(at[0], ClockFirst)
				}
				if policy == RepeatedBoth || policy == RepeatedLast {
					fire(at[1], ClockSecond)
				}
			case dst.Missing == MissingShift || dst.Missing == "" && !c.all:
				at := last.Add(w.Sub(clockOf(last, zone)))
				if !slices.ContainsFunc(except, func(e drawn) bool { return e.has(clockOf(at, zone)) }) {
					fire(at, ClockShifted)
				}
			}
		}
	}
	for at, clock := range instants {
		out = append(out, at.UTC().Format(time.RFC3339)+" "+string(clock))
	}
	slices.Sort(out)
	return out
}

// drawTransition draws an instant at which the clocks of a zone change.
func drawTransition(t *rapid.T) (*time.Location, time.Time) {
	name := rapid.SampledFrom([]string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "Africa/Cairo", "America/Santiago", "America/Havana",
		"Pacific/Apia", "Africa/Casablanca", "Antarctica/Troll", "Asia/Kathmandu", "Asia/Pyongyang", "America/Caracas", "Europe/Dublin",
	}).Draw(t, "zone")
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(rapid.Int64Range(631152000, 2145916800).Draw(t, "at"), 0) // 1990 to 2037
	if _, end := at.In(zone).ZoneBounds(); !end.IsZero() && rapid.IntRange(0, 9).Draw(t, "any") > 0 {
		at = end
	}
	return zone, at.UTC().Truncate(time.Minute)
}

// Around each change of clocks the timetable has the instants that a walk over all minutes finds, whatever the fields of
// the expressions are.
func TestTimetableAgainstTheWalk(t *testing.T) {
	harness.InTurn(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		zone, at := drawTransition(t)
		crons := []drawn{drawCron(t)}
		if rapid.IntRange(0, 3).Draw(t, "second") == 0 {
			crons = append(crons, drawCron(t))
		}
		var except []drawn
		if rapid.IntRange(0, 3).Draw(t, "except") == 0 {
			except = append(except, drawCron(t))
		}
		s := Schedule{ID: "s", Workflow: Workflow{Name: "w"}, Timezone: zone.String(), DST: DST{
			rapid.SampledFrom(append(missings, "")).Draw(t, "missing"), rapid.SampledFrom(append(repeateds, "")).Draw(t, "repeated"),
		}}
		for _, c := range crons {
			s.Cron = append(s.Cron, c.text)
		}
		for _, e := range except {
			s.Except = append(s.Except, e.text)
		}
		tt, err := Compile(&s)
		if err != nil {
			if !strings.Contains(err.Error(), "there is no such date") {
				t.Fatal(err)
			}
			t.Skip("a date that there is not")
		}
		from, until := at.Add(-26*time.Hour), at.Add(26*time.Hour)
		want := referenceOf(crons, except, s.DST, zone, from, until)
		var have, between []string
		for after := from.Add(-time.Second); ; {
			f, ok := tt.Next(after)
			if !ok || !f.At.Before(until) {
				break
			}
			have, after = append(have, f.At.Format(time.RFC3339)+" "+string(f.Clock)), f.At
		}
		require.Equal(t, want, have, "%v", s)
		for f := range tt.Between(from.Add(-time.Second), until.Add(-time.Second)) {
			if f.Left == "" {
				between = append(between, f.At.Format(time.RFC3339)+" "+string(f.Clock))
			}
		}
		require.Equal(t, want, between, "%v", s)
	})
}

// The next instant of an expression with few dates is the one that a walk over the days finds.
func TestRareDates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{fields: [5]map[int]bool{{}, {}, {}, {}, {}}, wildDay: true, wildWeekday: true}
		day := rapid.IntRange(28, 31).Draw(t, "day")
		month := rapid.IntRange(1, 12).Draw(t, "month")
		step := rapid.SampledFrom([]int{1, 2, 3, 5, 6}).Draw(t, "step")
		d.wildDay = false
		d.fields[0][0], d.fields[1][0], d.fields[2][day], d.fields[3][month] = true, true, true, true
		for v := 0; v < 7; v += step {
			d.fields[4][v] = true
		}
		tt, err := Compile(&Schedule{ID: "s", Workflow: Workflow{Name: "w"}, Cron: []string{fmt.Sprintf("0 0 %d %d */%d", day, month, step)}})
		from := time.Unix(rapid.Int64Range(0, 4102444800).Draw(t, "from"), 0).UTC() // to 2100
		last := from.AddDate(41, 0, 0)
		at := from.Truncate(24 * time.Hour).Add(24 * time.Hour)
		for ; at.Before(last) && !d.has(at); at = at.Add(24 * time.Hour) {
		}
		if err != nil {
			require.False(t, at.Before(last), err)
			return
		}
		f, ok := tt.Next(from)
		require.True(t, ok)
		require.Equal(t, at, f.At)
	})
}

// The 29th of February on a given weekday can be decades away, because 2100 is no leap year.
func TestLeapDayOnWeekday(t *testing.T) {
	for step := range 6 {
		tt, err := Compile(&Schedule{ID: "s", Workflow: Workflow{Name: "w"}, Cron: []string{fmt.Sprintf("0 0 29 2 */%d", step+1)}})
		require.NoError(t, err)
		for year := 2020; year < 2110; year++ {
			want := time.Date(year, 2, 29, 0, 0, 0, 0, time.UTC)
			for want.Month() != time.February || int(want.Weekday())%(step+1) != 0 {
				want = time.Date(want.Year()+1, 2, 29, 0, 0, 0, 0, time.UTC)
			}
			f, ok := tt.Next(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
			require.True(t, ok)
			require.Equal(t, want, f.At)
		}
	}
}

// Package time says of 31 December of a leap year that its period has ended, if it is beyond the zone's table: the search
// goes on all the same.
func TestLastDayOfLeapYears(t *testing.T) {
	tt, err := Compile(&Schedule{ID: "s", Workflow: Workflow{Name: "w"}, Cron: []string{"0 12 31 12 *"}, Timezone: "Europe/Berlin"})
	require.NoError(t, err)
	at := time.Date(2039, 12, 31, 13, 0, 0, 0, time.UTC)
	for _, year := range []int{2040, 2041, 2042, 2043, 2044, 2045} {
		f, ok := tt.Next(at)
		require.True(t, ok)
		require.Equal(t, time.Date(year, 12, 31, 11, 0, 0, 0, time.UTC), f.At)
		at = f.At
	}
}

// A search that finds nothing ends soon.
func TestSearchesEnd(t *testing.T) {
	tt, err := Compile(&Schedule{ID: "s", Workflow: Workflow{Name: "w"}, Cron: []string{"* * * * *"}, Except: []string{"0-29 * * * *", "30-59 * * * *"}})
	require.NoError(t, err)
	_, ok := tt.Next(time.Unix(0, 0))
	require.False(t, ok)
}

// A search that passes over days without a free time finds the instant that a walk over all instants finds.
func TestExceptionsAgainstTheWalk(t *testing.T) {
	harness.InTurn(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{ID: "s", Workflow: Workflow{Name: "w"}, Timezone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin"}).Draw(t, "zone")}
		for range rapid.IntRange(1, 2).Draw(t, "crons") {
			s.Cron = append(s.Cron, drawCron(t).text)
		}
		for range rapid.IntRange(1, 5).Draw(t, "exceptions") {
			s.Except = append(s.Except, drawCron(t).text)
		}
		tt, err := Compile(&s)
		if err != nil {
			t.Skip("a date that there is not")
		}
		from := time.Unix(rapid.Int64Range(0, 4102444800).Draw(t, "from"), 0).UTC()
		have, ok := tt.Next(from)
		looked := 0
		for f := range tt.Between(from, from.AddDate(4, 0, 0)) {
			if f.Left == "" {
				require.True(t, ok)
				require.Equal(t, f, have)
				return
			}
			if looked++; looked == 10_000 {
				require.True(t, !ok || have.At.After(f.At))
				return
			}
		}
	})
}

// A search that passes over minutes finds the multiple of every that a walk over all of them finds, also where clocks change.
func TestExceptionsOfEveryAgainstTheWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, at := drawTransition(t)
		every := time.Duration(rapid.OneOf(
			rapid.IntRange(1, 200), rapid.IntRange(201, 200_000), rapid.SampledFrom([]int{60, 90, 120, 300, 3600, 7200, 86_400}),
		).Draw(t, "every")) * time.Second
		s := Schedule{ID: "s", Workflow: Workflow{Name: "w"}, Every: every, Timezone: zone.String()}
		s.Offset = time.Duration(rapid.Int64Range(0, int64(every/time.Second)-1).Draw(t, "offset")) * time.Second
		for range rapid.IntRange(1, 4).Draw(t, "exceptions") {
			s.Except = append(s.Except, drawCron(t).text)
		}
		tt, err := Compile(&s)
		if err != nil {
			t.Skip("a date that there is not")
		}
		from := at.Add(-time.Duration(rapid.IntRange(0, 100_000).Draw(t, "before")) * time.Second)
		have, ok := tt.Next(from)
		looked := 0
		for f := range tt.Between(from, from.AddDate(40, 0, 0)) {
			if f.Left == "" {
				require.True(t, ok)
				require.Equal(t, f, have)
				return
			}
			if looked++; looked == 20_000 {
				require.True(t, !ok || have.At.After(f.At))
				return
			}
		}
		require.True(t, !ok || have.At.After(from.AddDate(40, 0, 0)))
	})
}

// Many exceptions that together leave nothing of most months make no search long, whatever it finds.
func TestManyExceptions(t *testing.T) {
	s := Schedule{ID: "s", Workflow: Workflow{Name: "w"}, Timezone: "Europe/Berlin"}
	for i := range maxCrons {
		s.Cron = append(s.Cron, fmt.Sprintf("%d * * * *", i%60))
		s.Except = append(s.Except, []string{"* * 1-28 2 *", "* * * 2 TUE-SUN"}[i%2])
	}
	s.Except[maxCrons-1] = "* * * 1,3-12 *" // the last that is looked at leaves nothing
	begun := time.Now()
	tt, err := Compile(&s)
	require.NoError(t, err)
	f, ok := tt.Next(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	require.True(t, ok)
	require.Equal(t, "2044-02-29 00:00", f.Local)
	s.Except[0] = "* * 1-29 2 *"
	require.NotEmpty(t, s.Check())
	require.Less(t, time.Since(begun), time.Minute, "it takes minutes where each hour is held against each exception")
}

func BenchmarkNext(b *testing.B) {
	for name, s := range map[string]Schedule{
		"nightly":  {Cron: []string{"0 2 * * *"}, Timezone: "Europe/Berlin"},
		"hourly":   {Cron: []string{"@hourly"}, Timezone: "Europe/Berlin"},
		"leap day": {Cron: []string{"0 0 29 2 *"}, Timezone: "Europe/Berlin"},
		"rare":     {Cron: []string{"0 0 29 2 */6"}, Timezone: "Europe/Berlin"},
		"never":    {Cron: []string{"* * * * *"}, Except: []string{"0-29 * * * *", "30-59 * * * *"}, Timezone: "Europe/Berlin"},
	} {
		s.ID, s.Workflow.Name = "s", "w"
		tt, err := Compile(&s)
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				tt.Next(time.Unix(1790000000, 0))
			}
		})
	}
}
