package index

import (
	"database/sql/driver"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestCRCOf compares checksums with their definition, written as plainly as it can be.
func TestCRCOf(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) driver.Value {
		switch rapid.IntRange(0, 3).Draw(t, "type") {
		case 0:
			return nil
		case 1:
			return rapid.Int64().Draw(t, "number")
		case 2:
			return rapid.StringN(0, 100, 300).Draw(t, "text")
		}
		return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
	})
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SliceOfN(value, 1, 12).Draw(t, "row")
		var text []byte
		for _, v := range row {
			switch v := v.(type) {
			case nil:
				text = append(text, make([]byte, 9)...)
			case int64:
				text = binary.BigEndian.AppendUint64(append(text, 1), uint64(v))
			case string:
				text = append(binary.BigEndian.AppendUint64(append(text, 3), uint64(len(v))), v...)
			case []byte:
				text = append(binary.BigEndian.AppendUint64(append(text, 4), uint64(len(v))), v...)
			}
		}
		require.Equal(t, int64(crc32.Checksum(text, castagnoli)), CRCOf(row[0], row[1:]))
	})
}

// TestCRCOfCostsOneAllocation, and not one for each value: every commit makes some.
func TestCRCOfCostsOneAllocation(t *testing.T) {
	row := []driver.Value{int64(7), make([]byte, 32), int64(5)}
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() { CRCOf(int64(3), row) }), 1.0)
}
