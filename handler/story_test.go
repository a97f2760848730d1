package handler_test

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
	"github.com/pawl-run/pawl/workflow"
)

// A shop answers on the second attempt, and remembers what it has booked by the
// keys of the requests.
type shop struct {
	mu     sync.Mutex
	asked  int
	booked map[string]float64
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.URL.Path == "/prices":
		if s.asked++; s.asked == 1 {
			http.Error(w, "warming up", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"tea": 4, "cup": 7}`)
	case r.Method == http.MethodPost && r.URL.Path == "/bookings":
		var in struct{ Total float64 }
		_ = json.NewDecoder(r.Body).Decode(&in)
		key := r.Header.Get("Idempotency-Key")
		_, again := s.booked[key]
		s.booked[key] = in.Total
		if !again { // the booking is kept, but its answer is lost
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
	default:
		http.NotFound(w, r)
	}
}

const order = `
name: order
start: prices
nodes:
  - {id: prices, task: http, input: {url: input.shop + '/prices'}, output: {state.prices: result.body}, retry: {maxAttempts: 3, initialInterval: 1ms}}
  - id: lines
    task: transform
    input:
      data: "{'items': input.items, 'prices': state.prices}"
      expression: "{'numbers': 'data.items.map(i, data.prices[i.name] * i.count)', 'names': 'data.items.map(i, i.name)'}"
    output: {state.lines: result}
  - {id: sum, task: exec, input: {argv: "[input.program, 'child', 'sum']", stdin: state.lines}, output: {output.total: result.stdout.sum}}
  - id: book
    task: http
    input: {method: "'POST'", url: input.shop + '/bookings', body: "{'total': output.total}"}
    output: {output.booked: result.status}
    retry: {maxAttempts: 3, initialInterval: 1ms}
  - {id: gift, task: http, input: {url: input.shop + '/gift'}}
  - {id: none, output: {output.gift: error.code}}
transitions:
  - {from: prices, to: lines}
  - {from: lines, to: sum}
  - {from: sum, to: book}
  - {from: book, to: gift}
  - {from: gift, to: none, outcome: error, errors: [http_4xx]}
`

// All three handlers in one run, with an answer that comes late and one that is
// lost.
func TestOrder(t *testing.T) {
	s := &shop{booked: map[string]float64{}}
	server := serve(t, s.serve)
	self := program(t)
	engine := open(t, pawl.Handlers{
		"http": request(t, handler.HTTPOptions{}), "exec": handler.Exec(handler.ExecOptions{Programs: []string{self}}),
		"transform": handler.Transform(handler.TransformOptions{}),
	})
	input := object{"shop": server.URL, "program": self, "items": []any{object{"name": "tea", "count": 3}, object{"name": "cup", "count": 2}}}
	out, err := engine.Run(t.Context(), workflow.Run{ID: "order-1", Definition: define(t, order)}, input)
	require.NoError(t, err)
	require.NoError(t, out.Err())
	assert.Equal(t, object{"total": int64(26), "booked": int64(201), "gift": "http_4xx"}, out.Output)
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, 2, s.asked)
	require.Len(t, s.booked, 1, "one booking, whatever the attempts")
	for key, total := range s.booked {
		assert.Regexp(t, "^order-1/book/", key)
		assert.InDelta(t, 26, total, 0)
	}
}

// Cancelling a run ends the program that it waits for.
func TestCancelKills(t *testing.T) {
	f, self := run(t, handler.ExecOptions{})
	l := listen(t)
	engine := open(t, pawl.Handlers{"exec": f})
	def := define(t, "name: slow\nstart: hang\nnodes: [{id: hang, task: exec, input: {argv: input.argv}}]\n")
	err := engine.Start(t.Context(), workflow.Run{ID: "slow", Definition: def}, object{"argv": append(self, "hang", l.Addr().String())})
	require.NoError(t, err)
	_, conn := l.next(t)
	require.NoError(t, engine.Cancel(t.Context(), "slow", "no longer wanted"))
	out, err := engine.Wait(t.Context(), "slow")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCancelled, out.Status)
	dead(t, conn)
}

// A task that a handler refuses fails the run at once, whatever its policy is.
func TestPermanentFailuresAreNotRetried(t *testing.T) {
	engine := open(t, pawl.Handlers{"*": handler.HTTP(handler.HTTPOptions{})})
	def := define(t, `
name: inside
start: ask
nodes: [{id: ask, task: http, input: {url: input.url}, retry: {maxAttempts: 5, initialInterval: 1h}}]
`)
	out, err := engine.Run(t.Context(), workflow.Run{ID: "inside", Definition: def}, object{"url": "http://169.254.169.254/latest"})
	require.NoError(t, err)
	require.Equal(t, handler.CodeHTTPDenied, out.Failure.Code)
	require.Equal(t, 1, out.Failure.Attempts)
	require.Equal(t, "GET http://169.254.169.254/latest: the address 169.254.169.254:80 is not public", out.Failure.Message)
}
