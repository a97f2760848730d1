package sqlite

import (
	"bytes"
	"encoding/binary"
)

// HeaderSize is the size of the header at the start of a database file.
const HeaderSize = 100

var magic = []byte("SQLite format 3\x00")

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
