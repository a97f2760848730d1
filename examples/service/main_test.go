package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// An order that is put twice is one run; another order under its id is refused, and so is a text that is no
// order. The service closes in order, and the next process finds the outcome.
func TestService(t *testing.T) {
	dir := t.TempDir()
	for life := range 2 {
		address, closeService := startService(t, dir)
		for range 2 {
			status, _ := send(t, "PUT", address+"/order-1", `{"amount": 3, "item": "lamp"}`)
			require.Equal(t, http.StatusAccepted, status, "life %d", life)
		}
		status, _ := send(t, "PUT", address+"/order-1", `{"amount": 4, "item": "lamp"}`)
		require.Equal(t, http.StatusConflict, status)
		status, _ = send(t, "PUT", address+"/order-2", `{`)
		require.Equal(t, http.StatusBadRequest, status)
		status, _ = send(t, "GET", address+"/order-2", "")
		require.Equal(t, http.StatusNotFound, status)
		require.NoError(t, closeService())
	}
	engine, err := openEngine(t.Context(), dir)
	require.NoError(t, err)
	outcome, err := engine.Wait(t.Context(), "order-1")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, outcome.Status)
	require.Equal(t, map[string]any{"parcel": "parcel with lamp"}, outcome.Output)
	require.NoError(t, closeEngine(engine))
	address, closeService := startService(t, dir)
	status, body := send(t, "GET", address+"/order-1", "")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"status": "completed", "output": {"parcel": "parcel with lamp"}}`, body)
	require.NoError(t, closeService())
}

// A second process is refused while the first one has the directory.
func TestServiceTwice(t *testing.T) {
	dir := t.TempDir()
	_, closeService := startService(t, dir)
	err := run(t.Context(), []string{"-address", "127.0.0.1:0", "-dir", dir}, io.Discard, io.Discard)
	require.ErrorIs(t, err, pawl.ErrLocked)
	require.NoError(t, closeService())
}

// startService runs the service as main does, and returns the address of its orders.
func startService(t *testing.T, dir string) (address string, closeService func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"-address", "127.0.0.1:0", "-dir", dir}, write, io.Discard)
		write.Close()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(strings.TrimPrefix(line, "orders at ")), func() error {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		return <-done
	}
}

// send sends a request and returns its status and body.
func send(t *testing.T, method, url, body string) (status int, answer string) {
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}
