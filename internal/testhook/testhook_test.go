package testhook_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testhook"
)

// Without a hook, and with one that nobody has asked anything of, nothing happens.
func TestInert(t *testing.T) {
	for _, h := range []*testhook.Hook{nil, {}} {
		h.Hit("a")
		h.Turn("r")
		h.Ask("r", 1)
		h.ReadParts()
		require.NoError(t, h.Stage("built"))
		require.EqualValues(t, 7, h.PartBytes(7))
		require.EqualValues(t, 8, h.TrimRecords(8))
		require.EqualValues(t, 8, h.StandByBytes(8))
		require.EqualValues(t, 8, h.TailBytes(8))
		require.EqualValues(t, 9, h.FlushWorkers(9))
		require.EqualValues(t, 9, h.GatherRuns(9))
		require.EqualValues(t, 10, h.MaxNap(10))
		require.WithinDuration(t, time.Now(), h.Now(), time.Minute)
	}
	var none *testhook.Hook
	none.FenceWith(func() {})
	require.Panics(t, func() { (&testhook.Hook{}).Fence() }, "it has no engine")
}

// A hook calls its functions until it is reset.
func TestListeners(t *testing.T) {
	h := &testhook.Hook{}
	var heard []any
	resets := []func(){
		h.OnHit(func(point string) { heard = append(heard, point) }),
		h.OnTurn(func(run string) { heard = append(heard, run) }),
		h.OnAsk(func(run string, message any) { heard = append(heard, run, message) }),
		h.OnReadParts(func() { heard = append(heard, "parts") }),
		h.OnStage(func(stage string) error { return errors.New(stage) }),
	}
	tell := func() error {
		h.Hit("point")
		h.Turn("turn")
		h.Ask("ask", 1)
		h.ReadParts()
		return h.Stage("built")
	}
	want := []any{"point", "turn", "ask", 1, "parts"}
	require.EqualError(t, tell(), "built")
	require.Equal(t, want, heard)
	for _, reset := range resets {
		reset()
	}
	require.NoError(t, tell())
	require.Equal(t, want, heard)
}

// alarms holds every alarm, and notes what it is told.
type alarms struct {
	rung []string
	ring func()
}

func (a *alarms) Hold(_ string, ring func()) bool { a.ring = ring; return true }
func (a *alarms) Rang(run string)                 { a.rung = append(a.rung, run) }

// Alarms are held while somebody holds them.
func TestAlarms(t *testing.T) {
	var none *testhook.Hook
	h, a := &testhook.Hook{}, &alarms{}
	for _, hook := range []*testhook.Hook{none, h} {
		hook.AlarmRang("r")
		require.False(t, hook.HoldAlarm("r", nil))
	}
	reset := h.OnAlarm(a)
	looked := false
	require.True(t, h.HoldAlarm("r", func() { looked = true }))
	a.ring()
	require.True(t, looked)
	h.AlarmRang("r")
	require.Equal(t, []string{"r"}, a.rung)
	reset()
	require.False(t, h.HoldAlarm("r", nil))
}

func TestSizes(t *testing.T) {
	h := &testhook.Hook{}
	h.SetPartBytes(3)
	h.SetTrimRecords(4)
	h.SetStandByBytes(3)
	h.SetTailBytes(2)
	h.SetFlushWorkers(5)
	h.SetGatherRuns(1)
	h.SetMaxNap(6)
	require.EqualValues(t, 3, h.PartBytes(7))
	require.EqualValues(t, 4, h.TrimRecords(8))
	require.EqualValues(t, 3, h.StandByBytes(8))
	require.EqualValues(t, 2, h.TailBytes(8))
	require.EqualValues(t, 5, h.FlushWorkers(9))
	require.EqualValues(t, 1, h.GatherRuns(9))
	require.EqualValues(t, 6, h.MaxNap(9))
	h.SetPartBytes(0)
	h.SetTrimRecords(0)
	h.SetStandByBytes(0)
	h.SetTailBytes(0)
	require.EqualValues(t, 7, h.PartBytes(7))
	require.EqualValues(t, 8, h.TrimRecords(8))
}

func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &testhook.Hook{}
		require.Equal(t, time.Now().Round(0), h.Now())
		jumped := time.Now().AddDate(10, 0, 0)
		reset := h.OnNow(func() time.Time { return jumped })
		require.Equal(t, jumped.Round(0), h.Now(), "without a monotonic reading")
		require.Equal(t, time.Hour, h.Until(jumped.Add(time.Hour)))
		require.Equal(t, -time.Hour, h.Until(jumped.Add(-time.Hour)))
		reset()
		require.Equal(t, time.Now().Round(0), h.Now())
	})
}

// If there are several engines, lives of one, the last is stopped.
func TestFence(t *testing.T) {
	h, stopped := &testhook.Hook{}, ""
	h.FenceWith(func() { stopped += "first" })
	h.FenceWith(func() { stopped += "second" })
	h.Fence()
	require.Equal(t, "second", stopped)
}

func TestContext(t *testing.T) {
	h := &testhook.Hook{}
	require.Same(t, h, testhook.From(testhook.With(t.Context(), h)))
	require.Nil(t, testhook.From(t.Context()))
	require.Nil(t, testhook.From(testhook.With(context.Background(), nil)))
}

func BenchmarkHit(b *testing.B) {
	for name, h := range map[string]*testhook.Hook{"without a hook": nil, "with a hook": {}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				h.Hit("bench")
			}
		})
	}
}
