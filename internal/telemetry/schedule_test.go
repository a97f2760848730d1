package telemetry_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testing/metertest"
	"github.com/pawl-run/pawl/schedule"
)

// openSchedules opens an engine in which runs of the workflow work take some time, and applies schedules of it.
func openSchedules(t *testing.T, dir string, p *metertest.Provider, takes time.Duration, set string) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(t.Context(), dir, pawl.Options{MeterProvider: p, Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		<-time.After(takes)
		return nil, nil
	}}})
	require.NoError(t, err)
	_, err = e.Publish(t.Context(), define(t, one("work")))
	require.NoError(t, err)
	all, err := schedule.Parse([]byte("schedules: " + set))
	require.NoError(t, err)
	_, err = e.Schedules().Apply(t.Context(), all, pawl.ApplyOptions{})
	require.NoError(t, err)
	return e
}

// Each firing of a schedule counts once: with its lateness if its run has begun, else with the reason why it was skipped. The
// time without an engine is lateness; triggers and backfills have none.
func TestFiringsOfSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, begun := t.TempDir(), time.Now()
		set := "[{id: s, workflow: {name: work}, every: 10m, catchUp: {window: 1h}}]"
		lag := "pawl.schedule.lag{pawl.schedule.id=s}"
		skipped := func(why string) string {
			return "pawl.schedule.skipped{pawl.schedule.id=s,pawl.schedule.skip.reason=" + why + "}"
		}
		var p metertest.Provider
		e := openSchedules(t, dir, &p, 25*time.Minute, set)
		<-time.After(41 * time.Minute) // 00:10 and 00:40 fire, each is in the way of two
		requireSome(t, map[string]int{lag: 2}, p.Counts())
		requireSome(t, map[string]float64{lag: 0, skipped("overlap"): 2}, p.Sums())
		require.NoError(t, e.Schedules().Pause(t.Context(), "s"))
		<-time.After(40 * time.Minute)
		_, err := e.Schedules().Trigger(t.Context(), "s")
		require.NoError(t, err)
		<-time.After(26 * time.Minute)
		require.NoError(t, e.Schedules().Resume(t.Context(), "s"))
		requireSome(t, map[string]int{lag: 2}, p.Counts())
		requireSome(t, map[string]float64{skipped("overlap"): 2, skipped("paused"): 6}, p.Sums())
		require.NoError(t, e.Close(t.Context()))

		<-time.After(time.Until(begun.Add(4*time.Hour + 24*time.Minute)))
		var later metertest.Provider
		e = openSchedules(t, dir, &later, 0, set)
		<-time.After(time.Second)
		backfill := schedule.Backfill{From: begun, To: begun.Add(time.Hour), Most: 9}
		_, err = e.Schedules().Backfill(t.Context(), "s", backfill)
		require.NoError(t, err)
		<-time.After(time.Second)
		requireSome(t, map[string]int{lag: 1}, later.Counts())
		requireSome(t, map[string]float64{lag: 240, skipped("window"): 10, skipped("most"): 5, skipped("paused"): 0}, later.Sums())
		require.NoError(t, e.Close(t.Context()))
	})
}

// The ids of schedules that are beyond the bound of names are one.
func TestNamesOfSchedulesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := "["
		for i := range telemetry.MaxNames + 5 {
			set += fmt.Sprintf("{id: s%d, workflow: {name: work}, every: 1h}, ", i)
		}
		var p metertest.Provider
		e := openSchedules(t, t.TempDir(), &p, 0, set+"]")
		<-time.After(61 * time.Minute)
		requireSome(t, map[string]int{"pawl.schedule.lag{pawl.schedule.id=" + telemetry.Other + "}": 5}, p.Counts())
		require.NoError(t, e.Close(t.Context()))
	})
}

// A schedule that is paused because its runs failed is told until somebody resumes it, by later engines too; one that people pause is not.
func TestPausedSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		set := "[{id: bad, workflow: {name: fails}, every: 10m, pauseAfterFailures: 2}, {id: good, workflow: {name: fails}, every: 240h}]"
		bad, good := "pawl.schedule.paused{pawl.schedule.id=bad}", "pawl.schedule.paused{pawl.schedule.id=good}"
		o := pawl.Options{Executor: pawl.Handlers{}}
		opened := func(p *metertest.Provider) *pawl.Engine {
			o.MeterProvider = p
			e, err := pawl.Open(t.Context(), dir, o)
			require.NoError(t, err)
			return e
		}
		var first, second metertest.Provider
		e := opened(&first)
		_, err := e.Publish(t.Context(), define(t, "name: fails\nstart: a\nnodes: [{id: a, end: {fail: broken}}]\n"))
		require.NoError(t, err)
		all, err := schedule.Parse([]byte("schedules: " + set))
		require.NoError(t, err)
		_, err = e.Schedules().Apply(t.Context(), all, pawl.ApplyOptions{})
		require.NoError(t, err)
		<-time.After(15 * time.Minute)
		requireSome(t, map[string]float64{bad: 0, good: 0}, first.Collect(t.Context()))
		<-time.After(15 * time.Minute)
		require.NoError(t, e.Schedules().Pause(t.Context(), "good"))
		requireSome(t, map[string]float64{bad: 1, good: 0}, first.Collect(t.Context()))
		require.NoError(t, e.Close(t.Context()))

		e = opened(&second)
		requireSome(t, map[string]float64{bad: 1, good: 0}, second.Collect(t.Context()))
		require.NoError(t, e.Schedules().Resume(t.Context(), "bad"))
		requireSome(t, map[string]float64{bad: 0, good: 0}, second.Collect(t.Context()))
		<-time.After(time.Hour)
		requireSome(t, map[string]float64{bad: 1, good: 0}, second.Collect(t.Context()))
		require.NoError(t, e.Schedules().Delete(t.Context(), "bad"))
		gone := second.Collect(t.Context())
		requireSome(t, map[string]float64{bad: 0, good: 0}, gone)
		require.Contains(t, gone, bad, "or a back end would go on with the last value")
		require.NoError(t, e.Close(t.Context()))
	})
}
