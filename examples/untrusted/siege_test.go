//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"iter"
	"net"
	"net/http"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/workflow"
)

// maxAllocated bounds what one attack may allocate, in bytes.
const maxAllocated = 64 << 20

// A siege is a desk under attack, and an innocent run beside.
type siege struct {
	*desk
	t        *testing.T
	innocent workflow.RunID
	next     func() (history.Event, error, bool) // of the innocent run
}

func beginSiege(t *testing.T, o offers) *siege {
	ctx := context.Background() // the engine closes after the test
	d, err := openDesk(ctx, t.TempDir(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.engine.Close(ctx)) })
	s := &siege{desk: d, t: t}
	s.innocent, err = d.start(ctx, "ann", []byte(`{"name": "counter", "start": "listen", "state": {"initial": {"n": 0}}, "nodes": [
		{"id": "listen", "wait": {"event": "go"}},
		{"id": "add", "task": "transform", "input": {"expression": "'data + 1'", "data": "state.n"}, "output": {"state.n": "result"}}],
		"transitions": [{"from": "listen", "to": "add"}, {"from": "add", "to": "listen", "loop": {"maxIterations": 100}}]}`), nil)
	require.NoError(t, err)
	next, stop := iter.Pull2(d.engine.Events(ctx, s.innocent, pawl.EventsOptions{Follow: true}))
	t.Cleanup(stop)
	s.next = next
	return s
}

// goOn lets the innocent run perform one more task, and waits until that is done.
func (s *siege) goOn() {
	s.t.Helper()
	require.NoError(s.t, s.signal(s.t.Context(), "ann", s.innocent, "go", nil))
	for {
		e, err, more := s.next()
		require.NoError(s.t, err)
		require.True(s.t, more)
		if e.Type == workflow.EventTaskCompleted {
			return
		}
	}
}

// withstand makes an attack, and sees to it that the innocent run goes on beside it and
// that it allocates no more than it may.
func (s *siege) withstand(name string, attack func(t *testing.T)) {
	s.t.Helper()
	s.t.Run(name, func(t *testing.T) {
		before := allocated()
		attack(t)
		s.goOn()
		assert.Less(t, allocated()-before, uint64(maxAllocated))
	})
}

// allocated returns how many bytes were ever allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A switching server answers every request with 101, and then keeps silent.
func switching(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: silence\r\nConnection: Upgrade\r\n\r\n")
					_, _ = io.Copy(io.Discard, conn) // until the client hangs up
				}
			}()
		}
	}()
	return listener.Addr().String()
}
