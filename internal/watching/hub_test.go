package watching

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// all is a filter that every run fits.
type all struct{}

func (all) Takes(*store.Head) bool { return true }

// A reader keeps the last change of each run, in the order in which they moved first. If those
// of too many wait, it drops all, and takes changes again when the reader knows.
func TestChangesThatWait(t *testing.T) {
	hub := NewHub(func(h *store.Head, _ time.Time, _ bool) *store.Head { return h })
	r, err := hub.Add(all{})
	require.NoError(t, err)
	id := func(i int) workflow.RunID { return workflow.RunID(fmt.Sprint(i)) }
	put := func(i, seq int) { hub.tellChange(&store.Head{Run: id(i), Seq: int64(seq)}, time.Time{}, false) }
	next := func(i, seq int) {
		t.Helper()
		c, lost, _ := r.takeChange()
		require.False(t, lost)
		require.Equal(t, &store.Head{Run: id(i), Seq: int64(seq)}, c)
	}
	isLost := func() {
		t.Helper()
		c, lost, closed := r.takeChange()
		require.Nil(t, c)
		require.True(t, lost && !closed)
	}
	put(0, 0)
	isLost() // as each reader begins
	for i := range MaxChanges {
		put(i, 1)
	}
	for i := range MaxChanges {
		put(i, 2)
	}
	for i := range MaxChanges - 1 {
		next(i, 2)
	}
	put(0, 3) // behind the one that waits
	next(MaxChanges-1, 2)
	next(0, 3)
	c, lost, closed := r.takeChange()
	require.Nil(t, c)
	require.False(t, lost || closed)

	for i := range MaxChanges + 1 {
		put(i, 4)
	}
	put(0, 5)
	isLost()
	put(0, 6)
	hub.TellCommit(nil, make([]decision.Record, 1), store.ErrNoSpace) // nothing was committed
	hub.TellCommit(nil, make([]decision.Record, 1), state.ErrUnknown)
	isLost()
	put(0, 6)
	hub.Close()
	next(0, 6)
	c, lost, closed = r.takeChange()
	require.Nil(t, c)
	require.True(t, !lost && closed)
}

// A reader is told of a purge also if the id has another run by then, whatever that is. Each counts as one that waits.
func TestPurgesThatWait(t *testing.T) {
	type change struct {
		seq    int64
		purged bool
	}
	hub := NewHub(func(h *store.Head, _ time.Time, purged bool) *change { return &change{h.Seq, purged} })
	r, err := hub.Add(all{})
	require.NoError(t, err)
	tell := func(seq int, purged bool) {
		hub.tellChange(&store.Head{Run: "r", Seq: int64(seq)}, time.Time{}, purged)
	}
	next := func(want *change, wantLost bool) {
		t.Helper()
		c, lost, _ := r.takeChange()
		require.Equal(t, want, c)
		require.Equal(t, wantLost, lost)
	}
	next(nil, true)
	tell(1, false)
	tell(2, true)
	tell(3, false)
	tell(4, false)
	next(&change{2, true}, false)
	tell(5, false)
	next(&change{5, false}, false)
	tell(6, true)
	next(&change{6, true}, false)
	next(nil, false)
	for range MaxChanges {
		tell(7, true)
	}
	next(&change{7, true}, false)
	tell(8, false)
	tell(9, true)
	tell(10, false)
	next(nil, true)
	next(nil, false)
}

// BenchmarkTellCommit is what a commit pays for those who watch: none, and three.
func BenchmarkTellCommit(b *testing.B) {
	for _, readers := range []int{0, 3} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			hub := NewHub(func(h *store.Head, _ time.Time, _ bool) *int64 { return new(h.Seq) })
			for range readers {
				_, err := hub.Add(all{})
				require.NoError(b, err)
			}
			var run store.Run
			records := make([]decision.Record, 1)
			for b.Loop() {
				hub.TellCommit(&run, records, nil)
			}
		})
	}
}
