package sqlite

import (
	"errors"
	"strconv"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// errorCode returns the primary result code of err, 0 if SQLite did not report it.
func errorCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// IsFull reports whether the disk, or the database, is full.
func IsFull(err error) bool {
	var e *sqlite.Error
	return errorCode(err) == lib.SQLITE_FULL || errors.As(err, &e) && e.Code() == lib.SQLITE_IOERR_SHMSIZE
}

// IsIO reports whether a result code, in decimal, is an I/O error.
func IsIO(decimal string) bool {
	c, err := strconv.Atoi(decimal)
	return err == nil && c&0xff == lib.SQLITE_IOERR
}

// IsBusy reports whether somebody else holds the database.
func IsBusy(err error) bool {
	c := errorCode(err)
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}

// IsDamaged reports whether the database is not one, or not in order.
func IsDamaged(err error) bool {
	c := errorCode(err)
	return c == lib.SQLITE_CORRUPT || c == lib.SQLITE_NOTADB
}
