package pawl

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A watch keeps the last change of each run, in the order in which they moved first. If those
// of too many wait, it drops all, and takes changes again when the reader knows.
func TestChangesThatWait(t *testing.T) {
	id := func(i int) workflow.RunID { return workflow.RunID(fmt.Sprint(i)) }
	w := &runWatch{moved: make(chan struct{}, 1)}
	put := func(i, seq int) { w.putChange(&RunChange{Run: id(i), Seq: int64(seq)}) }
	for i := range MaxWatched {
		put(i, 1)
	}
	for i := range MaxWatched {
		put(i, 2)
	}
	for i := range MaxWatched - 1 {
		c, ok, _ := w.takeChange()
		require.True(t, ok)
		require.Equal(t, RunChange{Run: id(i), Seq: 2}, c)
	}
	put(0, 3) // behind the one that waits
	for _, want := range []RunChange{{Run: id(MaxWatched - 1), Seq: 2}, {Run: id(0), Seq: 3}} {
		c, ok, _ := w.takeChange()
		require.True(t, ok)
		require.Equal(t, want, c)
	}
	_, ok, closed := w.takeChange()
	require.False(t, ok || closed)

	for i := range MaxWatched + 1 {
		put(i, 4)
	}
	put(0, 5)
	c, ok, _ := w.takeChange()
	require.True(t, ok)
	require.Equal(t, RunChange{At: c.At, Lost: true}, c)
	put(0, 6)
	all := runWatches{}
	require.NoError(t, all.addWatch(w))
	all.tellCommit(nil, make([]decision.Record, 1), ErrNoSpace) // nothing was committed
	all.tellCommit(nil, make([]decision.Record, 1), ErrUnknown)
	c, ok, _ = w.takeChange()
	require.True(t, ok)
	require.Equal(t, RunChange{At: c.At, Lost: true}, c)
	put(0, 6)
	w.closeWatch()
	c, ok, _ = w.takeChange()
	require.True(t, ok)
	require.Equal(t, RunChange{Run: id(0), Seq: 6}, c)
	_, ok, closed = w.takeChange()
	require.True(t, !ok && closed)
}

// BenchmarkTellCommit is what a commit pays for those who watch: none, and three.
func BenchmarkTellCommit(b *testing.B) {
	for _, watchers := range []int{0, 3} {
		b.Run(fmt.Sprint(watchers), func(b *testing.B) {
			var all runWatches
			for range watchers {
				require.NoError(b, all.addWatch(&runWatch{moved: make(chan struct{}, 1)}))
			}
			var run store.Run
			records := make([]decision.Record, 1)
			for b.Loop() {
				all.tellCommit(&run, records, nil)
			}
		})
	}
}
