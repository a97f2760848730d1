package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

const want = `order-1 completed: apple: 1.44
order-2 failed: error at node "price" (t1): we do not sell "plum"
`

func TestChain(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second time the outcomes are there
		var stdout bytes.Buffer
		require.NoError(t, run(t.Context(), []string{dir}, &stdout, t.Output()))
		require.Equal(t, want, stdout.String())
	}
}

func TestChainInATemporaryDirectory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), nil, &stdout, t.Output()))
	require.Equal(t, want, stdout.String())
}
