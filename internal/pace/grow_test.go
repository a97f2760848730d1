package pace

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// A wide element makes slices large soon.
type wide [4096]byte

func TestGrow(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		check(t, func(i int) byte { return byte(i) })
		check(t, func(i int) (w wide) { w[0] = byte(i); return w })
		check(t, func(int) struct{} { return struct{}{} })
	})
}

func check[E any](t *rapid.T, element func(int) E) {
	var want, got []E
	for range rapid.IntRange(1, 8).Draw(t, "steps") {
		more := make([]E, rapid.IntRange(0, 50).Draw(t, "more"))
		for i := range more {
			more[i] = element(i)
		}
		n := rapid.IntRange(0, 50).Draw(t, "room")
		got = Grow(got, n)
		require.GreaterOrEqual(t, cap(got)-len(got), n)
		want, got = append(want, more...), Append(got, more...)
		if len(more) > 0 {
			want, got = append(want, more[0]), Push(got, more[0])
		}
		require.Equal(t, want, append([]E(nil), got...))
	}
}

// Values that are pushed one by one are copied seldom: as often as the logarithm of their number.
func TestPushIsAmortized(t *testing.T) {
	var s []wide
	copies := 0
	for range 10_000 {
		if len(s) == cap(s) {
			copies++
		}
		s = Push(s, wide{})
	}
	require.Less(t, copies, 40)
}

func TestLargeCopiesStepBack(t *testing.T) {
	large := make([]wide, 400) // 1.6 MB
	for name, f := range map[string]func(){
		"append": func() { Append([]wide{}, large...) },
		"grow":   func() { Grow(large[:len(large):len(large)], 1) },
		"push":   func() { Push(large[:len(large):len(large)], wide{}) },
		"copy":   func() { _, _ = Copy(io.Discard, bytes.NewReader(make([]byte, 20*pieceBytes))) },
	} {
		require.GreaterOrEqual(t, harness.CountTurns(f), int64(15), name)
	}
}

func TestCopy(t *testing.T) {
	text := strings.Repeat("0123456789", pieceBytes/7)
	var out bytes.Buffer
	n, err := Copy(&out, iotest.DataErrReader(strings.NewReader(text)))
	require.NoError(t, err)
	require.EqualValues(t, len(text), n)
	require.Equal(t, text, out.String())

	no := errors.New("no")
	_, err = Copy(io.Discard, iotest.ErrReader(no))
	require.ErrorIs(t, err, no)
	r, w := io.Pipe()
	require.NoError(t, r.CloseWithError(no))
	_, err = Copy(w, strings.NewReader(text))
	require.ErrorIs(t, err, no)
}
