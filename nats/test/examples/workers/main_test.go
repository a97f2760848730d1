package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be a worker.
func TestMain(m *testing.M) {
	if os.Getenv(serverURL) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestWorkers(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), &stdout, t.Output()))
	require.Regexp(t, `^1000 tasks by 4 worker processes, which were killed [1-9]\d* times
1000 results, each of them once
$`, stdout.String())
}
