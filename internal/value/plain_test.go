package value

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// TestPlainPrefix: it finds what a look at one byte after the other finds, wherever in eight bytes the first special one is and
// whatever stands around it.
func TestPlainPrefix(t *testing.T) {
	check := func(t require.TestingT, s string) {
		n := 0
		for n < len(s) && s[n] >= ' ' && s[n] != '"' && s[n] != '\\' {
			n++
		}
		ascii := true
		for i := range n {
			ascii = ascii && s[i] < utf8.RuneSelf
		}
		got, gotASCII := plainPrefix(s)
		require.Equal(t, n, got, "%q", s)
		require.Equal(t, ascii, gotASCII, "%q", s)
	}
	for _, around := range []byte{0, 1, ' ' - 1, ' ', '!', '"', '#', '[', '\\', ']', '~', 0x7f, 0x80, 0x81, 0xa0, 0xa2, 0xdc, 0xff} {
		for special := range 256 {
			for at := range 17 {
				s := []byte(strings.Repeat(string([]byte{around}), 24))
				s[at] = byte(special)
				check(t, string(s))
				for i := range at {
					s[i] = 'a'
				}
				check(t, string(s))
			}
		}
	}
	harness.CheckProperty(t, func(t *rapid.T) { check(t, string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "s"))) })
}

func BenchmarkLargeString(b *testing.B) {
	for name, s := range map[string]string{
		"plain": strings.Repeat("the quick brown fox ", 50_000), "lines": strings.Repeat("the quick \"brown\" fox jumps over the lazy dog\n", 20_000), "beyond ASCII": strings.Repeat("größer als ", 80_000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			buf := make([]byte, 0, 2*len(s))
			for b.Loop() {
				_ = Size(s)
				buf = Append(buf[:0], s)
			}
		})
	}
}
