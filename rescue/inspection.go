package rescue

import (
	"cmp"
	"context"
	"database/sql/driver"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An inspection is a directory that is looked at, with what was found.
//
// Verify and Repair both begin with one. The embedded Inspection of package store holds the
// directory, so that no engine can open it meanwhile, and reads pawl.db as a copy; this type
// adds what is made of what it sees: the report.
type inspection struct {
	*store.Inspection
	ctx    context.Context // of Verify or Repair: asked before each run, file and blob
	path   string
	codec  store.Codec
	report Report
	sealed []Finding // of what could not be opened
}

// openInspection begins an inspection, with the faults of the directory as a whole in its
// report. Close it.
//
// The store has found faults of the directory already as it opened it: a log of SQLite that is
// of another time, a file of checksums that is missing. They come first in the report, because
// much of what follows may be explained by them. A fault that is harmless is a note and costs
// the report nothing.
func openInspection(ctx context.Context, path string, c store.Codec) (*inspection, error) {
	opened, err := store.Inspect(path, c)
	if err != nil {
		return nil, err
	}
	in := &inspection{Inspection: opened, ctx: ctx, path: path, codec: c, report: Report{Path: path}}
	for _, f := range opened.Faults {
		if f.Harmless {
			in.addNote(f.File, f.Do, "%v", f.Err)
		} else {
			in.addDamage("", f.File, f.Err, cmp.Or(f.Do, doRepair))
		}
	}
	return in, nil
}

const allRefs = `SELECT DISTINCT hash FROM blob_refs ORDER BY hash`

// eachIndexRow reads rows of pawl.db; that it cannot be read is damage.
//
// A damaged index fails in the middle of a query, so that row may have been called for some
// rows before. Neither command stops then: it goes on with what was read, and the damage stands
// in the report.
func (in *inspection) eachIndexRow(query string, row func(*sqlite.Row) error, args ...driver.Value) {
	err := in.ReadIndex(func(db *sqlite.Conn) error { return db.Each(query, row, args...) })
	if err != nil {
		in.addDamage("", index.File, err, doRepair)
	}
}

// runIDs returns the ids of all runs in the index, as far as it can be read.
//
// Verify looks at each of them; Repair takes them together with the files in the directory,
// since those that could not be read here may have a file all the same.
func (in *inspection) runIDs() []workflow.RunID {
	ids, err := in.RunIDs()
	if err != nil {
		in.addDamage("", index.File, err, doRepair)
	}
	return ids
}

// changedRows calls found with what is wrong with each of those rows.
//
// Each row of the small tables carries a checksum of its own, which DescribeChange computes
// again. Verify calls all of them damage; Repair has a note for those which journals tell
// anyway, and has met the others by itself.
func (in *inspection) changedRows(found func(c *index.CheckedTable, wrong string)) {
	for i := range index.CheckedTables {
		c := &index.CheckedTables[i]
		err := in.ReadIndex(func(db *sqlite.Conn) error {
			return c.EachRow(db, func(r *sqlite.Row) error {
				if wrong := c.DescribeChange(r); wrong != "" {
					found(c, wrong)
				}
				return nil
			})
		})
		if err != nil {
			in.addDamage("", index.File, err, doRepair)
		}
	}
}
