package main

import (
	"bufio"
	"context"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/pawltest"
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
		for _, text := range []string{`{`, ``, `{"amount": 3, "item": "lamp"} {`, `{"amount": 9007199254740993, "item": "lamp"}`} { // which is no float
			status, _ = send(t, "PUT", address+"/order-2", text)
			require.Equal(t, http.StatusBadRequest, status, text)
		}
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

// A service that cannot listen any more ends, and its supervisor starts it again.
func TestServiceLosesItsListener(t *testing.T) {
	engine, err := openEngine(t.Context(), t.TempDir())
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	require.ErrorIs(t, serve(t.Context(), engine, listener), net.ErrClosed)
	require.NoError(t, closeEngine(engine))
}

// A second process is refused while the first one has the directory.
func TestServiceTwice(t *testing.T) {
	dir := t.TempDir()
	_, closeService := startService(t, dir)
	err := run(t.Context(), []string{"-address", "127.0.0.1:0", "-dir", dir}, io.Discard, io.Discard)
	require.ErrorIs(t, err, pawl.ErrLocked)
	require.NoError(t, closeService())
}

// A page that somebody watches does not hold up the end of the service, and a request that has begun is answered.
func TestServiceEndsStreams(t *testing.T) {
	address, closeService := startService(t, t.TempDir())
	pages := strings.TrimSuffix(address, "orders") + "ops/"
	status, page := send(t, "GET", pages, "")
	require.Equal(t, http.StatusOK, status)
	live := regexp.MustCompile(`data-live="([^"]+)"`).FindStringSubmatch(page)
	require.NotNil(t, live, page)
	request, err := http.NewRequestWithContext(t.Context(), "GET", pages+html.UnescapeString(live[1]), nil)
	require.NoError(t, err)
	stream, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer stream.Body.Close()
	require.Equal(t, "text/event-stream", stream.Header.Get("Content-Type"))

	reading, answered := make(chan struct{}), make(chan int, 1)
	body, order := io.Pipe()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reading) }})
	request, err = http.NewRequestWithContext(ctx, "PUT", address+"/order-1", body)
	require.NoError(t, err)
	request.Header.Set("Expect", "100-continue") // the answer to it says that startOrder reads the body
	go func() {
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		answer.Body.Close()
		answered <- answer.StatusCode
	}()
	select {
	case <-reading:
	case status := <-answered:
		require.Fail(t, "the service has not read the order", "status %d", status)
	}
	closed := make(chan error, 1)
	go func() { closed <- closeService() }()
	_, _ = io.Copy(io.Discard, stream.Body) // until Shutdown has begun
	_, err = io.WriteString(order, `{"amount": 3, "item": "lamp"}`)
	require.NoError(t, err)
	require.NoError(t, order.Close())
	require.Equal(t, http.StatusAccepted, <-answered)
	require.NoError(t, <-closed)
}

// A service that is down for long loses no order that is charged.
func TestOrder(t *testing.T) { pawltest.Run(t, "testdata") }

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
	address, _, _ = strings.Cut(strings.TrimPrefix(line, "orders at "), ", ")
	return address, func() error {
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
