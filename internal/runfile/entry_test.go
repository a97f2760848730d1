package runfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
)

// A checksum is the same however much is hashed at once, and of a usual record it costs no
// memory.
func TestSumAfter(t *testing.T) {
	sum := FirstSum("r")
	seen := map[Checksum]int{}
	for n := smallRecord - 200; n < smallRecord+200; n++ {
		e := decision.Encoded{Seq: 1, At: time.UnixMilli(5), Epoch: 3, Planner: 1, Message: bytes.Repeat([]byte("m"), n/2), Decisions: bytes.Repeat([]byte("m"), n-n/2)}
		got := sum.SumAfter(&e)
		text := append([]byte{}, sum[:]...)
		for _, n := range []int{1, 5, 3, 1, len(e.Message), len(e.Decisions)} {
			text = binary.BigEndian.AppendUint64(text, uint64(n))
		}
		require.EqualValues(t, sha256.Sum256(append(append(text, e.Message...), e.Decisions...)), got)
		require.Zero(t, seen[got], n)
		seen[got] = n
		e.Message, e.Decisions = append(e.Message, 'm'), e.Decisions[1:]
		require.NotEqual(t, got, sum.SumAfter(&e), n)
	}
	e := decision.Encoded{Seq: 1, At: time.UnixMilli(5), Message: make([]byte, 200), Decisions: make([]byte, 500)}
	require.Zero(t, testing.AllocsPerRun(10, func() { sum = sum.SumAfter(&e) }))
}
