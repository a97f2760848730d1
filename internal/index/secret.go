package index

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// SecretSize is how many bytes the secret of a directory has.
const SecretSize = 32

// ErrDamagedSecret says that the secret is not what was written.
var ErrDamagedSecret = errors.New("the secret in its table meta is damaged")

const (
	getSecret = `SELECT key, value FROM meta WHERE key <> 'epoch'`
	putSecret = `INSERT INTO meta (key, value) VALUES ('secret', ?) ON CONFLICT DO UPDATE SET value = excluded.value`
)

// sealSecret returns a secret behind its CRC-32C: meta has no column for that.
func sealSecret(secret []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, crc32.Checksum(secret, castagnoli)), secret...)
}

const secretCRCSize = 4

// ReadSecret returns the secret of a directory, nil if it has none yet. A row of another
// name was the secret's: nobody writes others.
func ReadSecret(db *sqlite.Conn) (secret []byte, err error) {
	err = db.Each(getSecret, func(r *sqlite.Row) error {
		value := r.Bytes(1)
		if r.Text(0) != "secret" || len(value) != secretCRCSize+SecretSize || !bytes.Equal(sealSecret(value[secretCRCSize:]), value) {
			return ErrDamagedSecret
		}
		secret = value[secretCRCSize:]
		return nil
	})
	return secret, err
}

// NewSecret draws a secret and keeps it.
func NewSecret(db *sqlite.Conn) ([]byte, error) {
	secret := make([]byte, SecretSize)
	_, _ = rand.Read(secret) // it never fails
	return secret, KeepSecret(db, secret)
}

// KeepSecret makes a secret that of the directory.
func KeepSecret(db *sqlite.Conn, secret []byte) error {
	_, err := db.Exec(putSecret, sealSecret(secret))
	return err
}
