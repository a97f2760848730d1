package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be a node.
func TestMain(m *testing.M) {
	if os.Getenv(nodeOrder) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTakeover(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), &stdout, t.Output()))
	require.Regexp(t, `^((ann|ben|cat) had the engine and is killed; (ann|ben|cat) goes on\n){3}20 orders, all of them sent; the node that had them was killed 3 times, with its directory\n$`, stdout.String())
}
