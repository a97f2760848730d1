package store

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A list whose runs cost more to look at than it may take ends after the same run each time, and goes on behind that one: together the
// parts are the whole list, whichever way it goes.
func TestAListGoesOnBehindItsEffort(t *testing.T) {
	d := runsOfAllKinds(t)
	dear := `[1,2,3,4,5,6,7,8].all(x, [1,2,3,4,5,6,7,8].exists(y, x == y)) && run.startsWith("ord") && labels.half != "x"`
	rare := dear + ` && run == "order-7" || run.endsWith("91")` // most pages have no such run
	for name, f := range map[string]RunFilter{
		"up": {Where: dear}, "down": {Where: dear, Newest: true}, "few": {Where: rare}, "by label": {Where: dear, Labels: map[string]string{"half": "1"}},
		"by status": {Where: dear, Status: []workflow.RunStatus{workflow.RunRunning}}, "without a condition": {Since: at(1)},
	} {
		var whole, got []workflow.RunID
		for h, err := range d.AllHeads(f) {
			require.NoError(t, err)
			whole = append(whole, h.Run)
		}
		f.Effort = 400 * time.Microsecond
		parts := 0
		for again := true; again; parts++ {
			again = false
			for h, err := range d.AllHeads(f) {
				var stopped *EffortError
				if errors.As(err, &stopped) {
					require.NotEqual(t, f.After, stopped.Run, "it gets on")
					require.NotEmpty(t, stopped.Run)
					f.After, again = stopped.Run, true
					continue
				}
				require.NoError(t, err, name)
				got = append(got, h.Run)
			}
		}
		require.Equal(t, whole, got, name)
		require.Greater(t, parts, 1, name)
	}
}

// A list gives others their turn after each run for which its condition was evaluated, and waits while that of another list is.
func TestConditionsStepBack(t *testing.T) {
	d := runsOfAllKinds(t)
	n := 0
	turns := harness.CountTurns(func() {
		for _, err := range d.AllHeads(RunFilter{Where: `seq >= 0`}) {
			require.NoError(t, err)
			n++
		}
	})
	require.GreaterOrEqual(t, turns, int64(n*9/10))
	d.evaluating.Lock()
	done := make(chan error)
	go func() {
		for _, err := range d.AllHeads(RunFilter{Where: `seq >= 0`, Limit: 1}) {
			done <- err
		}
	}()
	for range 1000 {
		runtime.Gosched()
	}
	select {
	case <-done:
		t.Error("two conditions are evaluated at once")
	default:
	}
	d.evaluating.Unlock()
	require.NoError(t, <-done)
}
