package pawltest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// Schedules do what a scenario says, with a crash after any commit, and whatever the order of results is; a quick run looks at the
// night on which clocks show an hour twice.
func TestScheduleScenarios(t *testing.T) {
	seed := int64(7)
	var chosen *regexp.Regexp
	if harness.CurrentLevel() == harness.Quick {
		chosen = regexp.MustCompile("twice")
	}
	for name, o := range map[string]Options{"crash": {Crash: true, Run: chosen, Limit: time.Hour}, "shuffled": {Shuffle: &seed, Run: chosen}} {
		t.Run(name, func(t *testing.T) { RunWith(t, filepath.Join("..", "testdata", "scenarios", "schedule.yaml"), o) })
	}
}

const scheduled = "scenario: s\ndefinition: {name: d, start: a, nodes: [{id: a, task: t}]}\n"

// A scenario whose schedules cannot be read is refused, with the place.
func TestScheduleErrors(t *testing.T) {
	const from = "schedule: {from: 2026-03-01T00:00:00Z, for: 24h, "
	const good = from + "schedules: [{id: s, workflow: {name: d}, every: 1h}]}\n"
	for _, tt := range []struct{ text, want string }{
		{"expect: {schedules: {s: {}}}", "s.yaml:3:21: expect: schedules: the scenario has no schedule"},
		{"events: [{at: 1s, schedule: {id: s, do: pause}}]\nexpect: {}", "s.yaml:3:10: events: schedule: the scenario has no schedule"},
		{"schedule: {}\nexpect: {}", "s.yaml:3:11: schedule: it has either schedules or a file"},
		{"schedule: {from: 2026-03-01T00:00:00Z, schedules: []}\nexpect: {}", "s.yaml:3:11: schedule: it needs from, an instant, and for, one second at least"},
		{"schedule: {from: today}\nexpect: {}", "s.yaml:3:18: schedule: from: not an instant such as 2026-03-29T03:30:00+02:00"},
		{"schedule: {from: 1999-03-01T00:00:00Z, for: 24h, schedules: []}\nexpect: {}", "s.yaml:3:11: schedule: from and for are full seconds from 2000-01-01T00:00:00Z to 2262-04-11T23:47:16Z"},
		{from + "file: none.yaml}\nexpect: {}", "s.yaml:3:56: schedule: file: none.yaml: no such file or directory"},
		{"schedule:\n  from: 2026-03-01T00:00:00Z\n  for: 24h\n  schedules:\n  - {id: s, workflow: {name: d},\n     cron: [\"0 0 * * *\", \"0 0 30 2 *\"]}\nexpect: {}", `s.yaml:8:26: schedule: schedules[0].cron[1]: "0 0 30 2 *": `},
		{from + "schedules: [{id: s, workflow: {name: d}, crom: 1h}]}\nexpect: {}", "s.yaml:3:97: schedule: schedules[0].crom: there is no such field; did you mean cron?"},
		{from + "schedules: [{id: s, workflow: {name: e}, every: 1h}]}\nexpect: {}", `s.yaml:3:87: schedule: schedules: the scenario defines no workflow "e"`},
		{good + "input: {n: 1}\nexpect: {}", "s.yaml:4:8: input: each schedule has its own"},
		{good + "metaLimits: {n: 1}\nexpect: {}", "s.yaml:4:13: metaLimits: the runs are those of schedules: their definitions limit them"},
		{good + "expect: {status: failed}", "s.yaml:4:10: expect: status: the runs are those of schedules"},
		{good + "expect: {schedules: {t: {}}}", `s.yaml:4:22: expect: schedules: there is no schedule "t"`},
		{good + "expect: {schedules: {s: {runs: [{status: failed}]}}}", "s.yaml:4:33: expect: schedules: s: runs: a run of a schedule needs at, its instant"},
		{good + "expect: {schedules: {s: {runs: [{at: 2026-03-01T01:00:00Z, status: fine}]}}}", `s.yaml:4:33: expect: schedules: s: runs: status: "fine" is none of`},
		{good + "events: [{at: 1s, schedule: {id: t, do: pause}}]\nexpect: {}", `s.yaml:4:10: events: schedule: id: there is no schedule "t"`},
		{good + "events: [{at: 1s, schedule: {id: s, do: stop}}]\nexpect: {}", `s.yaml:4:10: events: schedule: do: "stop" is none of pause, resume`},
		{good + "events: [{at: 1s, schedule: {id: s, do: pause, most: 1}}]\nexpect: {}", "s.yaml:4:10: events: schedule: from, to and most go with backfill"},
		{good + "events: [{at: 1s, cancel: true}]\nexpect: {}", `s.yaml:4:10: events: run: "" is not SCHEDULE@INSTANT, such as nightly@2026-03-29T03:30:00+02:00`},
		{good + "events: [{at: 1s, run: t@2026-03-01T01:00:00Z, cancel: true}]\nexpect: {}", `s.yaml:4:10: events: run: "t@2026-03-01T01:00:00Z" is not SCHEDULE@INSTANT`},
		{good + "events: [{at: 1s, fork: {as: f}}]\nexpect: {}", "s.yaml:4:10: events: fork: a scenario with a schedule makes no fork"},
	} {
		path := filepath.Join(t.TempDir(), "s.yaml")
		require.NoError(t, os.WriteFile(path, []byte(scheduled+tt.text), 0o600))
		_, err := Load(path)
		require.ErrorContains(t, err, tt.want, tt.text)
	}
}

// Each expectation of a schedule that does not hold is told, with instants as its zone has them.
func TestScheduleFailures(t *testing.T) {
	const text = scheduled + "schedule: {from: 2026-03-01T00:00:00Z, for: 2h, schedules: [{id: s, workflow: {name: d}, every: 1h, timezone: Asia/Kolkata}]}\nmocks: {a: [{delay: 90m}]}\nexpect: "
	for expect, want := range map[string]string{
		"{schedules: {s: {runs: []}}}":                                                "expect.schedules.s.runs: expected , got 2026-03-01T06:30:00+05:30 completed",
		"{schedules: {s: {runs: [{at: 2026-03-01T01:00:00Z, status: failed}]}}}":      "expect.schedules.s.runs: expected 2026-03-01T06:30:00+05:30 failed, got 2026-03-01T06:30:00+05:30 completed",
		"{schedules: {s: {skipped: {overlap: 1}}}}":                                   "expect.schedules.s.skipped: expected map[overlap:1], got map[]",
		"{schedules: {s: {paused: true}}}":                                            "expect.schedules.s.paused: expected true, got false",
		"{nodes: {a: 2}}":                                                             "expect.nodes.a: expected 2 completions, got 1",
		"{schedules: {s: {runs: [2026-03-01T01:00:00Z, 2026-03-01T02:00:00+00:00]}}}": "expected 2026-03-01T06:30:00+05:30 completed, 2026-03-01T07:30:00+05:30 completed, got",
	} {
		r := Play(t, load(t, text+expect), Options{})
		require.Len(t, r.Failures, 1, "%s: %s", expect, r)
		require.Contains(t, r.Failures[0].String(), want)
	}
}

// A scenario plays the schedules of a file that start its workflows.
func TestSchedulesOfAFile(t *testing.T) {
	folder := t.TempDir()
	file := "schedules:\n- {id: s, workflow: {name: d}, every: 1h}\n- {id: other, workflow: {name: e}, every: 1h}\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "schedules.yaml"), []byte(file), 0o600))
	text := scheduled + "schedule: {from: 2026-03-01T00:00:00Z, for: 2h, file: schedules.yaml}\nexpect: {schedules: {s: {runs: [2026-03-01T01:00:00Z]}}, nodes: {a: 1}}"
	path := filepath.Join(folder, "s.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	RunWith(t, path, Options{})
}
