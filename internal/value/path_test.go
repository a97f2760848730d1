package value_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/value"
)

func TestParsePath(t *testing.T) {
	for text, want := range map[string]value.Path{
		"state":             {Segments: []string{"state"}},
		"state.a.b_2":       {Segments: []string{"state", "a", "b_2"}},
		"state.log[]":       {Segments: []string{"state", "log"}, Append: true},
		`state["a.b"].c`:    {Segments: []string{"state", "a.b", "c"}},
		`state["a]\"é"][]`:  {Segments: []string{"state", `a]"é`}, Append: true},
		`["0"]["\u0041"].b`: {Segments: []string{"0", "A", "b"}},
		`state[""]`:         {Segments: []string{"state", ""}},
	} {
		got, err := value.ParsePath(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
		again, err := value.ParsePath(got.String())
		require.NoError(t, err, text)
		assert.True(t, got.Equal(again), text)
	}
}

func TestParsePathRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":            `a key is missing at byte 0`,
		"[]":          `[] before the end of the path at byte 0`,
		"a.":          `a key is missing at byte 2`,
		"a..b":        `'.' where a key was expected at byte 2`,
		".a":          `'.' where a key was expected at byte 0`,
		"a.0":         `'0' where a key was expected at byte 2`,
		"a[0]":        `[ without a quoted key: write ["key"] at byte 1`,
		"a[].b":       `[] before the end of the path at byte 1`,
		"a[][]":       `[] before the end of the path at byte 1`,
		"a-b":         `'-' in a bare key: write ["key"] at byte 1`,
		"a.é":         `'é' where a key was expected at byte 2`,
		"a b":         `' ' in a bare key: write ["key"] at byte 1`,
		`a["b"`:       `end of text where ] was expected at byte 5`,
		`a["b]`:       `string without an end at byte 5`,
		`a["\ud800"]`: `half of a surrogate pair at byte 3`,
		`a["b"]c`:     `'c' in a bare key: write ["key"] at byte 6`,
	} {
		_, err := value.ParsePath(text)
		assert.EqualError(t, err, want, text)
		var e *value.Error
		if assert.ErrorAs(t, err, &e) {
			assert.Equal(t, value.CodePath, e.Code)
		}
	}
	_, err := value.ParsePath("a" + strings.Repeat(".a", 127))
	assert.NoError(t, err)
	_, err = value.ParsePath("a" + strings.Repeat(".a", 128))
	assert.ErrorContains(t, err, "more than 128 segments")
	_, err = value.ParsePath(strings.Repeat("a", 16<<10+1))
	assert.ErrorContains(t, err, "longer than 16384")
}

func TestPointer(t *testing.T) {
	for pointer, segments := range map[string][]string{
		"":              nil,
		"/":             {""},
		"/a/b":          {"a", "b"},
		"/a~1b/~0/~01x": {"a/b", "~", "~1x"},
		"//":            {"", ""},
		"/\x00/é":       {"\x00", "é"},
	} {
		p, err := value.ParsePointer(pointer)
		require.NoError(t, err)
		assert.Equal(t, segments, p)
		assert.Equal(t, pointer, value.Pointer(p))
	}
	for _, bad := range []string{"a", "/~", "/a~2", "/a/~x"} {
		_, err := value.ParsePointer(bad)
		assert.Error(t, err, bad)
	}
}

func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"state.a", "state.a", true},
		{"state.a", "state.b", false},
		{"state.a", "state.a.b", true},
		{"state.a", "state.ab", false},
		{"state", "state.a", true},
		{"state.a", "output.a", false},
		{"state.log[]", "state.log[]", false},
		{"state.log[]", "state.log", true},
		{"state.log[]", "state.log.x", true},
		{"state.log[]", "state", true},
		{"state.log[]", "state.log.x[]", true},
		{`state["a"]`, "state.a", true},
	} {
		a, err := value.ParsePath(c.a)
		require.NoError(t, err)
		b, err := value.ParsePath(c.b)
		require.NoError(t, err)
		assert.Equal(t, c.want, value.Overlaps(a, b), "%s, %s", a, b)
		assert.Equal(t, c.want, value.Overlaps(b, a), "%s, %s", b, a)
	}
}

func TestPathRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := value.Path{
			Segments: rapid.SliceOfN(rapid.String(), 1, 6).Draw(t, "segments"),
			Append:   rapid.Bool().Draw(t, "append"),
		}
		got, err := value.ParsePath(p.String())
		require.NoError(t, err)
		require.True(t, p.Equal(got))
		segments, err := value.ParsePointer(value.Pointer(p.Segments))
		require.NoError(t, err)
		require.Equal(t, p.Segments, segments)
	})
}

func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"state.a.b", `state["a.b"][]`, "a[]", "a..b", `["\ud83d\ude00"]`, "a[0]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := value.ParsePath(s)
		if err != nil {
			return
		}
		again, err := value.ParsePath(p.String())
		require.NoError(t, err)
		require.True(t, p.Equal(again))
		require.Equal(t, p.String(), again.String())
	})
}
