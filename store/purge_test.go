package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

func purgeFound(t *testing.T, d *Dir, runs []EndedRun) (heads map[workflow.RunID]*Head, failed map[workflow.RunID]error) {
	families, err := d.FamiliesOf(t.Context(), runs)
	require.NoError(t, err)
	var members []Member
	for i, f := range families {
		require.Equal(t, runs[i].Run, f[0].Head.Run)
		members = append(members, f...)
	}
	require.NoError(t, d.PurgeAll(members, func(workflow.RunID) string { return "" }))
	heads, failed = map[workflow.RunID]*Head{}, map[workflow.RunID]error{}
	for i := range members {
		m := &members[i]
		if m.Err != nil {
			failed[m.Head.Run] = m.Err
		} else {
			heads[m.Head.Run] = &m.Head
		}
	}
	return heads, failed
}

// finishRun makes a run that has ended, with an output.
func finishRun(t *testing.T, d *Dir, h Head, output string) {
	g := graph(t)
	o := &owner{t: t, run: d.New(h, g), state: state.NewState(h.Run, g)}
	o.do(state.Start{}, decision.StartRun{At: at(1)}, decision.CompleteRun{At: at(2), Output: map[string]any{"text": output}})
}

// TestPurgeReadsARowAsItDeletesIt purges runs whose rows nobody has read before, and tells of each what was in its row. One
// whose row is damaged, or is another run's by now, stays; the others go all the same.
func TestPurgeReadsARowAsItDeletesIt(t *testing.T) {
	d := open(t, t.TempDir())
	labels := map[string]string{"k": "v"}
	for _, id := range []workflow.RunID{"small", "large", "damaged", "again", "above"} {
		text := "x"
		if id == "large" {
			text = strings.Repeat("x", 1<<16)
		}
		finishRun(t, d, Head{Run: id, Labels: labels, Tenant: "acme"}, text)
	}
	finishRun(t, d, Head{Run: "below", Parent: "above", Root: "above"}, "x")
	found := all(t, d.Ended(false))
	require.Len(t, found, 5, "the child is none of them")
	require.NoError(t, d.Purge("again", ""))
	startOf(t, d, "again", graph(t)).do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(`UPDATE runs SET tenant = 'x' WHERE id = 'damaged'`) }))

	heads, failed := purgeFound(t, d, found)
	require.Len(t, heads, 4)
	for _, id := range []workflow.RunID{"small", "large", "above", "below"} {
		require.Equal(t, workflow.RunCompleted, heads[id].Status, id)
		require.True(t, heads[id].EndedAt.Equal(at(2)), id)
		_, err := d.Head(id)
		require.ErrorIs(t, err, ErrRunNotFound, id)
	}
	for _, id := range []workflow.RunID{"small", "large"} {
		require.Equal(t, labels, heads[id].Labels)
		require.Equal(t, "acme", heads[id].Tenant)
		require.Equal(t, int64(1), heads[id].Seq)
	}
	require.Len(t, failed, 2)
	require.ErrorIs(t, failed["damaged"], ErrCorrupt)
	require.ErrorIs(t, failed["again"], ErrNotEnded)
	h, err := d.Head("again")
	require.NoError(t, err)
	require.Equal(t, workflow.RunRunning, h.Status)

	heads, failed = purgeFound(t, d, found)
	require.Empty(t, heads)
	require.ErrorIs(t, failed["damaged"], ErrCorrupt)
	require.ErrorIs(t, failed["small"], ErrNotEnded)
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(`UPDATE runs SET tenant = 'acme' WHERE id = 'damaged'`) }))
	heads, _ = purgeFound(t, d, found)
	require.Len(t, heads, 1)
	requireCounts(t, d)
}

// TestPurgeOfManyFoundRuns purges many runs in one transaction, last first.
func TestPurgeOfManyFoundRuns(t *testing.T) {
	d := open(t, t.TempDir())
	for i := range 100 {
		finishRun(t, d, Head{Run: workflow.RunID(fmt.Sprint("r", i))}, "x")
	}
	heads, failed := purgeFound(t, d, all(t, d.Ended(true)))
	require.Len(t, heads, 100)
	require.Empty(t, failed)
	require.Empty(t, all(t, d.Ended(false)))
	require.Empty(t, all(t, d.AllHeads(RunFilter{})))
}
