package schedule

import (
	"archive/zip"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

var rewrite = flag.Bool("rewrite", false, "write the tables of testdata anew")

// forms are the schedules that the tables show on each night.
var forms = []string{
	"cron: ['0 0 * * *']",
	"cron: ['30 1 * * *']",
	"cron: ['0 2 * * *', '30 2 * * *']",
	"cron: ['30 2 * * *'], dst: {missing: skip, repeated: last}",
	"cron: ['0 * * * *']",
	"cron: ['*/20 0-3 * * *']",
	"cron: ['0 */2 * * *'], dst: {missing: shift, repeated: first}",
	"cron: ['0 0-23/3 * * *'], except: ['0 3 * * *']",
}

// transitionsOf returns the instants of some years at which the clock of a zone changes.
func transitionsOf(zone *time.Location, from, until int) (out []time.Time) {
	last := time.Date(until+1, 1, 1, 0, 0, 0, 0, time.UTC)
	for at := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC); at.Before(last); {
		p := periodAt(at.Unix(), zone)
		if at = time.Unix(p.end, 0).UTC(); p.end == noEnd {
			break
		}
		if p.ahead != p.offset && at.Before(last) {
			out = append(out, at)
		}
	}
	return out
}

// tablesOf returns the timetables of the forms in a zone.
func tablesOf(t *testing.T, zone string) (out []*Timetable) {
	for _, form := range forms {
		out = append(out, table(t, "timezone: "+zone+", "+form))
	}
	return out
}

// night shows a transition and what each form does from 3 hours before it to 4 hours after it.
func night(zone *time.Location, at time.Time, tables []*Timetable) string {
	const clock = "2006-01-02 15:04 -0700"
	text := fmt.Sprintf("%s -> %s\n", at.Add(-time.Minute).In(zone).Format(clock), at.In(zone).Format(clock))
	for i, tt := range tables {
		text += "  " + forms[i] + "\n"
		for f := range tt.Between(at.Add(-3*time.Hour), at.Add(4*time.Hour)) {
			text += strings.TrimRight(fmt.Sprintf("    %s  %s  %s %s", f.At.Format("02T15:04Z"), f.Local, f.Clock, f.Left), " ") + "\n"
		}
	}
	return text
}

func compareFile(t *testing.T, name, have string) {
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(have), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), have)
}

// The nights that are unlike others: half an hour, midnight, two hours, a whole day, a fast, a zone without a change of
// clocks that moves.
func TestParticularNights(t *testing.T) {
	var text strings.Builder
	for _, n := range []struct{ zone, after string }{
		{"Europe/Berlin", "2026-01-01"}, {"Europe/Berlin", "2026-06-01"},
		{"America/New_York", "2026-01-01"}, {"America/New_York", "2026-06-01"},
		{"Australia/Lord_Howe", "2024-01-01"}, {"Australia/Lord_Howe", "2024-06-01"},
		{"Asia/Beirut", "2022-01-01"}, {"Asia/Beirut", "2022-06-01"},
		{"Africa/Cairo", "2023-01-01"}, {"Africa/Cairo", "2023-06-01"},
		{"America/Santiago", "2024-01-01"}, {"America/Santiago", "2024-06-01"},
		{"America/Havana", "2024-01-01"}, {"America/Havana", "2024-06-01"},
		{"Antarctica/Troll", "2024-01-01"}, {"Antarctica/Troll", "2024-06-01"},
		{"Pacific/Apia", "2011-11-01"},
		{"Africa/Casablanca", "2024-01-01"}, {"Asia/Pyongyang", "2018-01-01"},
	} {
		zone, err := time.LoadLocation(n.zone)
		require.NoError(t, err)
		after, err := time.Parse(time.DateOnly, n.after)
		require.NoError(t, err)
		at := transitionsOf(zone, after.Year(), after.Year())
		i := slices.IndexFunc(at, after.Before)
		text.WriteString(n.zone + ": " + night(zone, at[i], tablesOf(t, n.zone)))
	}
	compareFile(t, "nights.txt", text.String())
}

// zonesOf returns the names of the database that comes with Go.
func zonesOf(t *testing.T) (names []string) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	require.NoError(t, err)
	defer func() { require.NoError(t, z.Close()) }()
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	return names
}

// Every zone has a line that says what the forms do at all its transitions of five years, as a hash; zones that are alike
// share one. The years are over, so that the table does not change with the database of zones. nights.txt shows what is
// behind a hash.
func TestNightsOfAllZones(t *testing.T) {
	alike := map[string][]string{}
	for _, name := range zonesOf(t) {
		require.True(t, zoneName.MatchString(name), name)
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		at := transitionsOf(zone, 2020, 2024)
		if len(at) > 0 {
			var text strings.Builder
			tables := tablesOf(t, name)
			for _, at := range at {
				text.WriteString(night(zone, at, tables))
			}
			key := fmt.Sprintf("%x", sha256.Sum256([]byte(text.String())))[:8] + fmt.Sprintf(" %d", len(at))
			alike[key] = append(alike[key], name)
		}
	}
	var lines []string
	for key, names := range alike {
		lines = append(lines, strings.Join(slices.Sorted(slices.Values(names)), " ")+"  "+key)
	}
	slices.Sort(lines)
	compareFile(t, "zones.txt", strings.Join(lines, "\n")+"\n")
}

// On every night of five years, in one of each of the zones that are alike, a job of a fixed time fires once a day, and one of each hour fires at every
// full hour of the clock, once.
func TestNoNightLosesOrDoubles(t *testing.T) {
	harness.InTurn(t, 4)
	const margin = 50 * time.Hour
	lines, err := os.ReadFile(filepath.Join("testdata", "zones.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(lines)) {
		name, _, _ := strings.Cut(line, " ")
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		at := transitionsOf(zone, 2020, 2024)
		hourly, daily := table(t, "timezone: "+name+", cron: ['@hourly']"), map[int]*Timetable{}
		for _, minute := range []int{0, 30, 90, 120, 150, 180} {
			daily[minute] = table(t, fmt.Sprintf("timezone: %s, cron: ['%d %d * * *']", name, minute%60, minute/60))
		}
		for _, at := range at {
			for minute, tt := range daily {
				days := map[string]int{}
				for f := range tt.Between(at.Add(-margin), at.Add(margin)) {
					if f.Left == "" {
						days[f.Local[:10]]++
					}
				}
				for d := at.In(zone).AddDate(0, 0, -1); d.Before(at.In(zone).AddDate(0, 0, 1)); d = d.AddDate(0, 0, 1) {
					require.Equal(t, 1, days[d.Format(time.DateOnly)], "%s at %s: minute %d of %s", name, at, minute, d.Format(time.DateOnly))
				}
			}
			last := at.Add(-margin)
			for f := range hourly.Between(at.Add(-margin), at.Add(margin)) {
				for last = last.Add(time.Minute).Truncate(time.Minute); last.Before(f.At); last = last.Add(time.Minute) {
					require.NotZero(t, last.In(zone).Minute(), "%s: %s", name, last)
				}
				require.Zero(t, f.At.In(zone).Minute())
			}
		}
	}
}
