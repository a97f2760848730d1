package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
)

// The shop prints where its page is, which shows runs at once, and the directory that commands reach it by.
func TestShop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"-address", "127.0.0.1:0", "-files", "50"}, write, io.Discard)
		write.Close()
	}()
	printed := bufio.NewReader(read)
	page, err := printed.ReadString('\n')
	require.NoError(t, err)
	command, err := printed.ReadString('\n')
	require.NoError(t, err)
	address := regexp.MustCompile(`http://\S+`).FindString(page)
	for path, want := range map[string]string{"": "Needs you", "runs": "import-2", "run/order-1": "validate"} {
		resp, err := http.Get(address + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 200, resp.StatusCode)
		assert.Contains(t, string(body), want)
	}
	_, dir, found := strings.Cut(strings.TrimSuffix(command, "\n"), " --dir ")
	require.True(t, found, command)
	client, err := api.Dial(ctx, dir)
	require.NoError(t, err)
	summary, err := client.Summary(ctx, "order-1")
	require.NoError(t, err)
	assert.Equal(t, "order", summary.Workflow)
	client.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}
