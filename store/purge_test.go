package store

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
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

// A clearCodec leaves values as they are, and calls a function before it decodes the next one.
type clearCodec struct{ before atomic.Pointer[func()] }

func (c *clearCodec) KeyID() string                                 { return "clear" }
func (c *clearCodec) Encode(_ string, plain []byte) ([]byte, error) { return bytes.Clone(plain), nil }

func (c *clearCodec) Decode(_, _ string, stored []byte) ([]byte, error) {
	if f := c.before.Swap(nil); f != nil {
		(*f)()
	}
	return bytes.Clone(stored), nil
}

// TestPurgeBetweenRowAndFile purges a run whose row was read, and whose file was not yet. Nothing is damaged: the run is gone, or the
// next one of that id is read.
func TestPurgeBetweenRowAndFile(t *testing.T) {
	for _, again := range []bool{false, true} {
		c := &clearCodec{}
		d := openWith(t, t.TempDir(), Options{Codec: c})
		end := func(output string) {
			o := start(t, d, "r1")
			o.do(state.Start{}, startRun(nil), decision.CompleteRun{At: at(2), Output: map[string]any{"text": output}})
			require.NoError(t, o.file())
		}
		end("first")
		purge := func() {
			require.NoError(t, d.Purge("r1", ""))
			if again {
				end("second")
			}
		}
		c.before.Store(&purge)
		s, err := d.State("r1")
		require.Nil(t, c.before.Load())
		if !again {
			require.ErrorIs(t, err, ErrRunNotFound)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, map[string]any{"text": "second"}, s.Output)
	}
}

// A file of a purged run that could not be removed is removed later, at the latest when the directory is closed: no sweep follows.
func TestAPurgedFileIsRemovedLater(t *testing.T) {
	for name, wait := range map[string]func(d *Dir, file string){
		"at Close": func(d *Dir, _ string) { require.NoError(t, d.Close()) },
		"by the eraser": func(d *Dir, _ string) {
			require.NoError(t, d.removeLeft()) // which it calls
			require.Empty(t, d.garbage.gone)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir())
			finishRun(t, d, Head{Run: "gone"}, "secret")
			finishRun(t, d, Head{Run: "stays"}, "x")
			require.NoError(t, load(t, d, "gone").file())
			require.NoError(t, load(t, d, "stays").file())
			head, err := d.Head("gone")
			require.NoError(t, err)
			file := d.pathOf(head.File)
			require.NoError(t, os.Rename(file, file+".aside"))
			require.NoError(t, os.Mkdir(file, 0o700)) // which is not removed as a file is
			require.Error(t, d.Purge("gone", ""))
			require.Error(t, d.removeLeft(), "it still cannot be removed")
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Rename(file+".aside", file))
			wait(d, file)
			require.NoFileExists(t, file)
			require.NoError(t, d.Close())
			require.NotNil(t, load(t, open(t, d.path), "stays"))
		})
	}
}

// Outcomes are forgotten some at a time, and neither newer ones nor those that tasks need.
func TestForgetOutcomesGoesPageByPage(t *testing.T) {
	d := open(t, t.TempDir())
	const pages = 3
	var all []Kept
	ref := blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64), Size: 1}
	for i := range pages*keptPage + 7 {
		key, when := fmt.Sprint("k", i), at(i)
		if i%10 == 0 {
			key = fmt.Sprint(ScheduleKeys, i)
		}
		all = append(all, Kept{key, map[string]any{"of": ref.Value()}, when})
	}
	require.NoError(t, d.KeepOutcomes(all...))
	count := func(text string) (n int64) {
		require.NoError(t, d.readIndex(func(db *sqlite.Conn) (err error) { n, err = numberOf(db, text); return err }))
		return n
	}
	largest, was := int64(0), int64(0)
	d.hook.OnHit(func(point string) {
		switch point {
		case "commit.begin":
			was, _ = numberOf(d.db, `SELECT count(*) FROM outcomes`)
		case "commit.inside":
			now, _ := numberOf(d.db, `SELECT count(*) FROM outcomes`)
			largest = max(largest, was-now)
		}
	})
	before := d.commits.Load()
	n, err := d.ForgetOutcomes(at(2*keptPage + 5))
	require.NoError(t, err)
	require.Equal(t, (2*keptPage+5)*9/10, n)
	require.Equal(t, int64(pages), d.commits.Load()-before, "and none for a page without old ones")
	require.LessOrEqual(t, largest, int64(keptPage))
	require.Equal(t, int64(len(all)-n), count(`SELECT count(*) FROM outcomes`))
	require.Equal(t, int64(len(all)-n), count(`SELECT count(*) FROM blob_refs`))
	n, err = d.ForgetOutcomes(at(2*keptPage + 5))
	require.NoError(t, err)
	require.Zero(t, n)
}
