package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoop(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{t.TempDir()}, &stdout, t.Output()))
	require.Equal(t, `quick: ready, asked 3 times, came round 2 times
never: given up, asked 5 times, came round 4 times
`, stdout.String())
}
