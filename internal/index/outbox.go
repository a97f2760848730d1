package index

import (
	_ "embed" // the table
	"fmt"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

//go:embed outbox.sql
var outboxSchema string

const outboxTable = "outbox"

const hasTable = `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?`

// HasOutbox reports whether a pawl.db has the table of the events that are to be published:
// directories whose engines had no feed are without.
func HasOutbox(db *sqlite.Conn) (bool, error) {
	return db.One(hasTable, func(*sqlite.Row) error { return nil }, outboxTable)
}

// MakeOutbox makes the table of the outbox, unless pawl.db has it.
func MakeOutbox(db *sqlite.Conn) error {
	has, err := HasOutbox(db)
	if err == nil && !has {
		err = db.Script(outboxSchema)
	}
	return err
}

// OutboxPlace returns the place of events of a run; first is the number of the first one.
func OutboxPlace(id workflow.RunID, first int64) string {
	return fmt.Sprintf("events from %d of %s", first, id)
}
