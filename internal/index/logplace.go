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
	// Generation says how often the log was begun anew, each time from one directory, and Anew is the number of the entry that says
	// so: nothing before it counts. 0: never.
	Generation, Anew uint64
	// First is, until there is a base, the SHA-256 of the one that the log got last, or was about to get. A process that dies
	// before it notes that the base is there knows it again.
	First [sha256.Size]byte
}

const (
	getLogPlace  = `SELECT value FROM meta WHERE key = 'log'`
	putLogPlace  = `INSERT INTO meta (key, value) VALUES ('log', ?) ON CONFLICT DO UPDATE SET value = excluded.value`
	dropLogPlace = `DELETE FROM meta WHERE key = 'log'`
)

const (
	logPlaceSize = 8 + sha256.Size + 8 + 1
	logAnewSize  = logPlaceSize + 16         // with Generation and Anew
	logFirstSize = logAnewSize + sha256.Size // with First as well
)

// ReadLogPlace returns the place of a pawl.db in its log; has is false if it has no log. It fails with
// ErrDamagedSecret.
func ReadLogPlace(db *sqlite.Conn) (p LogPlace, has bool, err error) {
	_, err = db.One(getLogPlace, func(r *sqlite.Row) error {
		value := r.Bytes(0)
		if n := len(value) - metaCRCSize; n != logPlaceSize && n != logAnewSize && n != logFirstSize || !bytes.Equal(withCRC(value[metaCRCSize:]), value) {
			return ErrDamagedSecret
		}
		value = value[metaCRCSize:]
		has = true
		p.Seq = binary.BigEndian.Uint64(value)
		copy(p.Sum[:], value[8:])
		p.Spill = int64(binary.BigEndian.Uint64(value[8+sha256.Size:])) //nolint:gosec // as it was written
		p.Based = value[logPlaceSize-1] != 0
		if value = value[logPlaceSize:]; len(value) > 0 {
			p.Generation, p.Anew = binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])
			copy(p.First[:], value[16:])
		}
		return nil
	})
	return p, has, err
}

// KeepLogPlace notes how much of its log is in a pawl.db.
func KeepLogPlace(db *sqlite.Conn, p LogPlace) error {
	value := binary.BigEndian.AppendUint64(make([]byte, 0, logFirstSize), p.Seq)
	value = append(value, p.Sum[:]...)
	value = binary.BigEndian.AppendUint64(value, uint64(p.Spill)) //nolint:gosec // it is not negative
	value = append(value, 0)
	if p.Based {
		value[logPlaceSize-1] = 1
		p.First = [sha256.Size]byte{} // nobody asks any more
	}
	if none := [sha256.Size]byte{}; p.Generation != 0 || p.First != none {
		value = binary.BigEndian.AppendUint64(value, p.Generation)
		if value = binary.BigEndian.AppendUint64(value, p.Anew); p.First != none {
			value = append(value, p.First[:]...)
		}
	}
	_, err := db.Exec(putLogPlace, withCRC(value))
	return err
}

// DropLogPlace makes a pawl.db one that has no log.
func DropLogPlace(db *sqlite.Conn) error {
	_, err := db.Exec(dropLogPlace)
	return err
}
