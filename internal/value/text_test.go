package value

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// BenchmarkLargeRaw takes over JSON texts of the host with one large string.
func BenchmarkLargeRaw(b *testing.B) {
	for name, s := range map[string]string{
		"plain": strings.Repeat("the quick brown fox ", 50_000), "lines": strings.Repeat("the quick \"brown\" fox jumps over the lazy dog\n", 20_000), "beyond ASCII": strings.Repeat("größer als ", 80_000),
	} {
		raw := json.RawMessage(Encode(map[string]any{"text": s}))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				_, err := Take(raw, Limits{Bytes: -1})
				require.NoError(b, err)
			}
		})
	}
}

// readSlowly reads a string from behind its opening quote byte by byte, as the grammar says. It returns the bytes up to the closing quote, and
// where the text cannot be one of JSON, -1 if it is.
func readSlowly(data []byte) (raw []byte, plain bool, wrong int) {
	plain = true
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			return data[:i], plain, -1
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			return nil, false, i
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	return nil, false, len(data)
}

// unquoteSlowly returns what a string spells, byte by byte.
func unquoteSlowly(s *Scanner, raw []byte) (string, bool) {
	if !utf8.Valid(raw) {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			b.WriteByte(raw[i])
			i++
			continue
		}
		r, n, problem := s.unescapeRune(raw[i:])
		if problem != "" {
			return "", false
		}
		b.WriteRune(r)
		i += n
	}
	return b.String(), true
}

// FuzzText holds the scanner of strings, which takes many bytes at a time, equal to one that takes each, and to encoding/json: values, classes of
// errors and their places, and the canonical bytes.
func FuzzText(f *testing.F) {
	for _, s := range []string{`"`, `abcdefgh"`, `abcdefg\"h" x`, `größer\u00e9"`, `\ud83d\ude00 and on"`, `\ud83d"`, "\xff\"", "abcdefgh\x01\"", `\`, `1234567\`, `\u12"`, `12345678\n12345678\t"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text := append([]byte{'"'}, data...)
		s := NewScanner(text, DefaultDepth)
		got, err := s.Text()
		raw, plain, wrong := readSlowly(data)
		if wrong >= 0 {
			require.NotNil(t, err)
			require.Equal(t, CodeJSON, err.Code)
			require.Equal(t, wrong+1, err.Offset)
			return
		}
		want, good := unquoteSlowly(&s, raw)
		if plain {
			want, good = string(raw), true
		}
		whole := text[:len(raw)+2]
		if !good {
			require.NotNil(t, err)
			require.Equal(t, CodeString, err.Code)
			require.GreaterOrEqual(t, err.Offset, 1)
			require.LessOrEqual(t, err.Offset, len(raw)+1)
			return
		}
		require.Nil(t, err)
		require.Equal(t, want, got)
		require.Equal(t, len(whole), s.Offset())
		var theirs string
		require.NoError(t, json.Unmarshal(whole, &theirs))
		require.Equal(t, theirs, got)

		taken, failed := Take(json.RawMessage(whole), Limits{Bytes: -1})
		require.NoError(t, failed)
		require.Equal(t, got, taken.Value)
		canonical := Encode(taken.Value)
		require.Equal(t, len(canonical), taken.Measure.Size)
		require.Equal(t, string(canonical) == string(whole), !s.free)
		require.NoError(t, json.Unmarshal(canonical, &theirs))
		require.Equal(t, got, theirs)
	})
}
