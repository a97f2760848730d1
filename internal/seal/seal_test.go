package seal

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errKey = errors.New("no such key")

// A toggler is a codec that inverts all bytes, and stores its place in front of them.
type toggler string

func (c toggler) KeyID() string { return string(c) }

func (c toggler) Encode(place string, plain []byte) ([]byte, error) {
	return append([]byte(place+"|"), invert(plain)...), nil
}

func (c toggler) Decode(keyID, place string, stored []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(stored, []byte(place+"|"))
	if keyID != string(c) || !ok {
		return nil, errKey
	}
	return invert(rest), nil
}

func invert(in []byte) []byte {
	out := make([]byte, len(in))
	for i, b := range in {
		out[i] = ^b
	}
	return out
}

func sealer(t testing.TB, c Codec) Sealer {
	t.Helper()
	s, err := NewSealer(c)
	require.NoError(t, err)
	return s
}

func pattern(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i ^ i>>8)
	}
	return out
}

func TestText(t *testing.T) {
	on := sealer(t, toggler("k1"))
	for _, plain := range []string{"", `{"a":1}`, strings.Repeat("x", 100_000)} {
		text, err := on.SealText("output r", plain)
		require.NoError(t, err)
		require.True(t, IsSealed(text))
		assert.Equal(t, "k1", KeyOf(text))
		got, err := on.OpenText("output r", text)
		require.NoError(t, err)
		assert.Equal(t, plain, got)

		_, err = on.OpenText("output s", text)
		require.ErrorIs(t, err, ErrSealed)
		require.ErrorIs(t, err, errKey)
		_, err = Sealer{}.OpenText("output r", text)
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, Error{KeyID: "k1", Place: "output r"}, *e)
		assert.ErrorContains(t, err, "Options.Codec")
	}
	for _, text := range []string{"\x01", "\x01k1", "\x01k1:?", "\x01k1:AAAA"} {
		_, err := on.OpenText("output r", text)
		require.ErrorIs(t, err, ErrSealed, "%q", text)
	}
	for _, s := range []Sealer{{}, on} {
		got, err := s.OpenText("output r", `{"a":1}`)
		require.NoError(t, err, "it was stored before there was a codec")
		assert.JSONEq(t, `{"a":1}`, got)
	}
	plain, err := Sealer{}.SealText("output r", "x")
	require.NoError(t, err)
	assert.Equal(t, "x", plain)
}

func TestKeyIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "2026-11_x.Z": true, strings.Repeat("a", 64): true,
		"": false, "a b": false, "a:b": false, "ä": false, "a\n": false, "@": false, "[": false, strings.Repeat("a", 65): false,
	} {
		assert.Equal(t, want, IsKeyID(id), "%q", id)
		_, err := NewSealer(toggler(id))
		assert.Equal(t, want, err == nil, "%q", id)
	}
}

var sizes = []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 5*chunkSize + 7}

func TestBytes(t *testing.T) {
	on := sealer(t, toggler("k1"))
	for _, n := range sizes {
		plain := pattern(n)
		data, err := on.SealBytes("file f", plain)
		require.NoError(t, err)
		got, err := on.OpenBytes("file f", data)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(plain, got))
		got, err = on.Salvage("file f", data)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(plain, got))

		for name, s := range map[string]Sealer{"no codec": {}, "another key": sealer(t, toggler("k2"))} {
			_, err = s.OpenBytes("file f", data)
			var e *Error
			require.ErrorAs(t, err, &e, name)
			assert.Equal(t, "k1", e.KeyID)
			_, err = s.Salvage("file f", data)
			require.ErrorIs(t, err, ErrSealed, name)
		}
		_, err = on.OpenBytes("file g", data)
		require.ErrorIs(t, err, ErrSealed)
	}
	for _, plain := range []string{"", "SQLite format 3\x00", magic, magic + strings.Repeat("\xff", 300)} {
		got, err := on.OpenBytes("file f", []byte(plain))
		require.NoError(t, err, "it is no sealed stream")
		assert.Equal(t, plain, string(got))
	}
	got, err := Sealer{}.SealBytes("file f", []byte("plain"))
	require.NoError(t, err)
	assert.Equal(t, "plain", string(got))
}

// Streams give the same, whatever the sizes of reads and writes.
func TestStreams(t *testing.T) {
	on := sealer(t, toggler("k1"))
	for _, n := range sizes {
		plain := pattern(n)
		file := &memory{}
		w, err := on.NewWriter("blob b", file)
		require.NoError(t, err)
		_, err = io.Copy(struct{ io.Writer }{w}, iotest.OneByteReader(bytes.NewReader(plain)))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		r, err := on.NewReader("blob b", iotest.HalfReader(bytes.NewReader(file.bytes)))
		require.NoError(t, err)
		assert.Equal(t, int64(n), r.Size)
		require.NoError(t, iotest.TestReader(r, plain))
	}
}

// Damage is told from a key that is missing, with the key and without. It costs the
// chunk that it is in.
func TestDamage(t *testing.T) {
	on := sealer(t, toggler("k1"))
	plain := pattern(3*chunkSize + 5)
	data, err := on.SealBytes("file f", plain)
	require.NoError(t, err)
	first := keyAt + 1 + len("k1")
	for _, at := range []int{nameAt, keyAt + 1, first, first + 1000, len(data) / 2, len(data) - 1} {
		changed := bytes.Clone(data)
		changed[at] ^= 4
		_, err := Sealer{}.OpenBytes("file f", changed)
		require.ErrorIs(t, err, ErrChanged, "byte %d", at)
	}
	for n := first; n < len(data); n += 997 {
		_, err := on.OpenBytes("file f", data[:n])
		require.ErrorIs(t, err, ErrChanged)
		_, err = on.OpenBytes("file f", append(bytes.Clone(data), data[:n]...))
		require.ErrorIs(t, err, ErrChanged)
	}
	half := bytes.Index(data, []byte(" 1|")) // in the second chunk
	changed := bytes.Clone(data)
	changed[half] ^= 4
	_, err = on.OpenBytes("file f", changed)
	require.ErrorIs(t, err, ErrChanged)
	got, err := on.Salvage("file f", changed)
	require.NoError(t, err)
	want := bytes.Clone(plain)
	clear(want[chunkSize : 2*chunkSize])
	assert.True(t, bytes.Equal(want, got))
	_, err = Sealer{}.Salvage("file f", changed)
	require.ErrorIs(t, err, ErrChanged)
}

// A codec that fails makes sealing fail.
func TestFailingCodec(t *testing.T) {
	s := sealer(t, failing{"k1"})
	_, err := s.SealText("output r", "x")
	require.ErrorIs(t, err, errKey)
	_, err = s.SealBytes("file f", pattern(2*chunkSize))
	require.ErrorIs(t, err, errKey)
}

type failing struct{ toggler }

func (failing) Encode(string, []byte) ([]byte, error) { return nil, errKey }

// A salvage without the key says which one is missing, also for damaged data, unless that key has
// opened something else.
func TestSalvageTellsTheWatch(t *testing.T) {
	on := sealer(t, toggler("k1"))
	data, err := on.SealBytes("file f", pattern(2*chunkSize))
	require.NoError(t, err)
	sound, err := on.SealText("output r", "x")
	require.NoError(t, err)
	changed := bytes.Clone(data)
	changed[len(changed)/2] ^= 4
	for name, damaged := range map[string][]byte{"changed": changed, "cut short": data[:len(data)/2]} {
		var w Watch
		_, err = Sealer{}.Watched(&w).Salvage("file f", damaged)
		require.ErrorIs(t, err, ErrChanged, name)
		require.Contains(t, w.Missing(), "k1", name)
		require.ErrorIs(t, w.Missing()["k1"], ErrSealed)
		require.ErrorIs(t, w.Missing()["k1"], ErrChanged)

		_, err = on.Watched(&w).Salvage("file g", damaged)
		require.ErrorIs(t, err, ErrChanged, "no chunk is of this place")
		_, err = on.Watched(&w).OpenText("output r", sound)
		require.NoError(t, err)
		require.Empty(t, w.Missing(), name)
	}
}

// BenchmarkNoCodec is what the record of a step pays where there is no codec.
func BenchmarkNoCodec(b *testing.B) {
	s := sealer(b, nil)
	text := strings.Repeat("x", 500)
	b.ReportAllocs()
	for b.Loop() {
		if s.IsOn() {
			b.Fatal("it has none")
		}
		if _, err := s.OpenText("record order-1 7", text); err != nil {
			b.Fatal(err)
		}
	}
}
