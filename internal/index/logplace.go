package index

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// A LogPlace says how much of a log outside of the directory is in a pawl.db: everything up
// to one entry.
type LogPlace struct {
	Seq   uint64            // of the entry
	Sum   [sha256.Size]byte // of the entry
	Spill int64             // the largest number that a spill was given up to there
	Based bool              // there is a base of the directory in the log
}

const (
	getLogPlace  = `SELECT value FROM meta WHERE key = 'log'`
	putLogPlace  = `INSERT INTO meta (key, value) VALUES ('log', ?) ON CONFLICT DO UPDATE SET value = excluded.value`
	dropLogPlace = `DELETE FROM meta WHERE key = 'log'`
)

const logPlaceSize = 8 + sha256.Size + 8 + 1

// ReadLogPlace returns the place of a pawl.db in its log; has is false if it has no log. It fails with
// ErrDamagedSecret.
func ReadLogPlace(db *sqlite.Conn) (p LogPlace, has bool, err error) {
	_, err = db.One(getLogPlace, func(r *sqlite.Row) error {
		value := r.Bytes(0)
		if len(value) != metaCRCSize+logPlaceSize || !bytes.Equal(withCRC(value[metaCRCSize:]), value) {
			return ErrDamagedSecret
		}
		value = value[metaCRCSize:]
		has = true
		p.Seq = binary.BigEndian.Uint64(value)
		copy(p.Sum[:], value[8:])
		p.Spill = int64(binary.BigEndian.Uint64(value[8+sha256.Size:])) //nolint:gosec // as it was written
		p.Based = value[logPlaceSize-1] != 0
		return nil
	})
	return p, has, err
}

// KeepLogPlace notes how much of its log is in a pawl.db.
func KeepLogPlace(db *sqlite.Conn, p LogPlace) error {
	value := binary.BigEndian.AppendUint64(make([]byte, 0, logPlaceSize), p.Seq)
	value = append(value, p.Sum[:]...)
	value = binary.BigEndian.AppendUint64(value, uint64(p.Spill)) //nolint:gosec // it is not negative
	value = append(value, 0)
	if p.Based {
		value[logPlaceSize-1] = 1
	}
	_, err := db.Exec(putLogPlace, withCRC(value))
	return err
}

// DropLogPlace makes a pawl.db one that has no log.
func DropLogPlace(db *sqlite.Conn) error {
	_, err := db.Exec(dropLogPlace)
	return err
}
