package runfile

import (
	"errors"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// ReadMeta returns which run a file is of, and the sequence and checksum of its last record. It reads one row: this
// is how a file is checked before it is used, whatever its size.
func ReadMeta(c Source) (run workflow.RunID, seq int64, sum []byte, err error) {
	found := false
	err = c.eachRow(selection{table: metaTable}, func(r *rowReader) {
		found, run, seq, sum = true, workflow.RunID(r.Text(1)), r.Int64(6), r.Bytes(7)
	})
	if err == nil && !found {
		err = errors.New("it does not say of which run it is")
	}
	return run, seq, sum, err
}

// ReadValue returns the large value with a hash. Large values are read only when a record is decoded that refers to
// them: to load a run, its journal is not read at all.
func ReadValue(c Source, hash string) (any, error) {
	var raw string
	found := false
	err := c.eachRow(selection{table: valsTable, text: hash}, func(r *rowReader) { found, raw = true, r.Text(1) })
	if err == nil && !found {
		err = errors.New("no value with the hash " + hash)
	}
	if err != nil {
		return nil, err
	}
	return codec.DecodeValue([]byte(raw))
}

// ReadRevision returns a revision of the definition, as JSON. Revision 1 is the definition that the run began with;
// each patch adds one. All of them are in the file.
func ReadRevision(c Source, revision int) (doc string, err error) {
	found := false
	// The row behind the previous revision is the one, unless it is missing: then a later one comes, or no row.
	err = c.eachRow(selection{table: definitionTable, after: int64(revision) - 1, limit: 1}, func(r *rowReader) {
		found, doc = r.Int(0) == revision, r.Text(2)
	})
	if err == nil && !found {
		err = fmt.Errorf("it lacks revision %d of the definition", revision)
	}
	return doc, err
}

// ReadFirstDefinition returns the definition that the run began with, as JSON, and its hash;
// "" for both if the file lacks it.
func ReadFirstDefinition(c Source) (hash, doc string, err error) {
	err = c.eachRow(selection{table: definitionTable, limit: 1}, func(r *rowReader) {
		if r.Int(0) == 1 {
			hash, doc = r.Text(1), r.Text(2)
		}
	})
	return hash, doc, err
}

// ReadRows reads a whole state, as of the record that the meta row names. The rows are what the file says: whether
// they make a state is found by state.Restore.
func ReadRows(c Source) (state.Rows, error) {
	out := state.Rows{Items: map[workflow.GroupID][]any{}}
	// The journal, its values and the events are not among them: to load a run costs what its state is, not what its
	// history is.
	tables := []struct {
		table *table
		row   func(*rowReader)
	}{
		{metaTable, func(r *rowReader) {
			f, err := facts.Decode([]byte(r.Text(8)), nil)
			r.keepError(err)
			out.Facts, _ = f.(state.Facts)
		}},
		{tokensTable, func(r *rowReader) { out.Tokens = append(out.Tokens, r.scanToken()) }},
		{groupsTable, func(r *rowReader) { out.Groups = append(out.Groups, r.scanGroup()) }},
		{itemsTable, func(r *rowReader) { readItem(r, out.Items) }},
		{branchesTable, func(r *rowReader) { out.Branches = append(out.Branches, r.scanBranch()) }},
		{signalsTable, func(r *rowReader) { out.Signals = append(out.Signals, r.scanSignal()) }},
		{stepsTable, func(r *rowReader) { out.Steps = append(out.Steps, r.scanStep()) }},
		{dataTable, func(r *rowReader) { out.Data = append(out.Data, r.scanData()) }},
	}
	// Each row function adds to the result, so that no table is in memory twice.
	for _, t := range tables {
		if err := c.eachRow(selection{table: t.table}, t.row); err != nil {
			return state.Rows{}, err
		}
	}
	return out, nil
}

// readItem adds an element to those of its group. Elements come in the order of branches, none may be missing: a
// branch finds its own by its index.
func readItem(r *rowReader, items map[workflow.GroupID][]any) {
	id, i := workflow.GroupID(r.Int64(0)), r.Int(1)
	if items[id] == nil {
		items[id] = []any{}
	}
	if i < 0 {
		return // an empty list
	}
	if i != len(items[id]) {
		r.keepError(fmt.Errorf("element %d of %v is missing", len(items[id]), id))
	}
	items[id] = append(items[id], r.valueAt(2))
}

// ReadJournal yields the records in a file. A nil file has none. It checks nothing. CheckedJournal does; what repairs
// a file takes what there is.
func ReadJournal(c Source) iter.Seq2[Entry, error] {
	return pagedRows(c, journalTable, 0, (*rowReader).scanEntry, func(e *Entry) (int64, int) { return e.Seq, len(e.Message) + len(e.Decisions) })
}

// ReadEvents yields the events in a file behind a sequence. A nil file has none. An event has its own number in the
// run, which is not the sequence of its record.
func ReadEvents(c Source, after int64) iter.Seq2[decision.Event, error] {
	return pagedRows(c, eventsTable, after, (*rowReader).scanEvent, func(e *decision.Event) (int64, int) { return e.Seq, 0 })
}

// How much of a file is read at a time.
const (
	// Both bound the memory of a reader, however long the journal is, and how long it holds the connection up.
	page      = 256 // rows
	pageBytes = 1 << 20
)

// errPageFull ends a page early. The row that was too much is part of the page.
var errPageFull = errors.New("as much as is read at a time")

// pagedRows yields the rows of a table by sequence, some at a time; extent returns the sequence of a row, and its
// size if it may be large. A nil file has none. Between two pages the source is at rest, and so it is when rows are
// yielded: the caller may read from it as well, such as the large values of a record, and may stop at any row.
func pagedRows[T any](c Source, from *table, after int64, row func(*rowReader) T, extent func(*T) (seq int64, bytes int)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		// Each turn reads the rows behind the last one of the turn before.
		for c != nil {
			var rows []T
			total := 0
			err := c.eachRow(selection{table: from, after: after, limit: page}, func(r *rowReader) {
				rows = append(rows, row(r))
				seq, bytes := extent(&rows[len(rows)-1])
				after = seq
				if total += bytes; total > pageBytes {
					r.keepError(errPageFull)
				}
			})
			full := errors.Is(err, errPageFull)
			if err != nil && !full {
				var none T
				yield(none, err)
				return
			}
			for i := range rows {
				if !yield(rows[i], nil) {
					return
				}
			}
			// There were not as many as were asked for, so these were the last.
			if len(rows) < page && !full {
				return
			}
		}
	}
}

// CompileDefinition parses and compiles the JSON of a definition as it was stored, without the bounds of new ones. It
// fails if the definition does not have the hash. The bounds may have been lowered since the run began, and must not
// keep it from going on. The hash is of the definition, not of its text: it says that whatever reads the definition
// today understands it as the program did that wrote it.
func CompileDefinition(doc, hash string) (*compiled.Graph, error) {
	def, err := compiled.Boundless().ParseJSON([]byte(doc))
	if err != nil {
		return nil, err
	}
	g, err := compiled.Compile(compiled.Boundless(), def)
	if err != nil {
		return nil, err
	}
	if g.Hash != hash {
		return nil, fmt.Errorf("its content has the hash %s", g.Hash)
	}
	return g, nil
}

// VersionOf returns the version of a definition; 1 may be left out. Definitions with version: 1 and without a version
// are the same.
func VersionOf(g *compiled.Graph) int { return max(g.Definition.Version, 1) }
