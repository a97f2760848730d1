package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuorum(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{t.TempDir()}, &stdout, t.Output()))
	require.Equal(t, `slow is withdrawn: the task is no longer wanted
two-answer completed: bob for 110, of 2 quotes
  2 of 3 branches arrived, 1 cancelled
one-answers completed: ann for 120, of 1 quotes
  1 of 3 branches arrived, 2 cancelled
`, stdout.String())
}
