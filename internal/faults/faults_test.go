package faults

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/state"
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

// A fault of one run says where the run stands, and in which trace.
func TestAFaultHasItsPlace(t *testing.T) {
	var log bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&log, nil)), func() int { return 0 })
	of := &state.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	at := actor.Place{Run: "r", Workflow: "w", Seq: 7, Trace: of}
	const want = "run=r error=%s workflow=w seq=7 trace_id=0af7651916cd43dd8448eb211c80319c\n"
	l.Fault(at, errors.New("broken"))
	require.Contains(t, log.String(), fmt.Sprintf(want, "broken"))
	log.Reset()
	l.Fault(at, fmt.Errorf("full: %w", store.ErrNoSpace))
	require.Contains(t, log.String(), "run=r error=")
	require.Contains(t, log.String(), " workflow=w seq=7 trace_id=0af7651916cd43dd8448eb211c80319c\n")
}
