package faults

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An event that comes to many runs at once is a line of the log a second, with how often it came since the
// line before.
func TestManyRunsAreOneLineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := New(slog.New(slog.NewTextHandler(&log, nil)), func() int { return 0 })
		for range 3 {
			for i := range 60 {
				id := workflow.RunID(fmt.Sprint("r", i))
				l.Asleep(id, time.Minute, store.ErrNoSpace)
				l.Apart(id, store.ErrNoSpace)
			}
			<-time.After(repeatPause)
		}
		l.Asleep("last", time.Minute, store.ErrNoSpace)
		text := log.String()
		require.Equal(t, 4, strings.Count(text, "runs cannot be woken now"), text)
		require.Equal(t, 3, strings.Count(text, "parents and children cannot speak now"), text)
		require.Equal(t, 2, strings.Count(text, `runs cannot be woken now" times=1 run=r0`)+strings.Count(text, `runs cannot be woken now" times=60 run=last`), text)
		require.Equal(t, 4, strings.Count(text, "times=60 run=r0")+strings.Count(text, "times=60 child=r0"), text)
	})
}
