package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzLockRecord reads any bytes as the lock file: they are a lock record, in its one
// spelling, or nothing is said.
func FuzzLockRecord(f *testing.F) {
	for _, m := range []lockRecord{{state: stateClosed}, {state: stateOpen, epoch: 7}, {state: stateSynced, epoch: 1 << 63}, {stateClosed, 7, hashOfNothing, ""}, {stateClosed, 7, hashOfNothing, "2-17"}} {
		f.Add(m.String())
		f.Add(m.String()[1:])
		f.Add(m.String()[:len(m.String())-2])
	}
	f.Add("closed 0000000000000007 " + hashOfNothing + "0\n")
	f.Add("other 0000000000000007\n")
	f.Fuzz(func(t *testing.T, text string) {
		m := parseLockRecord(text)
		if m.String() == text {
			require.Contains(t, []closingState{stateClosed, stateOpen, stateSynced}, m.state)
			return
		}
		require.Equal(t, lockRecord{state: stateClosed}, m)
	})
}

const hashOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
