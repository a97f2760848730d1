package sqlite_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/sqlite"
)

const (
	update    = `UPDATE t SET b = ? WHERE a >= ?`
	remove    = `DELETE FROM t WHERE a = ?`
	returning = `DELETE FROM t WHERE a = ? RETURNING b`
)

func strict(string) bool { return false }

func contentOf(t require.TestingT, c *sqlite.Conn) (rows [][]any) {
	require.NoError(t, c.Each(list, func(r *sqlite.Row) error {
		var row []any
		for _, v := range r.Values() {
			row = append(row, v)
		}
		rows = append(rows, row)
		return nil
	}))
	return rows
}

// A tape that is played on a copy makes the rows of the original; what was executed while
// nothing was noted is missing.
func TestTape(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		original, copied := memory(t), memory(t)
		tape := &sqlite.Tape{}
		for range rapid.IntRange(1, 4).Draw(rt, "transactions") {
			original.RecordTo(tape)
			for range rapid.IntRange(1, 6).Draw(rt, "statements") {
				a := rapid.Int64Range(-2, 4).Draw(rt, "a")
				var err error
				switch rapid.IntRange(0, 3).Draw(rt, "what") {
				case 0:
					_, err = original.Exec(insert, a, rapid.String().Draw(rt, "b"), rapid.SliceOf(rapid.Byte()).Draw(rt, "c"))
				case 1:
					_, err = original.Exec(update, nil, a)
				case 2:
					_, err = original.Exec(remove, a)
				case 3:
					err = original.ExecEach(returning, func(*sqlite.Row) error { return nil }, a)
				}
				require.NoError(rt, err)
			}
			original.RecordTo(nil)
			require.NoError(rt, copied.PlayTape(tape.Take(), strict))
			require.Equal(rt, contentOf(rt, original), contentOf(rt, copied))
		}
		_, err := original.Exec(insert, int64(9), "not noted", nil)
		require.NoError(rt, err)
		require.Empty(rt, tape.Take())
	})
}

// A copy that has other rows is told at the first statement that shows it.
func TestTapeDiverges(t *testing.T) {
	original, copied := memory(t), memory(t)
	_, err := original.Exec(insert, int64(1), "x", nil)
	require.NoError(t, err)
	tape := &sqlite.Tape{}
	original.RecordTo(tape)
	_, err = original.Exec(remove, int64(1))
	require.NoError(t, err)
	data := tape.Take()
	require.ErrorIs(t, copied.PlayTape(data, strict), sqlite.ErrDiverged)
	require.NoError(t, copied.PlayTape(data, func(text string) bool { return text == remove }))
}

// Bytes that are not a tape, or would do more than write rows, are refused.
func TestBadTapes(t *testing.T) {
	c := memory(t)
	tape := &sqlite.Tape{}
	c.RecordTo(tape)
	_, err := c.Exec(`PRAGMA user_version = 4`)
	require.NoError(t, err)
	require.ErrorIs(t, c.PlayTape(tape.Take(), strict), sqlite.ErrBadTape)
	_, err = c.Exec(insert, int64(1), strings.Repeat("x", 300), []byte{1})
	require.NoError(t, err)
	data := tape.Take()
	c.RecordTo(nil)
	for cut := 1; cut < len(data); cut++ {
		require.ErrorIs(t, sqlite.EachStatement(data[:cut], func(*sqlite.Statement) error { return nil }), sqlite.ErrBadTape, "%d bytes", cut)
	}
}

func FuzzTape(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x05PRAGM\x00\x00"))
	f.Add([]byte("\x00\x1bDELETE FROM t WHERE a = ?  \x00\x01\x01\x02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := memory(t)
		_ = c.PlayTape(data, func(string) bool { return true })
	})
}
