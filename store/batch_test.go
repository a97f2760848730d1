package store

import (
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// shape is what a batch does, without its rows.
type shape struct {
	table string
	rows  int
	count int
}

func shapes(bs []statement) (out []shape) {
	for _, b := range bs {
		name := b.delete
		if b.table != nil {
			name = b.table.name
		}
		out = append(out, shape{name, len(b.rows), b.count})
	}
	return out
}

func tokens(from, to int, status workflow.TokenStatus) (out []*state.Token) {
	for i := from; i < to; i++ {
		out = append(out, &state.Token{
			ID: workflow.TokenID(i), Node: "n", Status: status, Scope: workflow.Scope{Group: 1, Branch: i - 2},
		})
	}
	return out
}

func TestBatchesAreNarrow(t *testing.T) {
	ch := state.Changes{
		Groups: []*state.Group{{ID: 1, Total: 3000, First: 2}},
		Tokens: append(append(tokens(1, 802, workflow.Pending), tokens(802, 805, workflow.Dispatched)...),
			tokens(805, 3002, workflow.Pending)...),
		Items: map[workflow.GroupID][]any{1: make([]any, 3000)},
	}
	require.Equal(t, []shape{
		{"groups", 1, 0}, {"tokens", 1, 801}, {"tokens", 3, 0}, {"tokens", 1, 1000}, {"tokens", 1, 1000}, {"tokens", 1, 197}, {"items", 3000, 0},
	}, shapes(fileStatements(&ch, nil, nil)))
}

func TestBatchesKeepTheOrderOfData(t *testing.T) {
	a, b := []string{"state", "a"}, []string{"state", "b"}
	sc := workflow.Scope{Group: 1, Branch: 2}
	ch := state.Changes{Data: []state.DataChange{
		{Path: a, Value: int64(1)}, {Path: a, Kind: state.DataAppend, Value: "x"}, {Path: b, Kind: state.DataAppend, Index: 3},
		{Scope: sc, Kind: state.DataDrop}, {Scope: sc, Path: b, Value: nil},
	}}
	bs := fileStatements(&ch, nil, nil)
	require.Equal(t, []shape{
		{deleteBelow, 1, 0}, {"data", 3, 0}, {deleteScope, 1, 0}, {deleteBelow, 1, 0}, {"data", 1, 0},
	}, shapes(bs))
	require.Equal(t, []driver.Value{int64(0), int64(0), "/state/a", "/state/a/", "/state/a0"}, bs[0].rows[0])
	require.Equal(t, [][]driver.Value{
		{int64(0), int64(0), "/state/a", int64(-1), "1"}, {int64(0), int64(0), "/state/a", int64(0), `"x"`},
		{int64(0), int64(0), "/state/b", int64(3), "null"},
	}, bs[1].rows)
}

func TestBatchesOfNothing(t *testing.T) {
	require.Empty(t, fileStatements(&state.Changes{}, nil, nil))
	bs := fileStatements(&state.Changes{Items: map[workflow.GroupID][]any{3: {}}}, nil, []decision.Event{{Seq: 1, Type: "x"}})
	require.Equal(t, []shape{{"items", 1, 0}, {"events", 1, 0}}, shapes(bs))
}

// TestEveryTable inserts any number of rows into every table.
func TestEveryTable(t *testing.T) {
	c, err := openMemory(fileSchema, filePage, fileID, fileVersion)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for _, n := range []int{1, 2, 3, 9, 49, 50, 51, 117} {
		require.NoError(t, c.Script(`BEGIN`))
		rows := make([][]driver.Value, n)
		for i := range rows {
			rows[i] = eventRow(decision.Event{Seq: int64(i + 1), At: at(i), Type: "x", Data: map[string]any{"i": int64(i)}})
		}
		require.NoError(t, eventsTable.insertRows(c, rows))
		var count, last int
		require.NoError(t, c.Each(`SELECT count(*), max(seq) FROM events`, func(r *sqlite.Row) error {
			count, last = r.Int(0), r.Int(1)
			return nil
		}))
		require.Equal(t, []int{n, n}, []int{count, last})
		require.NoError(t, c.Script(`ROLLBACK`))
	}
}

// TestFileIsReadable looks at a run's file as its owner would with sqlite3.
func TestFileIsReadable(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	fan := func(id, first int, sc workflow.Scope) decision.Decision {
		return decision.CreateBranches{Group: state.Group{
			ID: workflow.GroupID(id), Origin: 1, Node: "wo/rk~1", Scope: sc, First: workflow.TokenID(first), Total: 2,
			Spawns: []state.Spawn{{Transition: "spread", Count: 2}},
		}}
	}
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), fan(1, 2, workflow.Scope{}),
		fan(2, 4, workflow.Scope{Group: 1, Branch: 1}), decision.AppendData{Path: []string{"state", "log"}, Value: 0.5})
	require.NoError(t, o.file())
	snap, err := d.openSnapshot("r1")
	require.NoError(t, err)
	defer snap.closeFile()
	list := func(query string) (out []string) {
		require.NoError(t, snap.file.Each(query, func(r *sqlite.Row) error { out = append(out, r.Text(0)); return nil }))
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
