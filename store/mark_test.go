package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzMark reads any bytes as the mark in the lock file: they are one, in its one
// spelling, or nothing is said.
func FuzzMark(f *testing.F) {
	for _, m := range []mark{{state: markClosed}, {state: markOpen, epoch: 7}, {state: markSynced, epoch: 1 << 63}, {markClosed, 7, hashOfNothing, ""}, {markClosed, 7, hashOfNothing, "2-17"}} {
		f.Add(m.String())
		f.Add(m.String()[1:])
		f.Add(m.String()[:len(m.String())-2])
	}
	f.Add("closed 0000000000000007 " + hashOfNothing + "0\n")
	f.Add("other 0000000000000007\n")
	f.Fuzz(func(t *testing.T, text string) {
		m := parseMark(text)
		if m.String() == text {
			require.Contains(t, []markState{markClosed, markOpen, markSynced}, m.state)
			return
		}
		require.Equal(t, mark{state: markClosed}, m)
	})
}

const hashOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
