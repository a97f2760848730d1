package runfile

import (
	"database/sql/driver"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
)

// A statement inserts rows of one table, or deletes some. Either rows are inserted one by one, or count rows are made
// of the only one, or delete is executed.
type statement struct {
	table  *table
	rows   [][]driver.Value
	count  int    // rows like the only one, which counts up in two columns; 0 if rows are written as they are
	delete string // deleteScope or deleteBelow, with the arguments in the only row
}

const (
	// deleteBelow deletes what a set hides: the value and the elements at a path, and all below it. Below is from
	// path + "/" up to path + "0", which is the byte behind the slash: LIKE would need an escape for the paths of
	// users.
	deleteScope = `DELETE FROM data WHERE grp = ? AND branch = ?`
	deleteBelow = `DELETE FROM data WHERE grp = ? AND branch = ? AND (path = ? OR path >= ? AND path < ?)`
)

// How many rows must be alike for one statement to make them, and how many one
// makes at most.
const (
	// A statement with count has a text of its own and a recursion to run, which is not worth it for a few.
	minSiblings = 16
	maxSiblings = 1000
)

// fileStatements returns the statements that bring a file up to date. It is a pure function of its arguments: what
// has changed in the state, the records and the events since the file was written. The order of tables means nothing,
// since no row refers to another by a constraint; that of rows within a table, and of the writes to data, does.
func fileStatements(ch *state.Changes, entries []Entry, events []decision.Event) []statement {
	var out []statement
	out = appendRows(out, groupsTable, ch.Groups, groupRow)
	// A wide fan-out makes tokens and, as it fires, branches that differ in their numbers only.
	out = append(out, siblingStatements(tokensTable, rowsOf(ch.Tokens, tokenRow))...)
	out = append(out, siblingStatements(branchesTable, rowsOf(ch.Branches, branchRow))...)
	// The same changes must give the same statements, in whatever order a map yields them.
	for _, id := range slices.Sorted(maps.Keys(ch.Items)) {
		out = append(out, statement{table: itemsTable, rows: itemRows(id, ch.Items[id])})
	}
	out = appendRows(out, signalsTable, ch.Signals, signalRow)
	out = appendRows(out, stepsTable, ch.Steps, stepRow)
	out = appendRows(out, definitionTable, ch.Revisions, revisionRow)
	out = append(out, dataBatches(ch.Data)...)
	// Journal and events only grow: their rows have numbers that no file has before.
	out = appendRows(out, journalTable, entries, journalRow)
	if rows := valueRows(entries); len(rows) > 0 {
		out = append(out, statement{table: valsTable, rows: rows})
	}
	return appendRows(out, eventsTable, events, eventRow)
}

// appendRows adds the statement that writes xs to a table, if there are any.
func appendRows[T any](out []statement, t *table, xs []T, row func(T) []driver.Value) []statement {
	if len(xs) == 0 {
		return out
	}
	return append(out, statement{table: t, rows: rowsOf(xs, row)})
}

// rowsOf returns the rows of xs.
func rowsOf[T any](xs []T, row func(T) []driver.Value) [][]driver.Value {
	rows := make([][]driver.Value, len(xs))
	var pacer pace.Pacer
	for i, x := range xs {
		pacer.Spend(10)
		rows[i] = row(x)
	}
	return rows
}

// siblingStatements splits rows into runs that are alike but for the columns that count up, and the rest, in order.
// Example, with the rows of 40 tokens of which the third differs: a statement with rows 1 to 3, and one with row 4
// and count 37.
func siblingStatements(t *table, rows [][]driver.Value) []statement {
	var out []statement
	plain := 0 // rows before it are in out
	for i := 0; i < len(rows); {
		n := countAlike(t, rows[i:min(len(rows), i+maxSiblings)])
		// They stay with the plain rows before them.
		if n < minSiblings {
			i += n
			continue
		}
		// The plain rows go first, which keeps the order.
		if i > plain {
			out = append(out, statement{table: t, rows: rows[plain:i]})
		}
		out = append(out, statement{table: t, rows: rows[i : i+1], count: n})
		i += n
		plain = i
	}
	if plain < len(rows) {
		out = append(out, statement{table: t, rows: rows[plain:]})
	}
	return out
}

// countAlike returns how many rows from the first on are like it.
func countAlike(t *table, rows [][]driver.Value) int {
	n := 1
	for n < len(rows) && isSibling(t, rows[0], rows[n], int64(n)) {
		n++
	}
	return n
}

// isSibling reports whether b, n rows behind a, has what a has in all columns, but for those that count up, where it
// has n more. No column of these tables is a blob, which could not be compared.
func isSibling(t *table, a, b []driver.Value, n int64) bool {
	for c := range a {
		if c == t.first || c == t.second {
			if b[c] != a[c].(int64)+n {
				return false
			}
		} else if a[c] != b[c] {
			return false
		}
	}
	return true
}

// dataBatches keeps the order of writes: a set value hides what was below it. So a set ends the batch before it,
// deletes what is below its path, and begins a batch with its own row. Appended elements only add to a batch: a list
// that has grown by 1,000 elements is one statement.
func dataBatches(changes []state.DataChange) []statement {
	var out []statement
	var rows [][]driver.Value
	flush := func() {
		if len(rows) > 0 {
			out = append(out, statement{table: dataTable, rows: rows})
			rows = nil
		}
	}
	for _, c := range changes {
		g, b := int64(c.Scope.Group), int64(c.Scope.Branch)
		path := value.Pointer(c.Path)
		switch c.Kind {
		case state.DataDrop:
			flush()
			out = append(out, statement{delete: deleteScope, rows: [][]driver.Value{{g, b}}})
		case state.DataSet:
			flush()
			out = append(out, statement{delete: deleteBelow, rows: [][]driver.Value{{g, b, path, path + "/", path + "0"}}})
			rows = append(rows, []driver.Value{g, b, path, int64(-1), valueText(c.Value)})
		case state.DataAppend:
			rows = append(rows, []driver.Value{g, b, path, int64(c.Index), valueText(c.Value)})
		}
	}
	flush()
	return out
}

// valueText returns a value of the model as JSON. The text is shared with the row, which is not changed any more.
func valueText(v any) string { return column.SharedString(value.Encode(v)) }

// optionalText is text, and NULL for nothing. It cannot tell nil from a value null, nor need it: both are nil in a
// state.
func optionalText(v any) driver.Value {
	if v == nil {
		return nil
	}
	return valueText(v)
}

// nullableText is a text that may be missing.
func nullableText[T ~string](s T) driver.Value {
	if s == "" {
		return nil
	}
	return string(s)
}
