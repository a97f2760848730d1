package handler

import (
	"math"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The output of a process that was killed ends when that has had a processor once more, for which nobody can say how long it
// waits. If the output is held open by a process that is in the group no more, nobody waits for long.
func TestOutputOfADyingGroup(t *testing.T) {
	for name, c := range map[string]struct {
		dies, ends time.Duration // the group has nobody then; the output ends
		want       error
		took       time.Duration
	}{
		"at once":                 {0, 0, nil, 0},
		"no processor for long":   {9900 * time.Millisecond, 9900 * time.Millisecond, nil, 9900 * time.Millisecond},
		"nor has the host":        {9900 * time.Millisecond, 11 * time.Second, nil, 11 * time.Second},
		"held by another":         {0, math.MaxInt64, exec.ErrWaitDelay, waitDelay},
		"and a group that died":   {9900 * time.Millisecond, math.MaxInt64, exec.ErrWaitDelay, 9500*time.Millisecond + waitDelay},
		"a group that never dies": {math.MaxInt64, math.MaxInt64, exec.ErrWaitDelay, killDelay + waitDelay},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &piping{reads: make([]*os.File, 1), writes: make([]*os.File, 1), copied: make(chan error, 1)}
				begun := time.Now()
				end := time.AfterFunc(c.ends, func() { p.copied <- nil })
				defer end.Stop()
				require.Equal(t, c.want, p.waitForOutput(func() bool { return time.Since(begun) < c.dies }))
				require.Equal(t, c.took, time.Since(begun))
			})
		})
	}
}
