package sqlite

import (
	"fmt"

	"modernc.org/sqlite"
)

// A Backup copies the database of a connection into a new file, some pages at a
// time, while the connection goes on being used in between: what it writes goes
// into the copy as well. When the last step is done, the copy is the database as
// it is at that moment. See sqlite3_backup_step in SQLite's C interface.
//
// Its methods use the connection, as a statement does.
type Backup struct {
	raw  *sqlite.Backup
	path string
}

// copyPragmas go into the DSN of a copy, where their order does not matter.
// Nobody reads the copy before it is complete, and who made it syncs it then.
const copyPragmas = "&_pragma=synchronous(off)&_pragma=journal_mode(off)&_pragma=locking_mode(exclusive)"

// Backup begins a copy into a file at path, which is made if it does not exist.
// Finish it.
func (c *Conn) Backup(path string) (*Backup, error) {
	raw, err := c.conn.NewBackup(uriOf(path, "rwc") + copyPragmas)
	if err != nil {
		return nil, fmt.Errorf("back up into %s: %w", path, err)
	}
	return &Backup{raw, path}, nil
}

// Step copies up to so many pages and reports whether more are left.
func (b *Backup) Step(pages int) (more bool, err error) {
	more, err = b.raw.Step(int32(min(pages, 1<<20)))
	if err != nil {
		err = fmt.Errorf("back up into %s: %w", b.path, err)
	}
	return more, err
}

// Finish closes the copy, which is whole if the last Step reported so.
func (b *Backup) Finish() error { return b.raw.Finish() }
