package runfile

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/image"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// shape is what a statement does, without its rows.
type shape struct {
	table   string
	rows    int
	deletes int
}

func shapes(statements []statement) (out []shape) {
	for _, s := range statements {
		out = append(out, shape{s.table.name, s.count, len(s.deleted)})
	}
	return out
}

// rowsOf returns the rows of a statement.
func rowsOf(s *statement) (out [][]image.Value) {
	for i := range s.count {
		var w rowWriter
		s.put(&w, i)
		out = append(out, w.columns)
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

func TestStatementsOfAFanOut(t *testing.T) {
	ch := state.Changes{
		Groups: []*state.Group{{ID: 1, Total: 3000, First: 2}},
		Tokens: tokens(1, 3002, workflow.Pending),
		Items:  map[workflow.GroupID][]any{1: make([]any, 3000), 3: {}},
	}
	statements := fileStatements(&ch, nil, nil)
	require.Equal(t, []shape{{"groups", 1, 0}, {"tokens", 3001, 0}, {"items", 3001, 0}}, shapes(statements))
	require.Equal(t, []image.Value{image.Int(3), image.Int(-1), image.Text("null")}, rowsOf(&statements[2])[3000])
}

func TestStatementsKeepTheOrderOfData(t *testing.T) {
	a, b := []string{"state", "a"}, []string{"state", "b"}
	sc := workflow.Scope{Group: 1, Branch: 2}
	ch := state.Changes{Data: []state.DataChange{
		{Path: a, Value: int64(1)}, {Path: a, Kind: state.DataAppend, Value: "x"}, {Path: b, Kind: state.DataAppend, Index: 3},
		{Scope: sc, Kind: state.DataDrop}, {Scope: sc, Path: b, Value: nil},
	}}
	statements := fileStatements(&ch, nil, nil)
	require.Equal(t, []shape{{"data", 0, 2}, {"data", 3, 0}, {"data", 0, 1}, {"data", 0, 2}, {"data", 1, 0}}, shapes(statements))
	require.Equal(t, pathRanges(0, 0, "/state/a"), [2]keyRange(statements[0].deleted))
	zero := image.Int(0)
	require.Equal(t, [][]image.Value{
		{zero, zero, image.Text("/state/a"), image.Int(-1), image.Text("1")},
		{zero, zero, image.Text("/state/a"), zero, image.Text(`"x"`)},
		{zero, zero, image.Text("/state/b"), image.Int(3), image.Text("null")},
	}, rowsOf(&statements[1]))
	for i := range 3 {
		require.Equal(t, keyOf(rowsOf(&statements[1])[i][:4]), statements[1].key(i))
	}
}

func TestStatementsOfNothing(t *testing.T) {
	require.Empty(t, fileStatements(&state.Changes{}, nil, nil))
	statements := fileStatements(&state.Changes{Items: map[workflow.GroupID][]any{3: {}}}, nil, piecesOf([]decision.Event{{Seq: 1, Type: "x"}}))
	require.Equal(t, []shape{{"items", 1, 0}, {"events", 1, 0}}, shapes(statements))
}

// A hundred thousand deletions, each row by a statement of its own, take time in proportion: every key is looked at
// once.
func TestScopesThatAreDroppedInAnyOrder(t *testing.T) {
	const scopes = 20_000
	var changes []state.DataChange
	for i := range scopes {
		changes = append(changes, state.DataChange{Scope: workflow.Scope{Group: 1, Branch: i}, Path: []string{"x"}, Value: int64(i)})
	}
	for i := range scopes {
		changes = append(changes, state.DataChange{Scope: workflow.Scope{Group: 1, Branch: i}, Kind: state.DataDrop})
	}
	changes = append(changes, state.DataChange{Scope: workflow.Scope{Group: 1, Branch: 7}, Path: []string{"x"}, Value: "again"})
	left, _ := sortedData(dataStatements(changes))
	require.Equal(t, [][]image.Value{{image.Int(1), image.Int(7), image.Text("/x"), image.Int(-1), image.Text(`"again"`)}}, rowsOf(&left[0]))
	slices.Reverse(changes)
	left, _ = sortedData(dataStatements(changes))
	require.Equal(t, scopes, left[0].count)
}

// A row of a usual event or token takes no memory beside what it is written into.
func TestRowsTakeNoMemory(t *testing.T) {
	token := tokens(2, 3, workflow.Completed)[0]
	token.Epoch = 5
	event := decision.TellEvent(decision.Event{Seq: 1, Data: map[string]any{"branch": int64(3), "epoch": "5"}})
	var w rowWriter
	var record []byte
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w.beginRow()
		putToken(&w, token)
		record = image.AppendRecord(record[:0], w.columns)
		w.beginRow()
		putEvent(&w, &event)
		record = image.AppendRecord(record[:0], w.columns)
	}))
}
