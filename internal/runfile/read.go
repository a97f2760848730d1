package runfile

import (
	"errors"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

const (
	getMeta     = `SELECT run, seq, sum FROM meta`
	getFacts    = `SELECT facts FROM meta`
	getTokens   = `SELECT * FROM tokens ORDER BY id`
	getGroups   = `SELECT * FROM groups ORDER BY id`
	getItems    = `SELECT grp, idx, value FROM items ORDER BY grp, idx`
	getBranches = `SELECT * FROM branches ORDER BY grp, branch`
	getData     = `SELECT * FROM data ORDER BY grp, branch, path, idx`
	getSignals  = `SELECT * FROM signals ORDER BY seq`
	getSteps    = `SELECT * FROM steps ORDER BY node`
	getRevision = `SELECT doc FROM definition WHERE revision = ?`
	getFirst    = `SELECT hash, doc FROM definition WHERE revision = 1`
	getValue    = `SELECT value FROM vals WHERE hash = ?`
	getJournal  = `SELECT * FROM journal WHERE seq > ? ORDER BY seq LIMIT ?`
	getEvents   = `SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT ?`
)

// ReadMeta returns which run a file is of, and the sequence and checksum of its last record.
func ReadMeta(c *sqlite.Conn) (run workflow.RunID, seq int64, sum []byte, err error) {
	found, err := c.One(getMeta, func(r *sqlite.Row) error {
		run, seq, sum = workflow.RunID(r.Text(0)), r.Int64(1), r.Bytes(2)
		return nil
	})
	if err == nil && !found {
		err = errors.New("it does not say of which run it is")
	}
	return run, seq, sum, err
}

// ReadValue returns the large value with a hash.
func ReadValue(c *sqlite.Conn, hash string) (any, error) {
	var raw string
	found, err := c.One(getValue, func(r *sqlite.Row) error { raw = r.Text(0); return nil }, hash)
	if err == nil && !found {
		err = errors.New("no value with the hash " + hash)
	}
	if err != nil {
		return nil, err
	}
	return codec.DecodeValue([]byte(raw))
}

// ReadRevision returns a revision of the definition, as JSON.
func ReadRevision(c *sqlite.Conn, revision int) (doc string, err error) {
	found, err := c.One(getRevision, func(r *sqlite.Row) error { doc = r.Text(0); return nil }, int64(revision))
	if err == nil && !found {
		err = fmt.Errorf("it lacks revision %d of the definition", revision)
	}
	return doc, err
}

// ReadFirstDefinition returns the definition that the run began with, as JSON, and its hash;
// "" for both if the file lacks it.
func ReadFirstDefinition(c *sqlite.Conn) (hash, doc string, err error) {
	_, err = c.One(getFirst, func(r *sqlite.Row) error { hash, doc = r.Text(0), r.Text(1); return nil })
	return hash, doc, err
}

// ReadRows reads a whole state.
func ReadRows(c *sqlite.Conn) (state.Rows, error) {
	out := state.Rows{Items: map[workflow.GroupID][]any{}}
	tables := []struct {
		query string
		row   func(*rowReader)
	}{
		{getFacts, func(r *rowReader) {
			f, err := facts.Decode([]byte(r.Text(0)), nil)
			r.keepError(err)
			out.Facts, _ = f.(state.Facts)
		}},
		{getTokens, func(r *rowReader) { out.Tokens = append(out.Tokens, r.scanToken()) }},
		{getGroups, func(r *rowReader) { out.Groups = append(out.Groups, r.scanGroup()) }},
		{getItems, func(r *rowReader) { readItem(r, out.Items) }},
		{getBranches, func(r *rowReader) { out.Branches = append(out.Branches, r.scanBranch()) }},
		{getSignals, func(r *rowReader) { out.Signals = append(out.Signals, r.scanSignal()) }},
		{getSteps, func(r *rowReader) { out.Steps = append(out.Steps, r.scanStep()) }},
		{getData, func(r *rowReader) { out.Data = append(out.Data, r.scanData()) }},
	}
	for _, t := range tables {
		if err := eachRow(c, t.query, t.row); err != nil {
			return state.Rows{}, err
		}
	}
	return out, nil
}

// eachRow calls row with each row of a query.
func eachRow(c *sqlite.Conn, query string, row func(*rowReader)) error {
	return c.Each(query, func(r *sqlite.Row) error {
		rd := rowReader{Row: r}
		row(&rd)
		return rd.err
	})
}

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

// ReadJournal yields the records in a file. A nil file has none.
func ReadJournal(c *sqlite.Conn) iter.Seq2[Entry, error] {
	return pagedRows(c, getJournal, 0, (*rowReader).scanEntry, func(e *Entry) (int64, int) { return e.Seq, len(e.Message) + len(e.Decisions) })
}

// ReadEvents yields the events in a file behind a sequence. A nil file has none.
func ReadEvents(c *sqlite.Conn, after int64) iter.Seq2[decision.Event, error] {
	return pagedRows(c, getEvents, after, (*rowReader).scanEvent, func(e *decision.Event) (int64, int) { return e.Seq, 0 })
}

// How much of a file is read at a time.
const (
	page      = 256 // rows
	pageBytes = 1 << 20
)

var errPageFull = errors.New("as much as is read at a time")

// pagedRows yields the rows of a query by sequence, some at a time; extent returns the
// sequence of a row, and its size if it may be large. A nil file has none.
func pagedRows[T any](c *sqlite.Conn, query string, after int64, row func(*rowReader) T, extent func(*T) (seq int64, bytes int)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for c != nil {
			var rows []T
			total := 0
			err := c.Each(query, func(r *sqlite.Row) error {
				rd := rowReader{Row: r}
				rows = append(rows, row(&rd))
				seq, bytes := extent(&rows[len(rows)-1])
				after = seq
				if total += bytes; rd.err == nil && total > pageBytes {
					return errPageFull
				}
				return rd.err
			}, after, int64(page))
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
			if len(rows) < page && !full {
				return
			}
		}
	}
}
