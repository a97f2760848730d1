package document

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A directive can make a short text long. It is found wherever the library takes it for one.
func TestDirectivesAreRefused(t *testing.T) {
	texts := Reader{Noun: "definition", Depth: 10}
	for _, text := range []string{
		"%TAG ! tag:x\n---\na: 1\n", "%YAML 1.2\n---\na: 1\n", "\ufeff%TAG ! tag:x\n---\na: 1\n", "# c\n%TAG ! tag:x\n---\na: 1\n", "\r%TAG ! tag:x\r---\ra: 1\r",
		"\u2028%TAG ! tag:x\n---\na: 1\n", "\u0085%TAG ! tag:x\n---\na: 1\n", "a: 1\n...\n%TAG ! tag:x\n---\na: 1\n", "a: 1\n%TAG ! tag:x\n---\na: 1\n",
	} {
		_, err := texts.ReadYAML([]byte(text))
		require.ErrorContains(t, err, "a directive: a definition has none", "%q", text)
		_, err = texts.ReadYAMLStream([]byte(text))
		require.ErrorContains(t, err, "a directive", "%q", text)
	}
	_, err := texts.ReadYAML([]byte("\xff\xfe%\x00T\x00"))
	require.ErrorContains(t, err, "UTF-16")
	_, err = texts.ReadYAML([]byte("a: 1\nb: 2\n%TAG ! tag:x\n"))
	var at *SyntaxError
	require.ErrorAs(t, err, &at)
	assert.Equal(t, 3, at.Line)

	e, err := texts.ReadYAML([]byte("a: 100%\nb: |\n  %TAG\nc: '%x' # %\n"))
	require.NoError(t, err)
	assert.Len(t, e.Members, 3)
}

// A value with a long tag stands for no more than its text where aliases repeat it.
func TestLongTagsAreNotRepeated(t *testing.T) {
	texts := Reader{Noun: "definition", Depth: 10}
	tag := strings.Repeat("x", 10_000)
	for _, v := range []string{"v", "[1]", "{a: 1}"} {
		e, err := texts.ReadYAML([]byte("- &a !<" + tag + "> " + v + "\n" + strings.Repeat("- *a\n", 1_000)))
		require.NoError(t, err)
		require.Len(t, e.Items, 1_001)
		for _, item := range e.Items {
			require.Equal(t, Invalid, item.Kind)
			require.Equal(t, "a value with the tag "+tag[:64]+"...", item.Text)
		}
	}
}

// The line of an error is that of the text, and a question mark that the library cannot read is told.
func TestWhereItCannotBeRead(t *testing.T) {
	for text, want := range map[string]SyntaxError{
		"x: 1\na:\n  - {id: a, message: ok?, quorum: 2}\n": {Line: 3, Column: 22, Message: `a text with a question mark needs quotes within {} and []: "ok?"`},
		"x: 1\na: [ok?]\n":                    {Line: 2, Column: 5, Message: `a text with a question mark needs quotes within {} and []: "ok?"`},
		"x: 1\na: {b: is it so? yes, c: 1}\n": {Line: 2, Column: 8, Message: `a text with a question mark needs quotes within {} and []: "is it so? yes"`},
		"x: 1\na: [1, 2\nb: 3\n":              {Line: 2, Message: "did not find expected ',' or ']'"},
		"a: [\nb: 1\n":                        {Line: 2, Message: "did not find expected ',' or ']'"},
		"a: [\n":                              {Line: 1, Message: "did not find expected node content"},
		"x: 1\n- a\n":                         {Line: 2, Message: "did not find expected key"},
		"x: 1\n  y: 2\n":                      {Line: 2, Message: "mapping values are not allowed in this context"},
	} {
		_, err := Reader{Noun: "definition", Depth: 20}.ReadYAML([]byte(text))
		var at *SyntaxError
		require.ErrorAs(t, err, &at, text)
		at.Err = nil
		require.Equal(t, want, *at, text)
	}
	for _, text := range []string{"a: {b: \"ok?\"}", "a: ok?\nb: 1", "a: {b: 'is it? yes', c: [1]}"} {
		_, err := Reader{Noun: "definition", Depth: 20}.ReadYAML([]byte(text))
		require.NoError(t, err, text)
	}
}
