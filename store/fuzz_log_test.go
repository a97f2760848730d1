package store

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A record in the log may hold anything, with the right checksum: the run is
// refused with ErrCorrupt or can be read, and the run beside it is what it was.
func FuzzLog(f *testing.F) {
	f.Add([]byte(`{"kind":"Pause"}`), []byte(`[{"kind":"PauseRun"}]`), []byte(nil))
	f.Add([]byte(`{"kind":"Heartbeat","token":1}`), []byte(`[{"kind":"CompleteToken","token":7}]`), []byte{3, '"', 'a', '"'})
	d, err := Open(f.TempDir(), Options{Durability: ProcessCrash})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, d.Close()) })
	var h Head
	for _, id := range []workflow.RunID{"hurt", "beside"} {
		o := start(f, d, id)
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(1)})
		if h.Run == "" {
			h = o.run.Head()
		}
	}
	want := all(f, d.History("beside"))
	r, err := d.readRow("hurt")
	require.NoError(f, err)
	var first runfile.Checksum
	_, err = d.db.One(`SELECT sum FROM log WHERE key = ?`, func(row *sqlite.Row) error { first.SetBytes(row.Bytes(0)); return nil }, index.LogKey(r.Num, 1))
	require.NoError(f, err)

	f.Fuzz(func(t *testing.T, message, decisions, large []byte) {
		if vs, err := index.UnpackValues(large); err == nil {
			again, err := index.UnpackValues(index.PackValues(vs))
			require.NoError(t, err)
			require.Equal(t, vs.Len(), again.Len())
		}
		e := runfile.Entry{Encoded: decision.Encoded{Seq: 2, At: time.UnixMilli(0), Message: message, Decisions: decisions, Values: &codec.Values{}}}
		e.Sum = first.SumAfter(&e.Encoded)
		require.NoError(t, d.updateIndex(func(db *sqlite.Conn) error {
			_, err := db.Exec(`UPDATE log SET at = 0, epoch = 0, planner = 0, message = ?, decisions = ?, vals = ?, sum = ? WHERE key = ?`,
				bytes.Clone(message), bytes.Clone(decisions), bytes.Clone(large), e.Sum[:], index.LogKey(r.Num, 2))
			return err
		}))
		readAll(t, d, "hurt")
		require.Equal(t, want, all(t, d.History("beside")))
	})
}

// readAll reads all that there is of a run, which is whole or corrupt.
func readAll(t *testing.T, d *Dir, id workflow.RunID) {
	check := func(err error) {
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
		}
	}
	_, err := d.State(id)
	check(err)
	_, s, _, err := d.Load(id)
	check(err)
	require.Equal(t, err == nil, s != nil)
	for _, err := range d.History(id) {
		check(err)
	}
	for _, err := range d.Events(id, 0) {
		check(err)
	}
}
