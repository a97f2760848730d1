package runfile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A statement inserts rows of one table, or deletes some of the data. Its rows are made when they are written, one after
// the other: a flush may have hundreds of thousands, which would take more memory than what they are made of.
type statement struct {
	table *table
	count int
	put   func(w *rowWriter, i int) // writes the columns of row i
	// key returns the key of row i, if the rows do not come in the order of their keys: those of data.
	key func(i int) rowKey
	// deleted is what is deleted, if there are no rows.
	deleted []keyRange
}

// fileStatements returns the statements that bring a file up to date. It is a pure function of its arguments: what
// has changed in the state, the records and the events since the file was written. The order of tables means nothing,
// since no row refers to another by a constraint; that of the writes to data does. The rows of a statement
// come in the order of their keys, but for data.
func fileStatements(ch *state.Changes, entries []*Entry, told [][]decision.Told) []statement {
	var out []statement
	out = addRows(out, groupsTable, len(ch.Groups), func(w *rowWriter, i int) { putGroup(w, ch.Groups[i]) })
	out = addRows(out, tokensTable, len(ch.Tokens), func(w *rowWriter, i int) { putToken(w, ch.Tokens[i]) })
	out = addRows(out, branchesTable, len(ch.Branches), func(w *rowWriter, i int) { putBranch(w, &ch.Branches[i]) })
	elements := elementsOf(ch.Items)
	out = addRows(out, itemsTable, len(elements), func(w *rowWriter, i int) { putElement(w, &elements[i]) })
	out = addRows(out, signalsTable, len(ch.Signals), func(w *rowWriter, i int) { putSignal(w, ch.Signals[i]) })
	out = addRows(out, stepsTable, len(ch.Steps), func(w *rowWriter, i int) { putStep(w, ch.Steps[i]) })
	out = addRows(out, definitionTable, len(ch.Revisions), func(w *rowWriter, i int) {
		r := ch.Revisions[i]
		putDefinition(w, r.Number, r.Graph.Hash, column.SharedString(value.Encode(r.Document)))
	})
	out = append(out, dataStatements(ch.Data)...)
	out = addRows(out, journalTable, len(entries), func(w *rowWriter, i int) { putEntry(w, entries[i]) })
	large := largeValues(entries)
	out = addRows(out, valsTable, len(large), func(w *rowWriter, i int) {
		w.putTexts(large[i].hash, column.SharedString(large[i].raw))
	})
	events := pieces[decision.Told]{of: told}
	return addRows(out, eventsTable, events.countElements(), func(w *rowWriter, i int) { putEvent(w, events.elementAt(i)) })
}

// addRows adds the statement that writes so many rows to a table, if there are any.
func addRows(out []statement, t *table, n int, put func(*rowWriter, int)) []statement {
	if n == 0 {
		return out
	}
	return append(out, statement{table: t, count: n, put: put})
}

// pieces are a list that came in pieces, which nobody has joined.
type pieces[E any] struct {
	of      [][]E
	current int // the piece in which was looked last
	before  int // how many elements are in those before it
}

// countElements returns how many elements there are.
func (p *pieces[E]) countElements() (n int) {
	for _, some := range p.of {
		n += len(some)
	}
	return n
}

// elementAt returns element i, which there must be. It takes no time if that follows the one before.
func (p *pieces[E]) elementAt(i int) *E {
	if i < p.before {
		p.current, p.before = 0, 0
	}
	for i-p.before >= len(p.of[p.current]) {
		p.before += len(p.of[p.current])
		p.current++
	}
	return &p.of[p.current][i-p.before]
}

// An element is one of those of a foreach, or says that its list is empty.
type element struct {
	group workflow.GroupID
	index int // from 0; -1 of an empty list
	value any
}

// elementsOf returns the elements of groups by their keys. An empty list is one row: without it, a foreach over nothing
// would be read as a group that has no elements because it has no foreach.
func elementsOf(items map[workflow.GroupID][]any) []element {
	n := 0
	for _, list := range items {
		n += max(len(list), 1)
	}
	out := make([]element, 0, n)
	for _, id := range slices.Sorted(maps.Keys(items)) {
		if len(items[id]) == 0 {
			out = append(out, element{id, -1, nil})
		}
		for i, v := range items[id] {
			pace.Each(i)
			out = append(out, element{id, i, v})
		}
	}
	return out
}

// A largeValue is one that stands in a table of its own.
type largeValue struct {
	hash string
	raw  []byte
}

// largeValues returns the large values of records, each once. A value that another record of the file has brought
// before is there already, under the same hash: the table ignores it.
func largeValues(entries []*Entry) (out []largeValue) {
	for i, e := range entries {
		pace.Each(i)
		for hash, raw := range e.Values.All() {
			out = append(out, largeValue{hash, raw})
		}
	}
	slices.SortFunc(out, func(a, b largeValue) int { return cmp.Compare(a.hash, b.hash) })
	return slices.CompactFunc(out, func(a, b largeValue) bool { return a.hash == b.hash })
}

// dataStatements keeps the order of writes: a set value hides what was below it. So a set deletes what is below its
// path, and begins a statement with its own row. Appended elements only add to a statement: a list that has grown by
// 1,000 elements is one.
func dataStatements(changes []state.DataChange) (out []statement) {
	start := 0 // of the rows that are not in out
	flush := func(end int) {
		if rows := changes[start:end]; len(rows) > 0 {
			out = append(out, statement{
				table: dataTable, count: len(rows),
				put: func(w *rowWriter, i int) { putData(w, &rows[i]) },
				key: func(i int) rowKey { return dataKey(&rows[i]) },
			})
		}
	}
	for i := range changes {
		pace.Each(i)
		c := &changes[i]
		group, branch := int64(c.Scope.Group), int64(c.Scope.Branch)
		switch c.Kind {
		case state.DataDrop:
			flush(i)
			out = append(out, statement{table: dataTable, deleted: []keyRange{scopeRange(group, branch)}})
			start = i + 1
		case state.DataSet:
			flush(i)
			ranges := pathRanges(group, branch, value.Pointer(c.Path))
			out = append(out, statement{table: dataTable, deleted: ranges[:]})
			start = i
		case state.DataAppend:
		}
	}
	flush(len(changes))
	return out
}

// dataKey returns the key of what was set or appended.
func dataKey(c *state.DataChange) rowKey {
	k := rowKey{int64(c.Scope.Group), int64(c.Scope.Branch), value.Pointer(c.Path), -1}
	if c.Kind == state.DataAppend {
		k.c = int64(c.Index)
	}
	return k
}
