package index

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// SecretSize is how many bytes the secret of a directory has.
const SecretSize = 32

// ErrDamagedSecret says that the secret is not what was written.
var ErrDamagedSecret = errors.New("the secret in its table meta is damaged")

// ErrNoSecret says that a part of a pawl.db has no secret.
var ErrNoSecret = errors.New("there is none")

const (
	getSecret = `SELECT key, value FROM meta WHERE key NOT IN ('epoch', 'sealed', 'log', 'redo')`
	putSecret = `INSERT INTO meta (key, value) VALUES ('secret', ?) ON CONFLICT DO UPDATE SET value = excluded.value`
	getMark   = `SELECT value FROM meta WHERE key = 'sealed'`
	putMark   = `INSERT INTO meta (key, value) VALUES ('sealed', ?) ON CONFLICT DO UPDATE SET value = excluded.value`
)

// withCRC returns a value behind its CRC-32C: meta has no column for that.
func withCRC(secret []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, crc32.Checksum(secret, castagnoli)), secret...)
}

const metaCRCSize = 4

// ReadSecret returns the secret of a directory, nil if it has none yet. A row of another
// name was the secret's: nobody writes others.
func ReadSecret(db *sqlite.Conn) (secret []byte, err error) {
	err = db.Each(getSecret, func(r *sqlite.Row) error {
		value := r.Bytes(1)
		if r.Text(0) != "secret" || len(value) != metaCRCSize+SecretSize || !bytes.Equal(withCRC(value[metaCRCSize:]), value) {
			return ErrDamagedSecret
		}
		secret = value[metaCRCSize:]
		return nil
	})
	return secret, err
}

// FindSecret returns the secret in the first pages of a pawl.db. It fails with ErrNoSecret.
func FindSecret(data []byte) (secret []byte, err error) {
	image := slices.Clone(data)
	if len(image) < PageSize {
		return nil, ErrNoSecret
	}
	image[18], image[19] = 1, 1                                         // not with a write-ahead log, which a database in memory cannot have
	binary.BigEndian.PutUint32(image[28:], uint32(len(image)/PageSize)) //nolint:gosec // the caller has few
	db, err := sqlite.Open(sqlite.Memory, `PRAGMA trusted_schema=OFF`)
	if err != nil {
		return nil, err
	}
	if err = db.Deserialize(image); err == nil {
		secret, err = ReadSecret(db)
	}
	if err == nil && secret == nil {
		err = ErrNoSecret
	}
	return secret, errors.Join(err, db.Close())
}

// NewSecret draws a secret and keeps it.
func NewSecret(db *sqlite.Conn) ([]byte, error) {
	secret := make([]byte, SecretSize)
	_, _ = rand.Read(secret) // it never fails
	return secret, KeepSecret(db, secret)
}

// KeepSecret makes a secret that of the directory.
func KeepSecret(db *sqlite.Conn, secret []byte) error {
	_, err := db.Exec(putSecret, withCRC(secret))
	return err
}

// ReadSealMark returns the mark of a directory with sealed values, "" if it has none. It
// fails with ErrDamagedSecret.
func ReadSealMark(db *sqlite.Conn) (mark string, err error) {
	_, err = db.One(getMark, func(r *sqlite.Row) error {
		value := r.Bytes(0)
		if len(value) < metaCRCSize || !bytes.Equal(withCRC(value[metaCRCSize:]), value) {
			return ErrDamagedSecret
		}
		mark = string(value[metaCRCSize:])
		return nil
	})
	return mark, err
}

// KeepSealMark makes a mark that of the directory.
func KeepSealMark(db *sqlite.Conn, mark string) error {
	_, err := db.Exec(putMark, withCRC([]byte(mark)))
	return err
}
