package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/servers"
)

// TestMain lets the test binary be a node.
func TestMain(m *testing.M) {
	if os.Getenv(nodeOrder) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestReplicas(t *testing.T) {
	servers.RequirePostgres(t)
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-kills", "2"}, &stdout, t.Output()))
	require.Equal(t, "both processes were replaced 1 times, and the one with the engine killed 2 times, with its directory: no call failed, every order was sent\n", stdout.String())
}
