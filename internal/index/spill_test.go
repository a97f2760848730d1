package index

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// spilled returns a record with a message, and with a large value for each text.
func spilled(message string, values ...string) *runfile.Entry {
	e := &runfile.Entry{Encoded: decision.Encoded{Message: []byte(message), Decisions: []byte(`[]`), Values: &codec.Values{}}}
	for _, v := range values {
		e.Values.Add([]byte(v))
	}
	return e
}

func TestSpillsAreReadAsTheyWereWritten(t *testing.T) {
	same := someTokens(100_000)
	for name, c := range map[string]struct {
		entry  *runfile.Entry
		shrink bool
	}{
		"small":                      {spilled(`{"type":"start"}`), false},
		"a message":                  {spilled(same), true},
		"values":                     {spilled(`{}`, same, same[1:]), true},
		"letters in no order":        {spilled(harness.RandomLetters(1 << 20)), false},
		"first none, then the same":  {spilled(harness.RandomLetters(1<<20), strings.Repeat(same, 10)), false},
		"first the same, then none":  {spilled(same, harness.RandomLetters(4<<20)), false},
		"just as long as is judged":  {spilled(harness.RandomLetters(judgedFrom - 1)), false},
		"just long enough to shrink": {spilled(same[:deflateFrom]), true},
		"too much of the same":       {spilled(strings.Repeat("x", 1<<20)), false},
	} {
		t.Run(name, func(t *testing.T) {
			data, whole := PackSpill(c.entry), PackEntry(c.entry)
			require.Equal(t, c.shrink, len(data) <= len(whole)/2)
			if !c.shrink {
				require.True(t, string(whole) == string(data), "it is left as it is")
			}
			var got runfile.Entry
			require.NoError(t, UnpackSpill(&got, data))
			require.True(t, string(PackEntry(&got)) == string(whole))
		})
	}
}

// A spill that was changed gives an error, or a record with another text, which the checksum does not fit.
func TestSpillsThatWereChanged(t *testing.T) {
	e := spilled(someTokens(5000))
	whole, data := string(PackEntry(e)), PackSpill(e)
	require.EqualValues(t, deflated, data[0])
	for i := 0; i < len(data); i += 1 + i/100 {
		changed := append([]byte(nil), data...)
		changed[i] ^= 0x11
		var got runfile.Entry
		if err := UnpackSpill(&got, changed); err == nil {
			require.False(t, string(PackEntry(&got)) == whole, "byte %d", i)
		}
	}
	for n := 0; n < len(data); n += 1 + n/100 {
		require.Error(t, UnpackSpill(&runfile.Entry{}, data[:n]), "cut to %d bytes", n)
	}
	require.ErrorContains(t, UnpackSpill(&runfile.Entry{}, []byte{deflated, 0x80}), "length")
	require.ErrorContains(t, UnpackSpill(&runfile.Entry{}, append(data, "more"...)), "4 bytes follow it")
}

// A few bytes do not make whoever reads them work for long.
func TestSpillsThatAreBombs(t *testing.T) {
	for _, c := range []struct {
		size uint64 // that it says
		more int    // bytes behind it
		want string
	}{
		{32 << 20, 0, "the length of its text is wrong"},
		{1 << 20, 0, "it has 1048577 bytes"},
		{maxDeflated + 1, 5 << 20, "the length of its text is wrong"},
	} {
		var b bytes.Buffer
		b.Write(binary.AppendUvarint([]byte{deflated}, c.size))
		w, err := flate.NewWriter(&b, flate.BestCompression)
		require.NoError(t, err)
		for range 32 {
			_, err = w.Write(make([]byte, 1<<20))
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		b.Write(make([]byte, c.more))
		require.ErrorContains(t, UnpackSpill(&runfile.Entry{}, b.Bytes()), c.want)
	}
	_, err := UnpackValues([]byte{0, 0})
	require.ErrorContains(t, err, "empty")
}

// someTokens returns the text of n objects that are much alike.
func someTokens(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"token":%d}`, i)
	}
	return b.String()
}
