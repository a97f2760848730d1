package tracing

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Spans are told when there are many, after a pause, and when the list is closed; each once, in the order in which they came.
func TestLateSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lateList
		var told []int
		add := func(n int) { l.tellLater(func() { told = append(told, n) }) }
		want := func(n int) {
			t.Helper()
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
		told := 0
		l.tellLater(func() {
			for range 2 * maxLate {
				l.tellLater(func() { told++ })
			}
		})
		settleLate()
		settleLate()
		require.Equal(t, 2*maxLate, told)
		l.close()
	})
}

// settleLate waits, in virtual time, until what is kept is told.
func settleLate() {
	<-time.After(2 * latePause)
	synctest.Wait()
}
