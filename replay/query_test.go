package replay_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/replay"
)

const asked = `
name: asked
start: split
nodes:
  - {id: split, task: work}
  - {id: part, task: part}
  - {id: sum, task: sum}
transitions:
  - {from: split, to: part, foreach: {collection: input.items}, siblingGroup: parts}
  - {from: part, to: sum, synchronization: {siblingGroup: parts, strategy: {mOfN: 1}}}
`

// answerOf returns the rows of a question to some runs.
func answerOf(t *testing.T, text string, of ...*replay.Recording) (columns []string, rows [][]any) {
	q, err := replay.NewQuery(text)
	require.NoError(t, err)
	for _, rec := range of {
		require.NoError(t, q.Add(rec))
	}
	require.NoError(t, q.Answer(t.Context(), func(names []string) error { columns = names; return nil }, func(values []any) error {
		rows = append(rows, append([]any{}, values...))
		return nil
	}))
	require.NoError(t, q.Close())
	return columns, rows
}

// askedRun is a run that loses one branch to a withdrawal and is cancelled while its last task runs.
func askedRun(t *testing.T) *replay.Recording {
	r := record(t, "a", asked, map[string]any{"items": []any{int64(1), int64(2)}})
	r.complete("split", 0, nil)
	r.complete("part", 1, nil)
	r.send(state.Cancel{Act: state.Act{By: "ann", Reason: "enough"}})
	return r.recording()
}

// The tables say what the records and the state after them say.
func TestQueryTables(t *testing.T) {
	rec := askedRun(t)
	columns, rows := answerOf(t, `SELECT status, records, elapsed, code, json_extract(input, '$.items[1]') AS second FROM runs`, rec)
	require.Equal(t, []string{"status", "records", "elapsed", "code", "second"}, columns)
	require.Equal(t, [][]any{{"cancelled", int64(4), int64(2000), "cancelled", int64(2)}}, rows)
	_, rows = answerOf(t, `SELECT token, node, sent, elapsed, outcome FROM attempts ORDER BY 1`, rec)
	require.Equal(t, [][]any{
		{int64(1), "split", int64(1), int64(1000), "completed"}, {int64(2), "part", int64(1), nil, "cancelled"},
		{int64(3), "part", int64(1), int64(1000), "completed"}, {int64(4), "sum", int64(1), nil, "cancelled"},
	}, rows)
	_, rows = answerOf(t, `SELECT branch, status, phase, item FROM branches ORDER BY 1`, rec)
	require.Equal(t, [][]any{{int64(0), "running", "fired", "1"}, {int64(1), "arrived", "fired", "2"}}, rows)
	_, rows = answerOf(t, `SELECT record, message, person, reason FROM journal WHERE person IS NOT NULL`, rec)
	require.Equal(t, [][]any{{int64(4), "Cancel", "ann", "enough"}}, rows)
	_, rows = answerOf(t, `SELECT (SELECT count(*) FROM events) > 0, count(*), max(path) FROM tokens`, rec)
	require.Equal(t, [][]any{{int64(1), int64(4), "root/split:1"}}, rows)
}

// A text that does more than to read is refused, whatever it hides behind.
func TestQueryOnlyReads(t *testing.T) {
	for _, text := range []string{
		"", ";", "-- nothing", "DROP TABLE runs", "UPDATE runs SET run = ''", "PRAGMA user_version", "ATTACH 'x' AS y", "DETACH main", "BEGIN", "COMMIT",
		"VACUUM", "REINDEX", "ANALYZE", "CREATE TEMP TABLE t (a)", "SELECT 1; SELECT 2", "WITH w AS (SELECT 1) DELETE FROM runs",
		"EXPLAIN SELECT 1", "SAVEPOINT s",
	} {
		q, err := replay.NewQuery(text)
		require.ErrorIs(t, err, replay.ErrNotQuery, "%q", text)
		require.Nil(t, q)
	}
	_, err := replay.NewQuery("SELECT x FROM nowhere")
	require.ErrorContains(t, err, "no such table: nowhere")
	require.NotErrorIs(t, err, replay.ErrNotQuery)
	_, err = replay.NewQuery("SELECT load_extension('x')")
	require.ErrorContains(t, err, "not authorized")
}

// A run is there once, whole or not at all.
func TestQueryTakesRunsWhole(t *testing.T) {
	r := record(t, "a", asked, map[string]any{"items": []any{int64(1)}})
	r.complete("split", 0, nil)
	whole, other := r.recording(), *r
	other.records = append(slices.Clone(r.records), r.records[1])
	torn := other.recording()
	q, err := replay.NewQuery(`SELECT count(*), (SELECT count(*) FROM tokens) FROM runs`)
	require.NoError(t, err)
	require.ErrorContains(t, q.Add(torn), `run "a": record 2`)
	require.NoError(t, q.Add(whole))
	require.ErrorContains(t, q.Add(whole), "came from")
	require.NoError(t, q.Answer(t.Context(), func([]string) error { return nil }, func(values []any) error {
		require.Equal(t, []any{int64(1), int64(2)}, values)
		return nil
	}))
	require.NoError(t, q.Close())
}

// An answer ends with its context, and with what its callers say.
func TestQueryEnds(t *testing.T) {
	q, err := replay.NewQuery(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n`)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	rows := 0
	none := func([]string) error { return nil }
	err = q.Answer(ctx, none, func([]any) error {
		if rows++; rows == 3 {
			stop()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, rows)
	enough := errors.New("enough")
	require.ErrorIs(t, q.Answer(t.Context(), none, func([]any) error { return enough }), enough)
	require.ErrorIs(t, q.Answer(t.Context(), func([]string) error { return enough }, func([]any) error { return nil }), enough)
	require.NoError(t, q.Close())
}

// The values that a function makes have a bound, whatever it is asked to make.
func TestQueryValuesAreBounded(t *testing.T) {
	for _, text := range []string{"select length(printf('%.*c', 900000000, 'x'))", "select length(zeroblob(900000000))", "select length(hex(zeroblob(60000000)))"} {
		q, err := replay.NewQuery(text)
		require.NoError(t, err)
		err = q.Answer(t.Context(), func([]string) error { return nil }, func([]any) error { return nil })
		require.ErrorContains(t, err, "too big", text)
		require.NoError(t, q.Close())
	}
	_, rows := answerOf(t, "select length(printf('%.*c', 9000000, 'x'))")
	require.Equal(t, [][]any{{int64(9000000)}}, rows)
}
