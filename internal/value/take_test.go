package value_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/value"
)

// requireText takes a JSON text, in a list that is long enough for its text to be kept: it is kept exactly if it is canonical.
func requireText(t require.TestingT, data []byte) {
	list := []byte(`["` + strings.Repeat("x", 1<<10) + `",` + string(data) + `]`)
	want, err := value.Decode(list, value.Limits{Bytes: -1, Depth: 2 * value.DefaultDepth})
	require.NoError(t, err)
	given := json.RawMessage(bytes.Clone(list))
	taken, err := value.Take(given, value.Limits{Bytes: -1, Depth: 2 * value.DefaultDepth})
	require.NoError(t, err)
	clear(given) // it is the host's
	require.True(t, value.Equal(want, taken.Value))
	require.Equal(t, value.MeasureOf(want), taken.Measure)
	canonical := value.Encode(want)
	if bytes.Equal(list, canonical) {
		require.Equal(t, string(list), string(taken.Text.JSON))
	} else {
		require.Nil(t, taken.Text.JSON, "%s", data)
	}
	require.Equal(t, canonical, taken.Canonical())
	require.Equal(t, value.Text{JSON: canonical, Hash: value.Hash(want)}, value.TextOf(taken.Value, taken.Text))
}

// A speller writes a model value in one of the ways in which JSON may spell it.
type speller struct {
	t *rapid.T
	b bytes.Buffer
}

// drawChance reports whether something rare is to be done.
func (s *speller) drawChance(what string) bool { return rapid.IntRange(0, 19).Draw(s.t, what) == 7 }

func (s *speller) writeSpace() {
	if s.drawChance("space") {
		s.b.WriteString(rapid.SampledFrom([]string{" ", "\n", "\t", "\r\n"}).Draw(s.t, "blank"))
	}
}

func (s *speller) writeText(text string) {
	s.b.WriteByte('"')
	for _, r := range text {
		canonical := value.Encode(string(r))
		switch {
		case r <= math.MaxUint16 && s.drawChance("escaped"):
			fmt.Fprintf(&s.b, rapid.SampledFrom([]string{"\\u%04x", "\\u%04X"}).Draw(s.t, "hex"), r)
		case r == '/' && s.drawChance("slash"):
			s.b.WriteString(`\/`)
		default:
			s.b.Write(canonical[1 : len(canonical)-1])
		}
	}
	s.b.WriteByte('"')
}

func (s *speller) writeNumber(v any) {
	text := string(value.Encode(v))
	if s.drawChance("exponent") && !strings.Contains(text, "e") {
		text += rapid.SampledFrom([]string{"e0", "E0", "e+0", "e-0"}).Draw(s.t, "e")
	} else if s.drawChance("zero") && strings.Contains(text, ".") && !strings.Contains(text, "e") {
		text += "0"
	}
	s.b.WriteString(text)
}

func (s *speller) writeValue(v any) {
	s.writeSpace()
	switch v := v.(type) {
	case string:
		s.writeText(v)
	case int64, float64:
		s.writeNumber(v)
	case []any:
		s.b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				s.b.WriteByte(',')
			}
			s.writeValue(e)
		}
		s.writeSpace()
		s.b.WriteByte(']')
	case map[string]any:
		s.writeObject(v)
	default:
		s.b.Write(value.Encode(v))
	}
	s.writeSpace()
}

func (s *speller) writeObject(m map[string]any) {
	keys := slices.Sorted(maps.Keys(m))
	if s.drawChance("order") {
		keys = rapid.Permutation(keys).Draw(s.t, "keys")
	}
	s.b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			s.b.WriteByte(',')
		}
		s.writeSpace()
		s.writeText(k)
		s.writeSpace()
		s.b.WriteByte(':')
		s.writeValue(m[k])
	}
	s.b.WriteByte('}')
}

// A text that the host gives is kept exactly if it is the canonical one, however else it may be spelled.
func TestTakeKeepsCanonicalText(t *testing.T) {
	kept, spelled := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		v := model().Draw(t, "value")
		s := speller{t: t}
		s.writeValue(v)
		requireText(t, s.b.Bytes())
		if spelled++; bytes.Equal(s.b.Bytes(), value.Encode(v)) {
			kept++
		}
	})
	require.Positive(t, kept)
	require.Less(t, kept, spelled)
	for _, text := range []string{
		`-0`, `0`, `1.0`, `1e2`, `1E-7`, `1e-7`, `9007199254740992`, `9007199254740993.0`, `1e300`, `"\u001f"`, `"\u001F"`, `"\n"`, `"\u000a"`, `"\/"`, `"/"`, "\"\u2028\"",
		`{"a":1,"b":2}`, `{"b":1,"a":2}`, `{"a\u0062":1}`, `{"$blob":1}`, `{"\u0024blob":1}`, `[[],[[{}]]]`, ` 1`, `{"a" :1}`,
	} {
		if _, err := value.Decode([]byte(text), value.Limits{}); err == nil {
			requireText(t, []byte(text))
		}
	}
}

// The JSON of a struct is kept as well, and one in the midst of another value is not.
func TestTakeKeepsTextOfTheWhole(t *testing.T) {
	long := strings.Repeat("x", 2<<10)
	for _, tt := range []struct {
		v    any
		kept bool
	}{
		{struct{ A, B string }{long, "b"}, true},
		{struct{ B, A string }{long, "a"}, false},
		{&struct{ A string }{long}, true},
		{json.RawMessage(`"` + long + `"`), true},
		{json.RawMessage(`"` + long[:100] + `"`), false},
		{map[string]any{"a": json.RawMessage(`"` + long + `"`)}, false},
		{[]any{json.RawMessage(`"` + long + `"`)}, false},
		{long, false},
	} {
		taken, err := value.Take(tt.v, value.Limits{})
		require.NoError(t, err)
		require.Equal(t, tt.kept, taken.Text.JSON != nil, "%.40v", tt.v)
		require.Equal(t, value.Encode(taken.Value), taken.Canonical())
	}
}

// An onlyReader has no other methods, and counts how often it was closed.
type onlyReader struct {
	io.Reader
	closed int
}

func (r *onlyReader) Close() error {
	r.closed++
	return errors.New("closed badly")
}

// A sayingReader is a reader that has a text of its own.
type sayingReader struct{ io.Reader }

func (sayingReader) MarshalText() ([]byte, error) { return []byte("said"), nil }

func TestReadAll(t *testing.T) {
	r := &onlyReader{Reader: strings.NewReader(" {\"b\": 1}\n\n")}
	read, err := value.ReadAll(r, 100)
	require.NoError(t, err)
	require.Equal(t, json.RawMessage(` {"b": 1}`), read)
	require.Equal(t, 1, r.closed)

	for _, v := range []any{nil, 7, "text", json.RawMessage("1"), (*bytes.Buffer)(nil), map[string]any{}, sayingReader{strings.NewReader("1")}} {
		read, err := value.ReadAll(v, 100)
		require.NoError(t, err)
		require.Equal(t, v, read)
	}

	read, err = value.ReadAll(strings.NewReader(" \n"), 100)
	require.NoError(t, err)
	_, err = value.Take(read, value.Limits{})
	require.ErrorContains(t, err, "end of text")

	full := strings.Repeat("x", 98)
	_, err = value.ReadAll(strings.NewReader(`"`+full+`"`), 100)
	require.NoError(t, err)
	r = &onlyReader{Reader: strings.NewReader(`"` + full + `x"`)}
	_, err = value.ReadAll(r, 100)
	var wrong *value.Error
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, value.LimitBytes, wrong.Limit)
	require.Equal(t, 1, r.closed)

	broken := errors.New("line cut")
	_, err = value.ReadAll(iotest.ErrReader(broken), 100)
	require.ErrorIs(t, err, broken)
	require.NotErrorAs(t, err, new(*value.Error))

	_, err = value.Normalize(map[string]any{"a": strings.NewReader("1")}, value.Limits{})
	require.EqualError(t, err, "$.a: *strings.Reader is a reader: give what it reads")
	_, err = value.Normalize([]bytes.Buffer{*bytes.NewBufferString("1")}, value.Limits{})
	require.EqualError(t, err, "$[0]: bytes.Buffer is a reader: give what it reads")
	text, err := value.Normalize(sayingReader{strings.NewReader("1")}, value.Limits{})
	require.NoError(t, err)
	require.Equal(t, "said", text)
}
