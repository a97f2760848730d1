package timing

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

var start = time.Date(2026, 11, 28, 3, 17, 20, 0, time.UTC)

// read reads with a filter, which must be right.
func read(t require.TestingT, c *Counters, f history.TimingFilter, now time.Time) history.Timings {
	f, err := CheckFilter(f)
	require.NoError(t, err)
	return c.Read(context.Background(), f, now)
}

// exact returns the time that a part of sorted times did not exceed.
func exact(sorted []time.Duration, part float64) time.Duration {
	return sorted[int(math.Ceil(part*float64(len(sorted))))-1]
}

// TestQuantilesAreClose: whatever the times, a quantile is within 6 % of the true one, or 10 µs.
func TestQuantilesAreClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Counters
		var queued, worked []time.Duration
		of := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(math.Exp(rapid.Float64Range(0, math.Log(40*24*3.6e12)).Draw(t, "log")))
		})
		for range rapid.IntRange(1, 300).Draw(t, "attempts") {
			a := Attempt{Of: Name{"w", "n", "t"}, At: start, Queued: of.Draw(t, "queued"), Worked: of.Draw(t, "worked"), Begun: true}
			c.Count(a)
			queued, worked = append(queued, a.Queued), append(worked, a.Worked)
		}
		slices.Sort(queued)
		slices.Sort(worked)
		row := read(t, &c, history.TimingFilter{}, start).Rows[0]
		for i, x := range []struct {
			part          float64
			queue, worked time.Duration
		}{{0.5, row.Queue.P50, row.Work.P50}, {0.95, row.Queue.P95, row.Work.P95}, {0.99, row.Queue.P99, row.Work.P99}} {
			for _, pair := range [][2]time.Duration{{exact(queued, x.part), x.queue}, {exact(worked, x.part), x.worked}} {
				off := math.Abs(float64(pair[0] - pair[1]))
				require.LessOrEqual(t, off, max(0.06*float64(pair[0]), 10_000), "quantile %d of %v", i, pair)
			}
		}
	})
}

// TestBucketsFollow: each bucket begins where the one before ends, and its middle lies in it.
func TestBucketsFollow(t *testing.T) {
	for b := uint16(1); b < buckets; b++ {
		require.Equal(t, b, bucketOf(middleOf(b)))
		require.Greater(t, middleOf(b), middleOf(b-1))
	}
	require.Equal(t, uint16(0), bucketOf(-time.Second))
	require.Equal(t, uint16(buckets-1), bucketOf(math.MaxInt64))
}

// TestWindowsAreOfTheirTime: at any instant, the windows have the attempts of their minutes, hours and days, as a list of all tells.
func TestWindowsAreOfTheirTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Counters
		var at []time.Time
		now := start
		for range rapid.IntRange(1, 120).Draw(t, "attempts") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, 17 * time.Minute, time.Hour, 9 * time.Hour, 24 * time.Hour, 40 * 24 * time.Hour}).Draw(t, "pause"))
			c.Count(Attempt{Of: Name{"w", "n", "t"}, At: now, Failed: rapid.Bool().Draw(t, "failed")})
			at = append(at, now)
		}
		now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Minute, 3 * time.Hour, 30 * time.Hour, 8 * 24 * time.Hour}).Draw(t, "later"))
		if rapid.Bool().Draw(t, "restored") {
			saved, _ := c.Save()
			c = Counters{}
			require.NoError(t, c.Restore(saved))
		}
		within := func(unit time.Duration, from, until int64) (n int64) {
			cell := func(t time.Time) int64 { return t.Unix() / int64(unit/time.Second) }
			for _, x := range at {
				if age := cell(now) - cell(x); from <= age && age < until {
					n++
				}
			}
			return n
		}
		require.Equal(t, within(time.Minute, 0, 60), read(t, &c, history.TimingFilter{Within: "hour"}, now).Total.Attempts)
		require.Equal(t, within(24*time.Hour, 0, 31), read(t, &c, history.TimingFilter{Within: "month"}, now).Total.Attempts)
		total := read(t, &c, history.TimingFilter{}, now).Total
		require.Equal(t, within(time.Hour, 0, 24), total.Attempts)
		require.Equal(t, within(time.Hour, 0, 24), total.Today.Attempts)
		require.Equal(t, within(time.Hour, 24, 48), total.Yesterday.Attempts)
		require.Equal(t, within(24*time.Hour, 1, 8), total.LastWeek.Attempts)
	})
}

// TestRowsAreAddedUp: rows of a workflow and of a type have what their nodes have.
func TestRowsAreAddedUp(t *testing.T) {
	var c Counters
	for i, n := range []Name{{"a", "x", "mail"}, {"a", "y", "pay"}, {"b", "x", "mail"}} {
		for range i + 1 {
			c.Count(Attempt{Of: n, At: start, Worked: time.Second, Begun: true, Failed: i == 2})
		}
	}
	now := start.Add(10 * time.Second)
	counts := func(f history.TimingFilter) (out []string) {
		for _, r := range read(t, &c, f, now).Rows {
			out = append(out, fmt.Sprint(r.Workflow, "/", r.Node, "/", r.Task, " ", r.Attempts, " ", r.Failed, " ", r.Rate))
		}
		return out
	}
	require.Equal(t, []string{"a/x/mail 1 0 0.1", "a/y/pay 2 0 0.2", "b/x/mail 3 3 0.3"}, counts(history.TimingFilter{}))
	require.Equal(t, []string{"a// 3 0 0.3", "b// 3 3 0.3"}, counts(history.TimingFilter{By: "workflow"}))
	require.Equal(t, []string{"//mail 4 3 0.4", "//pay 2 0 0.2"}, counts(history.TimingFilter{By: "task"}))
	require.Equal(t, []string{"b/x/mail 3 3 0.3"}, counts(history.TimingFilter{Workflow: "b", Within: "hour"}))
	points := read(t, &c, history.TimingFilter{Within: "hour"}, now).Points
	require.Len(t, points, 60)
	require.Equal(t, int64(6), points[59].Attempts)
	require.Equal(t, start.Truncate(time.Minute), points[59].At)
}

// TestSeriesAreBounded: of ten thousand names the first 500 count apart, and those that count nothing for a month make room.
func TestSeriesAreBounded(t *testing.T) {
	var c Counters
	for i := range 10_000 {
		c.Count(Attempt{Of: Name{"w", fmt.Sprint("n", i), "t"}, At: start})
	}
	c.Count(Attempt{Of: Name{Workflow: "w"}, At: start})
	runs := read(t, &c, history.TimingFilter{}, start).Runs
	require.Len(t, runs, 1)
	require.Equal(t, Other, runs[0].Workflow)
	saved, _ := c.Save()
	require.NoError(t, c.Restore(saved))
	rows := read(t, &c, history.TimingFilter{}, start).Rows
	require.Len(t, rows, MaxSeries+1)
	require.Equal(t, Other, rows[0].Workflow)
	require.Equal(t, int64(10_000-MaxSeries), rows[0].Attempts)
	later := start.Add(32 * 24 * time.Hour)
	c.Count(Attempt{Of: Name{"w", "new", "t"}, At: later})
	rows = read(t, &c, history.TimingFilter{}, later).Rows
	require.Len(t, rows, 1)
	require.Equal(t, "new", string(rows[0].Node))
}

// TestFileIsKept: what is kept is read again, an engine that has counted nothing writes nothing, and no file that is damaged is taken.
func TestFileIsKept(t *testing.T) {
	dir := t.TempDir()
	var none, c, again Counters
	require.NoError(t, none.OpenFile(dir))
	require.NoError(t, none.KeepFile(dir))
	require.NoFileExists(t, filepath.Join(dir, File))
	for i := range 3000 {
		c.Count(Attempt{Of: Name{"w", "n", "t"}, At: start.Add(time.Duration(i) * time.Minute), Queued: time.Duration(i) * time.Millisecond, Begun: true, Failed: i%7 == 0})
	}
	require.NoError(t, c.KeepFile(dir))
	require.NoError(t, again.OpenFile(dir))
	now := start.Add(3000 * time.Minute)
	require.Equal(t, read(t, &c, history.TimingFilter{Within: "month"}, now), read(t, &again, history.TimingFilter{Within: "month"}, now))
	require.NoError(t, os.Remove(filepath.Join(dir, File)))
	require.NoError(t, again.KeepFile(dir))
	require.NoFileExists(t, filepath.Join(dir, File))

	saved, _ := c.Save()
	damaged := slices.Clone(saved)
	damaged[len(damaged)/2] ^= 1
	for _, text := range []string{"", "null", savedMark, string(saved[:len(saved)/2]), string(damaged)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600))
		require.ErrorIs(t, again.OpenFile(dir), errSaved, text)
	}
}

// TestDamageIsRefused: what has a right checksum and is damaged all the same is refused, or read, and never more than that.
func TestDamageIsRefused(t *testing.T) {
	c, _ := busyCounters(1)
	saved, _ := c.Save()
	rapid.Check(t, func(t *rapid.T) {
		text := slices.Clone(saved[:len(saved)-crc32.Size])
		at := rapid.IntRange(len(savedMark), len(text)-1).Draw(t, "at")
		text[at] = rapid.Byte().Draw(t, "byte")
		text = binary.LittleEndian.AppendUint32(text, crc32.Checksum(text, castagnoli))
		var again Counters
		if err := again.Restore(text); err != nil {
			require.ErrorIs(t, err, errSaved)
			return
		}
		read(t, &again, history.TimingFilter{}, start)
	})
}

// TestCellsAreWhatWasCounted: cells have each number of each bucket.
func TestCellsAreWhatWasCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h, again histogram
		for range rapid.IntRange(0, 40).Draw(t, "cells") {
			h[rapid.IntRange(0, buckets-1).Draw(t, "bucket")] = rapid.OneOf(rapid.Uint32Range(1, 20), rapid.Uint32()).Draw(t, "n")
		}
		require.True(t, again.addCells(cells(h.appendCells(nil))))
		require.Equal(t, h, again)
	})
}

// TestClockWasAhead: what a series counted years ahead of the clock is gone, and what it counts from then on has its own time, also after
// a restart; a clock that goes back by an hour loses nothing.
func TestClockWasAhead(t *testing.T) {
	var c Counters
	count := func(at time.Time) { c.Count(Attempt{Of: Name{"w", "n", "t"}, At: at, Begun: true}) }
	total := func() int64 { return read(t, &c, history.TimingFilter{Within: "hour"}, start).Total.Attempts }
	count(start.Add(-time.Minute))
	for i := range 3 {
		count(start.AddDate(10, 0, i))
	}
	count(start)
	require.Equal(t, int64(1), total())
	require.Equal(t, start.Add(-time.Minute), c.since)
	count(start.Add(-time.Hour))
	require.Equal(t, int64(2), total())
	require.Equal(t, start.Add(-time.Hour), c.since)

	c = Counters{}
	count(start.AddDate(10, 0, 0))
	saved, _ := c.Save()
	c = Counters{}
	require.NoError(t, c.Restore(saved))
	count(start)
	require.Equal(t, int64(1), total())
	require.Equal(t, start, c.since)
}

// busyCounters returns counters of so many series that count 50 to 100 attempts in each of their last minutes, hours and days, with times
// that are far apart, and the instant of the last one.
func busyCounters(n int) (c *Counters, now time.Time) {
	r := rand.New(rand.NewPCG(1, 2))
	long := func(log float64) time.Duration { return time.Duration(math.Exp(r.NormFloat64()*1.5 + log)) }
	c = &Counters{}
	of := Name{Workflow: "w", Node: "n", Type: "t"}
	for age := 31 * 24 * time.Hour; age >= 0; age -= time.Minute {
		now = start.Add(-age)
		hour, attempts := now.Minute() == 0, 0
		switch {
		case age < time.Hour:
			attempts = 60
		case age < 48*time.Hour && hour:
			attempts = 100
		case hour && now.Hour()%6 == 0:
			attempts = 50
		}
		for range attempts {
			c.Count(Attempt{Of: of, At: now, Queued: long(16), Worked: long(18), Begun: true})
		}
	}
	for i := range n - 1 {
		s := *c.of[of] // what is over may be shared
		s.name.Node = fmt.Sprint("n", i)
		c.of[s.name] = &s
	}
	return c, now
}

// TestBusySeries: with as many busy series as there may be, the lock is held for a small part of a reading, a workflow without attempts
// is answered at once, whatever is busy, and the file has the size that the documents say. A reading is measured against
// another one beside it, since a machine under load is slower than any bound in milliseconds.
func TestBusySeries(t *testing.T) {
	c, now := busyCounters(MaxSeries)
	saved, _ := c.Save()
	require.NoError(t, new(Counters).Restore(saved))
	require.Less(t, len(saved), 12_000_000)
	for _, within := range windows {
		require.Len(t, read(t, c, history.TimingFilter{Within: within}, now).Rows, MaxSeries)
	}
	require.Empty(t, read(t, c, history.TimingFilter{Workflow: "other"}, now).Rows)
	t.Run("times", func(t *testing.T) { checkTimes(t, c, now) })
}

func checkTimes(t *testing.T, c *Counters, now time.Time) {
	harness.MeasuresTime(t)
	least := func(call func()) time.Duration {
		best := time.Hour
		for range 5 { // others want the processors too
			begin := time.Now()
			call()
			best = min(best, time.Since(begin))
		}
		return best
	}
	whole := time.Hour
	for _, within := range windows {
		took := least(func() { read(t, c, history.TimingFilter{Within: within}, now) })
		t.Logf("%s: %v", within, took)
		whole = min(whole, took)
	}
	lock := least(func() { c.copySeries("") })
	none := least(func() { read(t, c, history.TimingFilter{Workflow: "other"}, now) })
	var saved []byte
	save := least(func() { saved, _ = c.Save() })
	restore := least(func() { require.NoError(t, new(Counters).Restore(saved)) })
	t.Logf("lock %v, no such workflow %v, save %v, restore %v, %d bytes", lock, none, save, restore, len(saved))
	require.Less(t, 5*lock, whole)
	require.Less(t, 50*none, whole)
}

// BenchmarkCount counts an attempt of one of twenty nodes in turn.
func BenchmarkCount(b *testing.B) {
	var c Counters
	var names [20]Name
	for i := range names {
		names[i] = Name{"some-workflow", fmt.Sprint("a-node-", i), "some-task"}
	}
	at := start
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Count(Attempt{Of: names[i%20], At: at, Queued: time.Duration(i%5000) * time.Microsecond, Worked: time.Duration(i%90_000) * time.Microsecond, Begun: true})
	}
}

// A caller that asks for what there is to do alone has no series copied.
func TestTheLoadAloneReadsNoSeries(t *testing.T) {
	var c Counters
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	c.Count(Attempt{Of: Name{Workflow: "w", Node: "n", Type: "t"}, At: at, Begun: true})
	f, err := CheckFilter(history.TimingFilter{})
	require.NoError(t, err)
	require.Len(t, c.Read(t.Context(), f, at).Rows, 1)
	require.Zero(t, c.Read(WithLoadOnly(t.Context()), f, at))
}

// TestReportedNumbersAreAddedUp: what attempts report is added up exactly by name, for each window, of rows and of minutes, hours and days, also
// when it was saved; a series keeps the 8 names that came first.
func TestReportedNumbersAreAddedUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Counters
		now, want := start, map[string]int64{} // tenths, by name
		days := map[int64]map[string]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "attempts") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Minute, 9 * time.Hour, 30 * time.Hour}).Draw(t, "pause"))
			of := rapid.SampledFrom([]Name{{"w", "n", "t"}, {"w", "m", "t"}}).Draw(t, "of")
			name, tenths := fmt.Sprint("cost", rapid.IntRange(0, 5).Draw(t, "name")), rapid.Int64Range(0, 30).Draw(t, "tenths")
			c.Count(Attempt{Of: of, At: now, Reported: amount.FromFloats(map[string]float64{name: float64(tenths) / 10})})
			if want[name] += tenths; days[now.Unix()/86400] == nil {
				days[now.Unix()/86400] = map[string]int64{}
			}
			days[now.Unix()/86400][name] += tenths
			if rapid.IntRange(0, 9).Draw(t, "restored") == 0 {
				saved, _ := c.Save()
				c = Counters{}
				require.NoError(t, c.Restore(saved))
			}
		}
		floats := func(tenths map[string]int64) map[string]float64 {
			out := map[string]float64{}
			for name, n := range tenths {
				out[name] = float64(n) / 10
			}
			return out
		}
		out := read(t, &c, history.TimingFilter{By: "workflow", Within: "month"}, now)
		month := map[string]int64{}
		for i, p := range out.Points {
			day := days[now.Unix()/86400-int64(len(out.Points)-1-i)]
			for name, n := range day {
				month[name] += n
			}
			if day == nil {
				require.Nil(t, p.Meta)
			} else {
				require.Equal(t, floats(day), p.Meta)
			}
		}
		require.Equal(t, floats(month), out.Total.Meta)
		require.Equal(t, out.Total.Meta, out.Rows[0].Meta)
	})
	var c Counters
	for i := range 20 {
		c.Count(Attempt{Of: Name{"w", "n", "t"}, At: start.Add(time.Duration(i) * time.Second), Reported: amount.FromFloats(map[string]float64{fmt.Sprintf("user-%02d", i): 1, "user-00": 1})})
	}
	meta := read(t, &c, history.TimingFilter{}, start.Add(time.Minute)).Total.Meta
	require.Len(t, meta, keptNames)
	require.InDelta(t, 20, meta["user-00"], 0)
	require.Contains(t, meta, "user-07")
}
