// Package aesgcm encrypts what an engine stores with AES-256 in Galois counter mode. It is a
// codec for pawl.Options.Codec:
//
//	keys, err := aesgcm.ReadKeyFile("/etc/orders/pawl.keys")
//	engine, err := pawl.Open(ctx, "data", pawl.Options{Codec: keys, Executor: handlers})
//
// A key file has a line per key, an id and 32 bytes in base64:
//
//	# pawl keys. The first one encrypts, the others still decrypt.
//	2026-11 7sJ0mDkqKxO3dXvZ0Jw2p6kq1p0m3yq2vC0c6y8X0bE=
//	2026-05 0b1QmYt0m8a0c8oJ5m0d5mM3YkHq7m0l6C1b2o3p4qU=
//
// To begin to use another key, put it before the others and open the engine again. Values that
// are stored already stay encrypted with the old key, so keep that key until none of them is
// left; docs/keep.md says how to find out.
//
// Each message is encrypted as C2SP XAES-256-GCM has it: under a key of its own, derived
// from the key and a random nonce of 24 bytes, so that the number of messages under one key needs
// no bound. The id of the key and the place, which names the run, are additional data: bytes that
// are put elsewhere do not decrypt. A Codec cannot notice an older state of the same place that
// is put back.
//
// Values alone are encrypted: ids and labels of runs, by which they are found, stay in clear.
package aesgcm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// KeySize is how many bytes a key has.
const KeySize = 32

// Overhead is by how many bytes what is encrypted is longer than what it stands for.
const Overhead = nonceSize + tagSize

const (
	nonceSize = 24
	tagSize   = 16
	halfNonce = nonceSize / 2
)

// A Key is a secret and the name that is stored, in clear, with what it encrypts.
type Key struct {
	ID     string // 1 to 64 letters, digits, dots, hyphens and underscores
	Secret []byte // KeySize random bytes
}

// Conditions that callers test with errors.Is.
var (
	// ErrNoKey says that a Codec has no key of this id. Add the key.
	ErrNoKey = errors.New("there is no key of this id")
	// ErrAuthentication says that bytes do not decrypt: they were encrypted with another
	// key of the same id, for another place, or have changed.
	ErrAuthentication = errors.New("it does not decrypt: another key of this id, another place, or changed bytes")
	// ErrKeyFile says that a key file is not one, or that others than its owner may read it.
	ErrKeyFile = errors.New("no proper key file")
)

// A Codec encrypts with one key, and decrypts with several. It may be used by many
// goroutines.
type Codec struct {
	current string
	keys    map[string]*key
}

// New returns a Codec that encrypts with current, and decrypts with old keys as well. It fails if
// an id is not valid (see Key) or comes twice, or if a secret does not have KeySize bytes.
func New(current Key, old ...Key) (*Codec, error) {
	c := &Codec{keys: map[string]*key{}}
	for _, k := range append([]Key{current}, old...) {
		if err := c.addKey(k); err != nil {
			return nil, fmt.Errorf("key %q: %w", k.ID, err)
		}
	}
	return c, nil
}

// addKey adds a key; the first one encrypts. Its errors show neither the id nor the secret: in a
// file that has them the wrong way round the id is the secret.
func (c *Codec) addKey(k Key) error {
	switch {
	case !isKeyID(k.ID):
		return errors.New("its id is not 1 to 64 letters, digits, dots, hyphens and underscores")
	case len(k.Secret) != KeySize:
		return fmt.Errorf("it has %d bytes, not %d", len(k.Secret), KeySize)
	case c.keys[k.ID] != nil:
		return errors.New("its id comes twice")
	}
	made, err := newKey(k.Secret)
	if err != nil {
		return err
	}
	if len(c.keys) == 0 {
		c.current = k.ID
	}
	c.keys[k.ID] = made
	return nil
}

func isKeyID(id string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_", r)
	}
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, odd)
}

// maxKeyFile bounds a key file, in bytes.
const maxKeyFile = 1 << 16

// ReadKeyFile returns a Codec with the keys of a file: the first one encrypts. It fails with
// ErrKeyFile if it is not a key file, or if its mode lets others than its owner read or write
// it (on Windows the mode is not checked), and with the system's error if it cannot be read. No
// error shows a key.
func ReadKeyFile(path string) (*Codec, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxKeyFile:
		return nil, fmt.Errorf("%w: %s is no regular file of at most %d bytes", ErrKeyFile, path, maxKeyFile)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%w: others than the owner of %s may use it, its mode is %04o: chmod 600 it", ErrKeyFile, path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrKeyFile, path, err)
	}
	return c, nil
}

// parseKeys reads the lines of a key file. Its errors name lines, and quote nothing.
func parseKeys(text []byte) (*Codec, error) {
	c, n := &Codec{keys: map[string]*key{}}, 0
	for line := range bytes.Lines(text) {
		n++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d is not an id and a key", n)
		}
		secret, err := base64.StdEncoding.DecodeString(fields[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: its key is not base64", n)
		}
		if err := c.addKey(Key{ID: fields[0], Secret: secret}); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if len(c.keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return c, nil
}

// KeyID returns the id of the key that encrypts, "" if the Codec is not from New.
func (c *Codec) KeyID() string {
	if c == nil {
		return ""
	}
	return c.current
}

// keyOf returns the key with an id, nil if there is no such key.
func (c *Codec) keyOf(id string) *key {
	if c == nil {
		return nil
	}
	return c.keys[id]
}

// Encode encrypts plain for a place. It fails only if the Codec is not from New, with
// ErrNoKey.
func (c *Codec) Encode(place string, plain []byte) ([]byte, error) {
	k := c.keyOf(c.KeyID())
	if k == nil {
		return nil, ErrNoKey
	}
	out := make([]byte, nonceSize, len(plain)+Overhead)
	_, _ = rand.Read(out) // it never fails
	gcm, err := k.forNonce(out)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(out, out[halfNonce:], plain, additionalData(c.current, place)), nil
}

// Decode decrypts what Encode returned for a place. It fails with ErrNoKey or
// ErrAuthentication.
func (c *Codec) Decode(keyID, place string, stored []byte) ([]byte, error) {
	k := c.keyOf(keyID)
	if k == nil {
		return nil, ErrNoKey
	}
	if len(stored) < Overhead {
		return nil, ErrAuthentication
	}
	gcm, err := k.forNonce(stored)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, stored[halfNonce:nonceSize], stored[nonceSize:], additionalData(keyID, place))
	if err != nil {
		return nil, ErrAuthentication
	}
	return plain, nil
}

// additionalData is what the bytes are bound to. Ids have no blanks.
func additionalData(keyID, place string) []byte { return []byte("pawl " + keyID + " " + place) }

// A key derives the keys of messages.
type key struct {
	block  cipher.Block
	subkey [aes.BlockSize]byte // K1 of CMAC
}

func newKey(secret []byte) (*key, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	k := &key{block: block}
	block.Encrypt(k.subkey[:], k.subkey[:])
	carry := byte(0)
	for i := len(k.subkey) - 1; i >= 0; i-- {
		k.subkey[i], carry = k.subkey[i]<<1|carry, k.subkey[i]>>7
	}
	k.subkey[len(k.subkey)-1] ^= carry * 0x87
	return k, nil
}

// forNonce returns the cipher for the nonce that bytes begin with. Its key is two blocks of CMAC
// in counter mode (NIST SP 800-108r1) over the first half of the nonce; the second half is the
// nonce of GCM.
func (k *key) forNonce(nonce []byte) (cipher.AEAD, error) {
	var derived [KeySize]byte
	for i := range 2 {
		block := derived[i*aes.BlockSize:][:aes.BlockSize]
		copy(block, []byte{0, byte(i + 1), 'X', 0})
		copy(block[4:], nonce[:halfNonce])
		for j := range block {
			block[j] ^= k.subkey[j]
		}
		k.block.Encrypt(block, block)
	}
	block, err := aes.NewCipher(derived[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
