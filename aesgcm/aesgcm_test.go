package aesgcm

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The vectors of https://c2sp.org/XAES-256-GCM.
func TestVectors(t *testing.T) {
	for _, tt := range []struct {
		key        byte
		data, want string
	}{
		{1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		k, err := newKey(bytes.Repeat([]byte{tt.key}, KeySize))
		require.NoError(t, err)
		nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
		gcm, err := k.forNonce(nonce)
		require.NoError(t, err)
		got := gcm.Seal(nil, nonce[halfNonce:], []byte("XAES-256-GCM"), []byte(tt.data))
		assert.Equal(t, tt.want, hex.EncodeToString(got))
	}
}

func secret(b byte) []byte { return bytes.Repeat([]byte{b}, KeySize) }

func newCodec(t *testing.T, current Key, old ...Key) *Codec {
	t.Helper()
	c, err := New(current, old...)
	require.NoError(t, err)
	return c
}

func TestRoundTrip(t *testing.T) {
	c := newCodec(t, Key{"a", secret(1)})
	for _, plain := range []string{"", "x", strings.Repeat("a secret ", 9_000)} {
		stored, err := c.Encode("record r 1", []byte(plain))
		require.NoError(t, err)
		assert.Len(t, stored, len(plain)+Overhead)
		again, err := c.Encode("record r 1", []byte(plain))
		require.NoError(t, err)
		assert.NotEqual(t, stored, again, "nonces are random")
		got, err := c.Decode("a", "record r 1", stored)
		require.NoError(t, err)
		assert.Equal(t, plain, string(got))
	}
}

// A stored value is bound to its key and its place, and every bit of it counts.
func TestRefusals(t *testing.T) {
	c := newCodec(t, Key{"a", secret(1)}, Key{"b", secret(1)})
	stored, err := c.Encode("record r 1", []byte("plain"))
	require.NoError(t, err)
	for _, tt := range []struct {
		key, place string
		want       error
	}{
		{"a", "record r 2", ErrAuthentication},
		{"a", "record s 1", ErrAuthentication},
		{"b", "record r 1", ErrAuthentication},
		{"c", "record r 1", ErrNoKey},
		{"", "record r 1", ErrNoKey},
	} {
		_, err := c.Decode(tt.key, tt.place, stored)
		require.ErrorIs(t, err, tt.want, "%v", tt)
	}
	for i := range stored {
		stored[i] ^= 1
		_, err := c.Decode("a", "record r 1", stored)
		require.ErrorIs(t, err, ErrAuthentication, "byte %d", i)
		stored[i] ^= 1
	}
	for i := range stored {
		_, err := c.Decode("a", "record r 1", stored[:i])
		require.ErrorIs(t, err, ErrAuthentication, "%d bytes", i)
	}
	_, err = newCodec(t, Key{"a", secret(2)}).Decode("a", "record r 1", stored)
	require.ErrorIs(t, err, ErrAuthentication, "another key of the same id")
}

func TestRotation(t *testing.T) {
	before := newCodec(t, Key{"2026-05", secret(1)})
	stored, err := before.Encode("p", []byte("old"))
	require.NoError(t, err)
	after := newCodec(t, Key{"2026-11", secret(2)}, Key{"2026-05", secret(1)})
	assert.Equal(t, "2026-11", after.KeyID())
	plain, err := after.Decode("2026-05", "p", stored)
	require.NoError(t, err)
	assert.Equal(t, "old", string(plain))
	stored, err = after.Encode("p", []byte("new"))
	require.NoError(t, err)
	_, err = before.Decode("2026-11", "p", stored)
	require.ErrorIs(t, err, ErrNoKey)
}

func TestNewRefuses(t *testing.T) {
	for _, keys := range [][]Key{
		{{"", secret(1)}},
		{{"a b", secret(1)}},
		{{"ä", secret(1)}},
		{{strings.Repeat("a", 65), secret(1)}},
		{{"a", secret(1)[1:]}},
		{{"a", nil}},
		{{"a", secret(1)}, {"a", secret(2)}},
	} {
		_, err := New(keys[0], keys[1:]...)
		require.Error(t, err, "%v", keys)
	}
}

func TestReadKeyFile(t *testing.T) {
	line := func(id string, b byte) string { return id + " " + base64.StdEncoding.EncodeToString(secret(b)) + "\n" }
	tests := []struct{ name, text, want string }{
		{"two keys", "# keys\n\n" + line("new", 2) + line("old", 1), ""},
		{"windows", strings.ReplaceAll(line("new", 2)+line("old", 1), "\n", "\r\n"), ""},
		{"empty", "# nothing\n", "no key in it"},
		{"no id", base64.StdEncoding.EncodeToString(secret(7)), "line 1 is not"},
		{"no base64", line("new", 1) + "old ???", "line 2: its key is not base64"},
		{"short", "new AAAA", "line 1: it has 3 bytes, not 32"},
		{"twice", line("new", 1) + line("new", 2), "line 2: its id comes twice"},
		{"swapped", line("new", 1) + base64.StdEncoding.EncodeToString(secret(7)) + " main", "line 2: its id is not 1 to 64 letters"},
		{"swapped, an id by its form", strings.Repeat("BwcH", 16) + " main", "line 1: it has 3 bytes"},
		{"a key for an id, twice", strings.Repeat("BwcH", 16) + line("", 1) + strings.Repeat("BwcH", 16) + line("", 1), "line 2: its id comes twice"},
	}
	for _, tt := range tests {
		path := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
		c, err := ReadKeyFile(path)
		if tt.want != "" {
			require.ErrorIs(t, err, ErrKeyFile, tt.name)
			require.ErrorContains(t, err, tt.want, tt.name)
			require.NotContains(t, err.Error(), "BwcH", "no key is shown")
			continue
		}
		require.NoError(t, err, tt.name)
		assert.Equal(t, "new", c.KeyID())
		assert.Len(t, c.keys, 2)
	}
}

func TestKeyFileMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes of files say nothing there")
	}
	path := filepath.Join(t.TempDir(), "keys")
	text := "a " + base64.StdEncoding.EncodeToString(secret(1))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	for mode, want := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o620: false, 0o644: false} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := ReadKeyFile(path)
		assert.Equal(t, want, err == nil, "%04o: %v", mode, err)
		if !want {
			require.ErrorIs(t, err, ErrKeyFile)
			require.ErrorContains(t, err, "chmod 600")
		}
	}
	_, err := ReadKeyFile(t.TempDir())
	require.ErrorIs(t, err, ErrKeyFile)
	_, err = ReadKeyFile(path + ".none")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func BenchmarkEncode(b *testing.B) {
	c, err := New(Key{"a", secret(1)})
	require.NoError(b, err)
	plain := make([]byte, 1<<10)
	b.SetBytes(int64(len(plain)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Encode("record order-1 7", plain); err != nil {
			b.Fatal(err)
		}
	}
}
