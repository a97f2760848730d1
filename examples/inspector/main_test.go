package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The shop prints where its page is, which shows runs at once.
func TestShop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"-address", "127.0.0.1:0", "-files", "50"}, write, io.Discard)
		write.Close()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	address := regexp.MustCompile(`http://\S+`).FindString(line)
	for path, want := range map[string]string{"": "Needs you", "runs": "import-2", "run/order-1": "validate"} {
		resp, err := http.Get(address + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 200, resp.StatusCode)
		assert.Contains(t, string(body), want)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}
