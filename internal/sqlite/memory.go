package sqlite

import "fmt"

// memoryPragmas prepare a database that is built in memory. Nobody trusts it
// before its bytes are synced.
const memoryPragmas = `PRAGMA page_size=%d; %s PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA trusted_schema=OFF; PRAGMA application_id=%d; PRAGMA user_version=%d;`

// OpenMemory opens an empty database in memory with a schema, and the page size,
// application id and version of its file.
func OpenMemory(schema string, page, id, version int) (*Conn, error) {
	return openMemory("", schema, page, id, version)
}

func openMemory(pragma, schema string, page, id, version int) (*Conn, error) {
	return Open(Memory, fmt.Sprintf(memoryPragmas, page, pragma, id, version)+schema)
}

// givesBack has SQLite keep of every page which other one names it, so that PRAGMA incremental_vacuum can give free pages back. It comes
// before anything is written, and behind the size of the pages, which it fixes.
const givesBack = `PRAGMA auto_vacuum=INCREMENTAL;`

// NewDatabase returns the bytes of an empty database, which can give free pages back to the file system.
func NewDatabase(schema string, page, id, version int) ([]byte, error) {
	c, err := openMemory(givesBack, schema, page, id, version)
	if err != nil {
		return nil, err
	}
	data, err := c.Serialize()
	if closed := c.Close(); err == nil {
		err = closed
	}
	return data, err
}
