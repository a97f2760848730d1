package runfile

import (
	"database/sql/driver"
	"testing"
	"time"

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
	c, err := sqlite.OpenMemory(fileSchema, largePage, ID, Version)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for _, n := range []int{1, 2, 3, 9, 49, 50, 51, 117} {
		require.NoError(t, c.Script(`BEGIN`))
		rows := make([][]driver.Value, n)
		for i := range rows {
			rows[i] = eventRow(decision.Event{Seq: int64(i + 1), At: time.UnixMilli(int64(i)), Type: "x", Data: map[string]any{"i": int64(i)}})
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
