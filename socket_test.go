package pawl

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Close does not wait without a bound for a function of the host that serves the socket and does not return.
func TestCloseLeavesAServerOfTheSocket(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "pawl")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	var log bytes.Buffer
	release, returned := make(chan struct{}), make(chan struct{})
	e, err := Open(t.Context(), dir, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Socket: func(*Engine, net.Listener) {
		defer close(returned)
		<-release
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, e.Close(ctx))
	require.Contains(t, log.String(), "Options.Socket has not returned")
	require.False(t, e.socket.stop(t.Context(), time.Millisecond), "nor does it wait longer than it says")
	close(release)
	<-returned
}
