package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness/shown"
)

func TestUntrusted(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	require.NoError(t, run(t.Context(), []string{dir}, &out, &out))
	shown.Compare(t, "..", "untrusted", dir)
	require.Equal(t, `ann, a sum: completed map[sum:5]
eve, an expression of a million steps: failed: limit_exceeded
eve, a look at this machine: failed: http_denied
eve, a task of her choice: refused: invalid definition "shell": node "a": task: there is no task "shell" here (unknown_value)
eve, a text of a megabyte: refused: invalid definition: 1048588 bytes are more than 65536 (too_large)
`, out.String())
}
