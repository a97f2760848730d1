package portable

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// withBlobs returns an export of a run without records, and of blobs.
func withBlobs(t *testing.T, blobs ...[]byte) []byte {
	t.Helper()
	var text bytes.Buffer
	w, err := NewWriter(&text, "r")
	require.NoError(t, err)
	require.NoError(t, w.WriteRun(&Run{ID: "r", Hash: "h", Definition: json.RawMessage(`{}`)}))
	for i, b := range blobs {
		require.NoError(t, w.WriteBlob(string(rune('a'+i)), bytes.NewReader(b)))
	}
	require.NoError(t, w.Close())
	return text.Bytes()
}

// Blobs are read as they were written, at every size around that of a piece, however much is read of each; a redacted export has no
// blobs.
func TestBlobs(t *testing.T) {
	var blobs [][]byte
	for _, n := range []int{0, 1, pieceSize - 1, pieceSize, pieceSize + 1, 3 * pieceSize} {
		blobs = append(blobs, bytes.Repeat([]byte("x<&\n"), n/4+1)[:n])
	}
	text := withBlobs(t, blobs...)
	runs, err := readAll(append(text, text...))
	require.NoError(t, err)
	require.Len(t, runs, 2)
	i := 0
	require.NoError(t, ReadBlobs(bytes.NewReader(append(text, text...)), func(hash string, content io.Reader) error {
		want := blobs[i%len(blobs)]
		require.Equal(t, string(rune('a'+i%len(blobs))), hash)
		i++
		if i == 4 { // which is passed over
			return nil
		}
		have, err := io.ReadAll(content)
		require.Equal(t, len(want), len(have))
		require.Equal(t, want, have[:len(want):len(want)])
		return err
	}))
	require.Equal(t, 2*len(blobs), i)

	var redacted bytes.Buffer
	require.NoError(t, Redact(&redacted, bytes.NewReader(text)))
	require.NotContains(t, redacted.String(), "blob")
	require.NotContains(t, redacted.String(), base64.StdEncoding.EncodeToString([]byte("x<&\nx<&\n")))
}

// A reader that breaks is no end of its blob, whatever its error is, and wherever it breaks.
func TestBlobsWhoseReadersBreak(t *testing.T) {
	for _, n := range []int{0, 1, pieceSize, pieceSize + 1} {
		for _, broken := range []error{io.ErrUnexpectedEOF, fmt.Errorf("cut: %w", io.EOF)} {
			w, err := NewWriter(io.Discard, "r")
			require.NoError(t, err)
			require.ErrorIs(t, w.WriteBlob("a", io.MultiReader(bytes.NewReader(make([]byte, n)), iotest.ErrReader(broken))), broken)
		}
	}
}

// A blob that is not whole is refused, and so is one where none may be.
func TestBlobsThatAreNotWhole(t *testing.T) {
	lines := bytes.SplitAfter(withBlobs(t, make([]byte, pieceSize+1), []byte("b")), []byte("\n"))
	require.Len(t, lines, 7, "two lines, three pieces, the end, and nothing")
	for name, c := range map[string]struct {
		says string
		of   []int
	}{
		"the rest is missing":     {"the rest of the blob", []int{0, 1, 2, 5}},
		"another one is between":  {"behind one of", []int{0, 1, 2, 4, 3}},
		"the first piece is away": {"checksum", []int{0, 1, 3, 4, 5}},
	} {
		var text []byte
		for _, i := range c.of {
			text = append(text, lines[i]...)
		}
		_, err := readAll(text)
		require.ErrorIs(t, err, ErrDamaged, name)
		require.ErrorContains(t, err, c.says, name)
	}
	_, err := readAll(bytes.Replace(withBlobs(t, []byte("b")), []byte(`"version":3`), []byte(`"version":1`), 1))
	require.ErrorContains(t, err, "a blob in version 1")
	var text []byte
	for _, i := range []int{0, 1, 2} {
		text = append(text, lines[i]...)
	}
	require.ErrorIs(t, ReadBlobs(bytes.NewReader(text), func(string, io.Reader) error { return nil }), ErrDamaged)
	require.NoError(t, ReadBlobs(strings.NewReader(""), nil))
}
