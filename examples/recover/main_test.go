package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the child.
func TestMain(m *testing.M) {
	if os.Getenv(childOf) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestRecover(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{t.TempDir()}, &stdout, os.Stderr))
	require.Equal(t, `killed a process with 5 runs, each of which was posting a letter
letter-1 completed
letter-2 completed
letter-3 completed
letter-4 completed
letter-5 completed
this process did: write: 0
this process did: post: 0
this process did: post, a second time: 5
this process did: file: 5
letters in the mailbox: 5
`, stdout.String())
}
