package sqlite

import "fmt"

// memoryPragmas prepare a database that is built in memory. Nobody trusts it
// before its bytes are synced.
const memoryPragmas = `PRAGMA page_size=%d; PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA trusted_schema=OFF; PRAGMA application_id=%d; PRAGMA user_version=%d;`

// OpenMemory opens an empty database in memory with a schema, and the page size,
// application id and version of its file.
func OpenMemory(schema string, page, id, version int) (*Conn, error) {
	return Open(Memory, fmt.Sprintf(memoryPragmas, page, id, version)+schema)
}

// NewDatabase returns the bytes of an empty database.
func NewDatabase(schema string, page, id, version int) ([]byte, error) {
	c, err := OpenMemory(schema, page, id, version)
	if err != nil {
		return nil, err
	}
	data, err := c.Serialize()
	if closed := c.Close(); err == nil {
		err = closed
	}
	return data, err
}
