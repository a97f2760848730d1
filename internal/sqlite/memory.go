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

// NewDatabase returns the bytes of an empty database. It has no map of its pages, by which SQLite could give free ones back: a read of
// that map that fails would be told as damage.
func NewDatabase(schema string, page, id, version int) ([]byte, error) {
	c, err := openMemory("", schema, page, id, version)
	if err != nil {
		return nil, err
	}
	data, err := c.Serialize()
	if closed := c.Close(); err == nil {
		err = closed
	}
	return data, err
}
