package tracing

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Spans are told when there are many, after a pause, and when the list is closed; each once, in the order in which they came.
func TestLateSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lateList
		var mu sync.Mutex // the timer's goroutine tells as well
		var told []int
		add := func(n int) {
			l.tellLater(func() {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, n)
			})
		}
		want := func(n int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, told, n)
			for i := range n {
				require.Equal(t, i, told[i])
			}
		}
		for i := range maxLate - 1 {
			add(i)
		}
		want(0)
		add(maxLate - 1)
		want(maxLate)
		add(maxLate)
		want(maxLate)
		settleLate()
		want(maxLate + 1)
		add(maxLate + 1)
		l.close()
		want(maxLate + 2)
		add(maxLate + 2) // told at once
		want(maxLate + 3)
	})
}

// A provider that is told of a span may make any number of others.
func TestLateSpansOfSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lateList
		var told atomic.Int64
		l.tellLater(func() {
			for range 2 * maxLate {
				l.tellLater(func() { told.Add(1) })
			}
		})
		settleLate()
		settleLate()
		require.Equal(t, int64(2*maxLate), told.Load())
		l.close()
	})
}

// settleLate waits, in virtual time, until what is kept is told.
func settleLate() {
	<-time.After(2 * latePause)
	synctest.Wait()
}
