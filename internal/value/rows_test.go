package value

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestRowReader(t *testing.T) {
	rows := []any{map[string]any{"b": int64(1), "a": "line\nbreak"}, nil, []any{}, strings.Repeat("x", 100_000), 1.5}
	want := `{"a":"line\nbreak","b":1}` + "\nnull\n[]\n\"" + strings.Repeat("x", 100_000) + "\"\n1.5\n"
	for name, r := range map[string]io.Reader{
		"at once": NewRowReader(rows), "a byte at a time": iotest.OneByteReader(NewRowReader(rows)),
	} {
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, want, string(got), name)
	}
	sum, size := HashRows(rows)
	expected := sha256.Sum256([]byte(want))
	require.Equal(t, hex.EncodeToString(expected[:]), sum)
	require.EqualValues(t, len(want), size)

	n, err := NewRowReader(nil).Read(make([]byte, 8))
	require.Zero(t, n)
	require.ErrorIs(t, err, io.EOF)
	_, size = HashRows(nil)
	require.Zero(t, size)
}
