package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNodes(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), &stdout))
	require.Equal(t, "40 orders, all of them packed; the node that had the engine was closed 4 times\n", stdout.String())
}
