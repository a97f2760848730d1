package schedule

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

const nightly = `
schedules:
  - id: nightly
    workflow: {name: report}
    cron: ["0 2 * * *"]
    timezone: Europe/Berlin
    input: {day: fire.date, at: string(scheduled), n: fire.count, first: last == null, fixed: [1, true, null]}
    catchUp: {window: 1h, most: 2}
    labels: {of: nightly}
    dst: {repeated: both}
    overlap: skip
  - id: often
    workflow: {name: report, version: 2}
    every: 15m
    offset: 5m0s
    jitter: 1m
    metaLimits: {cost: 0.5, rows: 100}
    start: 2026-12-01T01:00:00+01:00
`

// A file is read, written as canonical JSON without defaults, and read again.
func TestParse(t *testing.T) {
	set, err := Parse([]byte(nightly))
	require.NoError(t, err)
	require.Empty(t, Check(set, time.Time{}))
	require.Len(t, set, 2)
	data, err := json.Marshal(set)
	require.NoError(t, err)
	require.Equal(t, `[{"catchUp":{"most":2,"window":"1h"},"cron":["0 2 * * *"],"dst":{"repeated":"both"},"id":"nightly",`+
		`"input":{"at":"string(scheduled)","day":"fire.date","first":"last == null","fixed":[1,true,null],"n":"fire.count"},"labels":{"of":"nightly"},`+
		`"timezone":"Europe/Berlin","workflow":{"name":"report"}},`+
		`{"every":"15m","id":"often","jitter":"1m","metaLimits":{"cost":0.5,"rows":100},"offset":"5m","start":"2026-12-01T00:00:00Z","workflow":{"name":"report","version":2}}]`, string(data))
	again, err := Parse([]byte(`{"schedules":` + string(data) + `}`))
	require.NoError(t, err)
	second, err := json.Marshal(again)
	require.NoError(t, err)
	require.Equal(t, string(data), string(second))
	var one Schedule
	require.NoError(t, json.Unmarshal([]byte(`{"id":"a","workflow":{"name":"w"},"at":["2026-12-01T00:00:00Z"]}`), &one))
	require.Equal(t, []time.Time{time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}, one.At)
}

// Every problem has its place, whether the reader finds it or the check.
func TestProblemsHavePlaces(t *testing.T) {
	for text, want := range map[string][]string{
		"schedules:\n  - id: a\n    cron: 5\n    evry: 1m\n    at: [tomorrow]\n    dst: {missing: no}\n": {
			`line 3:5: schedules[0].cron: 5 where a list is needed (wrong_type)`,
			`line 4:5: schedules[0].evry: there is no such field; did you mean every? (unknown_field)`,
			`line 5:10: schedules[0].at[0]: "tomorrow" is not an instant in RFC 3339, such as 2026-12-01T00:00:00Z or 2026-12-01T01:00:00+01:00 (wrong_type)`,
			`line 6:11: schedules[0].dst.missing: "no" is not one of shift, skip (unknown_value)`,
		},
		"schedules: [{id: a, workflow: {name: w}, every: 1m, metaLimits: {a: x}}]": {
			`line 1:66: schedules[0].metaLimits.a: "x" is not a number (wrong_type)`,
		},
		"schedules: [{id: a, workflow: {name: w}, every: 1m, metaLimits: {a: -1, b: 1e16, '': 1}}]": {
			`line 1:66: schedules[0].metaLimits.a: -1 is not in 0..2^53 (out_of_range)`,
			`line 1:73: schedules[0].metaLimits.b: 1e+16 is not in 0..2^53 (out_of_range)`,
			`line 1:82: schedules[0].metaLimits: a name has 1 to 128 bytes of UTF-8 (invalid_name)`,
		},
		"a: 1\n": {"line 1:1: a: there is no such field (unknown_field)", "line 1:1: a file of schedules has the list schedules (missing)"},
		"schedules:\n  - id: a/b\n    workflow: {name: w, version: 1}\n    cron: ['0 0 30 2 *', '* * * * * *', '*/90 * * * *', '0 0 L * *', '@every 5m', 'TZ=UTC 0 0 * * *']\n    timezone: Local\n" +
			"    input: {a: nope, b: {c: '1 +'}}\n  - id: b\n    every: 1500ms\n    after: 1m\n  - {id: b, workflow: {name: w}, every: 1m, except: ['* * * * *']}\n": {
			`line 2:5: schedules[0].id: "a/b" has / or @, which the ids of runs have for themselves (invalid_name)`,
			`line 4:12: schedules[0].cron[0]: "0 0 30 2 *": there is no such date: none of the months has such a day (invalid_value)`,
			`line 4:26: schedules[0].cron[1]: "* * * * * *": six fields: there are neither seconds nor years, only minute, hour, day of the month, month, day of the week; for seconds there is the field every (invalid_value)`,
			`line 4:41: schedules[0].cron[2]: "*/90 * * * *": minute: a step of 90 reaches beyond the field, which ends at 59; for other intervals there is the field every (invalid_value)`,
			`line 4:57: schedules[0].cron[3]: "0 0 L * *": day of the month: "L": L, W and # are not there; a later day of a month can be found by an expression of the workflow (invalid_value)`,
			`line 4:70: schedules[0].cron[4]: "@every 5m": "@every 5m" is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually; for @every there is the field every (invalid_value)`,
			`line 4:83: schedules[0].cron[5]: "TZ=UTC 0 0 * * *": the zone is the field timezone of the schedule (invalid_value)`,
			`line 5:5: schedules[0].timezone: the zone Local is another on each machine: name one of the IANA database, such as Europe/Berlin (invalid_value)`,
			`line 6:13: schedules[0].input.a: at 1:1 of the expression: unknown variable nope; a text needs quotes of its own: "'nope'"; there are fire, last, scheduled (unknown_variable)`,
			`line 6:26: schedules[0].input.b.c: at 1:4 of the expression: the expression ends too early: something is missing behind "+" (expression)`,
			`line 7:5: schedules[1].workflow.name: it is missing (missing)`,
			`line 8:5: schedules[1].every: 1.5s is not 1s to 8784h in whole seconds (out_of_range)`,
			`line 9:5: schedules[1].after: every and after exclude each other (conflict)`,
			`line 10:6: schedules[2].id: schedules[1] has the same id (duplicate_id)`,
			`line 10:45: schedules[2].except: nothing is left: it would never fire (invalid_value)`,
		},
		"schedules: [{id: a, workflow: {name: w}, start: 2026-12-02T00:00:00Z, end: 2026-12-05T00:00:00Z,\n  at: [2026-12-01T00:00:00Z, 2026-12-02T00:00:00Z, 2026-12-05T00:00:00Z]}]\n": {
			`line 2:8: warning: schedules[0].at[0]: it is before start, so it never fires (out_of_range)`,
			`line 2:52: warning: schedules[0].at[2]: it is not before end, so it never fires (out_of_range)`,
		},
	} {
		set, err := Parse([]byte(text))
		var problems []workflow.Problem
		if refused := (*Error)(nil); errors.As(err, &refused) {
			problems = refused.Problems
		} else {
			require.NoError(t, err)
			problems = Check(set, time.Time{})
		}
		var have []string
		for _, p := range problems {
			have = append(have, p.String())
		}
		require.Equal(t, strings.Join(want, "\n"), strings.Join(have, "\n"))
	}
}

// Check evaluates inputs as the next firing does.
func TestCheckEvaluatesInputs(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for fields, want := range map[string]string{
		"every: 1h, input: {day: fire.date, n: fire.count}":                      "",
		"every: 1h, input: {day: fire.dat}":                                      "line 1:61: schedules[0].input.day: for the firing of 2026-12-01T13:00:00Z: at 1:5 of the expression: no such key: dat (expression)",
		"every: 1h, input: {a: [fire.date + 1]}":                                 "line 1:65: schedules[0].input.a[0]: for the firing of 2026-12-01T13:00:00Z: at 1:11 of the expression: no such overload (expression)",
		"every: 1h, input: {a: last.output}":                                     "line 1:61: warning: schedules[0].input.a: for the firing of 2026-12-01T13:00:00Z, if last is null: at 1:5 of the expression: no such key: output (expression)",
		"every: 1h, input: {a: 'last == null ? 0 : last.output.n'}":              "",
		"every: 1h, input: fire.date":                                            "line 1:53: schedules[0].input: for the firing of 2026-12-01T13:00:00Z: the expression gives no object (expression)",
		"every: 1h, end: 2026-12-01T12:00:01Z, input: {day: fire.dat}":           "",
		"after: 1h, input: {day: fire.dat}":                                      "line 1:61: schedules[0].input.day: for the firing of 2026-12-01T13:00:00Z: at 1:5 of the expression: no such key: dat (expression)",
		`at: [2026-12-24T00:00:00Z], input: {x: '{"2026-12-24": 1}[fire.date]'}`: "",
		"every: 1h, input: {day: '1 +'}":                                         `line 1:61: schedules[0].input.day: at 1:4 of the expression: the expression ends too early: something is missing behind "+" (expression)`,
	} {
		set, err := Parse([]byte("schedules: [{id: s, workflow: {name: w}, " + fields + "}]"))
		require.NoError(t, err)
		var have []string
		for _, p := range Check(set, now) {
			have = append(have, p.String())
		}
		assert.Equal(t, want, strings.Join(have, "\n"), fields)
	}
}

// table returns the timetable of a schedule in the text of its fields.
func table(t *testing.T, fields string) *Timetable {
	t.Helper()
	set, err := Parse([]byte("schedules: [{id: s, workflow: {name: w}, " + fields + "}]"))
	require.NoError(t, err)
	require.Empty(t, Check(set, time.Time{}))
	tt, err := Compile(&set[0])
	require.NoError(t, err)
	return tt
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}

// shown lists instants from after until until, by Between.
func shown(t *testing.T, tt *Timetable, after, until string) (out []string) {
	t.Helper()
	for f := range tt.Between(instant(t, after), instant(t, until)) {
		text := f.At.Format("01-02T15:04Z") + " " + f.Local[5:]
		for _, mark := range []string{string(f.Clock), string(f.Left)} {
			if mark != "" {
				text += " " + mark
			}
		}
		out = append(out, text)
	}
	return out
}

// On the nights of Berlin of 2026 each form does what the documentation of the package says.
func TestNightsOfBerlin(t *testing.T) {
	spring := func(fields string) []string {
		return shown(t, table(t, "timezone: Europe/Berlin, "+fields), "2026-03-28T22:00:00Z", "2026-03-29T03:00:00Z")
	}
	autumn := func(fields string) []string {
		return shown(t, table(t, "timezone: Europe/Berlin, "+fields), "2026-10-24T22:00:00Z", "2026-10-25T03:00:00Z")
	}
	require.Equal(t, []string{"03-29T01:30Z 03-29 02:30 shifted"}, spring("cron: ['30 2 * * *']"))
	require.Equal(t, []string{"03-29T01:00Z 03-29 02:00 shifted", "03-29T01:30Z 03-29 02:30 shifted", "03-29T02:00Z 03-29 04:00"}, spring("cron: ['0 2,4 * * *', '30 2 * * *']"))
	require.Equal(t, []string{"03-29T01:30Z 03-29 03:30"}, spring("cron: ['30 2,3 * * *']"))
	require.Equal(t, []string{"03-29T01:30Z 03-29 02:30 missing"}, spring("cron: ['30 2 * * *'], dst: {missing: skip}"))
	require.Equal(t, []string{"03-29T01:30Z 03-29 03:30"}, spring("cron: ['30 2 * * *', '30 3 * * *'], dst: {missing: skip}"))
	require.Equal(t, []string{"03-28T23:00Z 03-29 00:00", "03-29T00:00Z 03-29 01:00", "03-29T01:00Z 03-29 03:00", "03-29T02:00Z 03-29 04:00", "03-29T03:00Z 03-29 05:00"}, spring("cron: ['0 * * * *']"))
	require.Equal(t, []string{"03-29T01:30Z 03-29 02:30 shifted except"}, spring("cron: ['30 2 * * *'], except: ['* * 29 3 *']"))
	require.Equal(t, []string{"03-29T01:30Z 03-29 02:30 shifted except"}, spring("cron: ['30 2 * * *'], except: ['* 3 * * *']"))
	f, ok := table(t, "timezone: Europe/Berlin, cron: ['30,40 2 * * *'], except: ['30 3 * * *']").Next(instant(t, "2026-03-28T22:00:00Z"))
	require.True(t, ok)
	require.Equal(t, "2026-03-29T01:40:00Z", f.At.Format(time.RFC3339))

	require.Equal(t, []string{"10-25T00:30Z 10-25 02:30 first", "10-25T01:30Z 10-25 02:30 second repeated"}, autumn("cron: ['30 2 * * *']"))
	require.Equal(t, []string{"10-25T00:30Z 10-25 02:30 first", "10-25T01:30Z 10-25 02:30 second"}, autumn("cron: ['30 2 * * *'], dst: {repeated: both}"))
	require.Equal(t, []string{"10-25T00:30Z 10-25 02:30 first repeated", "10-25T01:30Z 10-25 02:30 second"}, autumn("cron: ['30 2 * * *'], dst: {repeated: last}"))
	require.Equal(t, []string{"10-24T23:00Z 10-25 01:00", "10-25T00:00Z 10-25 02:00 first", "10-25T01:00Z 10-25 02:00 second", "10-25T02:00Z 10-25 03:00"},
		shown(t, table(t, "timezone: Europe/Berlin, cron: ['@hourly']"), "2026-10-24T22:00:00Z", "2026-10-25T02:00:00Z"))
}

// A text that is a list of schedules is told what a file has around it.
func TestListWithoutName(t *testing.T) {
	_, err := Parse([]byte("- id: s\n  every: 1m\n"))
	require.EqualError(t, err, "invalid schedules: line 1:1: a list where an object is needed: write schedules: in the line above it, and indent the list (wrong_type)")
}

// A change of clocks is later than the second before it, and not later than itself.
func TestChangesBetweenInstants(t *testing.T) {
	tt := table(t, "timezone: Europe/Berlin, every: 1h")
	count := func(after, until string) (n int) {
		for range tt.Changes(instant(t, after), instant(t, until)) {
			n++
		}
		return n
	}
	require.Equal(t, 1, count("2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z"))
	require.Equal(t, 0, count("2026-03-29T00:59:58Z", "2026-03-29T00:59:59Z"))
	require.Equal(t, 1, count("2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"))
}

// A timetable by every, after and at.
func TestOtherForms(t *testing.T) {
	at := func(tt *Timetable, after string) string {
		f, ok := tt.Next(instant(t, after))
		if !ok {
			return "never"
		}
		return f.At.Format(time.RFC3339)
	}
	every := table(t, "every: 15m, offset: 5m, end: '2026-12-01T00:30:00Z', except: ['5 * * * *']")
	require.Equal(t, "2026-12-01T00:20:00Z", at(every, "2026-12-01T00:00:00Z"))
	require.Equal(t, "never", at(every, "2026-12-01T00:20:00Z"))
	after := table(t, "after: 90s, start: '2026-12-01T00:00:00Z'")
	require.Equal(t, "2026-12-01T01:01:30Z", at(after, "2026-12-01T01:00:00Z"))
	require.Equal(t, "2026-12-01T01:01:31Z", at(after, "2026-12-01T01:00:00.7Z"), "not before 90 s have passed")
	require.Equal(t, "2026-12-01T00:00:00Z", at(after, "2026-11-01T00:00:00Z"), "it counts from there, and not from start")
	require.Equal(t, "2026-12-01T00:00:00Z", at(after, "2026-11-30T23:58:30Z"))
	require.Equal(t, "2026-12-01T00:00:01Z", at(after, "2026-11-30T23:58:31Z"))
	second := instant(t, "2026-12-02T00:00:00Z")
	list, err := Compile(&Schedule{At: []time.Time{second, second.AddDate(0, 0, -1)}, Start: second}) // which Check refuses
	require.NoError(t, err)
	require.Equal(t, "2026-12-02T00:00:00Z", at(list, "2026-11-02T00:00:00Z"))
	require.Equal(t, "never", at(list, "2026-12-02T00:00:00Z"))
}

// Exceptions of any length leave the instants behind them, and a schedule without any is refused.
func TestLongExceptions(t *testing.T) {
	for _, c := range []struct{ fields, after, want string }{
		{"every: 1s, except: ['* * * * SAT,SUN']", "2026-11-28T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"every: 1s, except: ['* * * 1-11 *']", "2026-01-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"every: 1s, except: ['* * * 1-11 *'], timezone: Europe/Berlin", "2026-01-01T00:00:00Z", "2026-11-30T23:00:00Z"},
		{"every: 1h, except: ['* 0-3 * * *'], timezone: Europe/Berlin", "2026-03-28T23:30:00Z", "2026-03-29T02:00:00Z"}, // clocks jump meanwhile
		{"every: 10s, except: ['* * * 1 *']", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"},
		{"every: 1s, except: ['0-58 * * * *']", "2026-12-01T00:00:00Z", "2026-12-01T00:59:00Z"},
		{"every: 7s, offset: 3s, except: ['* * 1-28,30,31 * *', '* * 29 1,3-12 *']", "2026-01-01T00:00:00Z", "2028-02-29T00:00:01Z"},
		{"every: 25h, except: ['* 1-23 * * *', '1-59 0 * * *']", "1970-01-01T00:00:00Z", "1970-01-26T00:00:00Z"},
	} {
		f, ok := table(t, c.fields).Next(instant(t, c.after))
		require.True(t, ok, c.fields)
		require.Equal(t, c.want, f.At.Format(time.RFC3339), c.fields)
	}
	for _, fields := range []string{"every: 1s, except: ['* * * * *']", "every: 90s, except: ['*/3,1-59/3 * * * *']", "every: 24h, offset: 1h, except: ['0 1 * * *']"} {
		set, err := Parse([]byte("schedules: [{id: s, workflow: {name: w}, " + fields + "}]"))
		require.NoError(t, err)
		problems := Check(set, time.Time{})
		require.Len(t, problems, 1)
		require.Equal(t, "nothing is left: it would never fire", problems[0].Message)
	}
}

// A zone of one machine is refused, and one that a stored schedule has goes on.
func TestZonesOfOneMachine(t *testing.T) {
	for _, name := range []string{"localtime", "posixrules", "right/Europe/Berlin", "posix/UTC", "Right/UTC"} {
		s := Schedule{ID: "s", Workflow: Workflow{Name: "w"}, Every: time.Hour, Timezone: name}
		problems := s.Check()
		require.Len(t, problems, 1)
		require.Equal(t, "timezone: the zone "+name+" is another on each machine, or is not there: name one of the IANA database, such as Europe/Berlin (invalid_value)", problems[0].String())
		_, inFiles := time.LoadLocation(name)
		_, err := Compile(&s)
		require.Equal(t, inFiles == nil, err == nil, name)
	}
}

// The jitter depends on the schedule and the instant, and is less than its bound.
func TestJitter(t *testing.T) {
	tt := table(t, "every: 1m, jitter: 30s")
	seen := map[time.Duration]bool{}
	from := instant(t, "2026-12-01T00:00:00Z")
	for range 100 {
		f, ok := tt.Next(from)
		require.True(t, ok)
		d := f.Due.Sub(f.At)
		require.True(t, 0 <= d && d < 30*time.Second && d%time.Millisecond == 0, d)
		seen[d], from = true, f.At
	}
	require.Greater(t, len(seen), 90)
	f, _ := tt.Next(instant(t, "2026-12-01T00:00:00Z"))
	require.Equal(t, "00:01:02.050", f.Due.Format("15:04:05.000"), "who has a schedule relies on it")
	require.Equal(t, workflow.RunID("s@2026-12-01T00:01:00Z"), f.RunID("s"))
}

// The expressions of an input know the instant, the count and the previous run.
func TestInput(t *testing.T) {
	set, err := Parse([]byte(nightly))
	require.NoError(t, err)
	tt, err := Compile(&set[0])
	require.NoError(t, err)
	v, err := tt.Input(instant(t, "2026-11-22T23:30:00Z"), 7, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"at": "2026-11-22T23:30:00Z", "day": "2026-11-23", "n": int64(7), "first": true, "fixed": []any{int64(1), true, nil}}, v)
	_, err = table(t, "every: 1m, input: {a: {b: last.status}}").Input(time.Unix(0, 0), 1, nil)
	require.ErrorContains(t, err, "input.a.b: ")
	_, err = table(t, "every: 1m, input: '[1]'").Input(time.Unix(0, 0), 1, nil)
	require.EqualError(t, err, "input: the expression gives no object")
	v, err = table(t, "every: 1m, input: 'last.output'").Input(time.Unix(0, 0), 2, map[string]any{"output": map[string]any{"x": int64(1)}})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"x": int64(1)}, v)
}
