package tracing

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/workflow"
)

// Reads that wait for others are bounded by their waits, and the others are made, each once. A Close whose context is done waits for none.
func TestReadsAreBounded(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var p spantest.Provider
			tracer, gate, since := New(Options{Provider: &p, Now: time.Now}), make(chan struct{}), time.Now()
			tracer.Watch(Sources{Events: func(ctx context.Context, _ workflow.RunID, _ int64) iter.Seq2[decision.Event, error] {
				return func(yield func(decision.Event, error) bool) {
					select {
					case <-gate:
						yield(decision.Event{Seq: 1, At: since, Type: workflow.EventTokenWaiting, Token: 1}, nil)
					case <-ctx.Done():
						yield(decision.Event{}, ctx.Err())
					}
				}
			}})
			read := func(id string, waits int) {
				ended := make([]endedWait, waits) // but for the first, nobody knows when they began
				ended[0] = endedWait{at: place{token: 1}, name: "wait timer", to: since.Add(time.Hour)}
				tracer.readSince(waitRead{Run{ID: workflow.RunID(id), Workflow: "w"}, ended, 2})
			}
			for i := range 2 * maxReads {
				read(fmt.Sprint(i), 1)
			}
			read("large", maxUnread-2*maxReads)
			read("more", 1)
			ctx, cancel := context.WithCancel(t.Context())
			if late {
				cancel()
			} else {
				close(gate)
			}
			tracer.Close(ctx)
			cancel()
			want := 2*maxReads + 1
			if late {
				want = 0
			}
			require.Len(t, p.Named("wait timer"), want)
			require.Zero(t, tracer.reading)
			read("closed", 1)
			require.Zero(t, tracer.reading)
			if !late {
				require.Zero(t, tracer.unread+len(tracer.queue))
			}
		})
	}
}
