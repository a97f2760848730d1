package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"modernc.org/sqlite"
)

// HeaderSize is the size of the header at the start of a database file.
const HeaderSize = 100

var magic = []byte("SQLite format 3\x00")

// IsDatabase reports whether data begins as a database does.
func IsDatabase(data []byte) bool { return bytes.HasPrefix(data, magic) }

// A Header is what the start of a database file says about it. See section 1.3
// of SQLite's "Database File Format".
type Header struct {
	PageSize      int
	UserVersion   uint32 // PRAGMA user_version
	ApplicationID uint32 // PRAGMA application_id
}

// ParseHeader reads the header in the first [HeaderSize] bytes of a database
// file. It reports false if data is not the start of one, or of one without tables.
func ParseHeader(data []byte) (Header, bool) {
	if len(data) < HeaderSize || !bytes.HasPrefix(data, magic) {
		return Header{}, false
	}
	format, encoding := binary.BigEndian.Uint32(data[44:]), binary.BigEndian.Uint32(data[56:])
	if format < 1 || format > 4 || encoding < 1 || encoding > 3 {
		return Header{}, false // SQLite would call it an error of the statement
	}
	size := int(binary.BigEndian.Uint16(data[16:]))
	if size == 1 {
		size = 65536
	}
	return Header{
		PageSize:      size,
		UserVersion:   binary.BigEndian.Uint32(data[60:]),
		ApplicationID: binary.BigEndian.Uint32(data[68:]),
	}, true
}

// StampWAL makes the bytes of a database file say that the database has a
// write-ahead log: its versions for reading and writing, at offsets 18 and 19.
func StampWAL(data []byte) { data[18], data[19] = 2, 2 }

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
