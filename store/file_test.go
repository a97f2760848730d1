package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"

	"github.com/pawl-run/pawl/store"
)

// TestFileIsReadable looks at a run's file as its owner would with sqlite3.
func TestFileIsReadable(t *testing.T) {
	d := store.OpenDir(t, t.TempDir())
	o := store.StartOwner(t, d, "r1")
	fan := func(id, first int, sc workflow.Scope) decision.Decision {
		return decision.CreateBranches{Group: state.Group{
			ID: workflow.GroupID(id), Origin: 1, Node: "wo/rk~1", Scope: sc, First: workflow.TokenID(first), Total: 2,
			Spawns: []state.Spawn{{Transition: "spread", Count: 2}},
		}}
	}
	o.Do(state.Start{}, store.StartRun(nil), store.CreateToken(1, "start"), fan(1, 2, workflow.Scope{}),
		fan(2, 4, workflow.Scope{Group: 1, Branch: 1}), decision.AppendData{Path: []string{"state", "log"}, Value: 0.5})
	require.NoError(t, o.File())
	snap, err := d.OpenSnapshot(t.Context(), "r1")
	require.NoError(t, err)
	defer snap.Close()
	list := func(query string) (out []string) {
		require.NoError(t, snap.ReadDatabase(func(db *sqlite.Conn) error {
			return db.Each(query, func(r *sqlite.Row) error { out = append(out, r.Text(0)); return nil })
		}))
		return out
	}
	require.Equal(t, []string{
		"root", "root/wo~1rk~01:0", "root/wo~1rk~01:1", "root/wo~1rk~01:1/wo~1rk~01:0", "root/wo~1rk~01:1/wo~1rk~01:1",
	}, list(`SELECT path FROM paths ORDER BY token`))
	require.Equal(t, []string{"running"}, list(`SELECT status FROM meta WHERE run = 'r1'`))
	require.Equal(t, []string{"0.5"}, list(`SELECT value FROM data WHERE path = '/state/log'`))
	require.Equal(t, []string{"workflow.started", "token.created", "fan_out.started", "fan_out.started"}, list(`SELECT type FROM events`))
	require.Equal(t, []string{"ok"}, list(`PRAGMA integrity_check`))
	require.Len(t, list(`SELECT message FROM journal WHERE json_valid(decisions)`), 1)
}
