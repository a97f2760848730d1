package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// hostile is a value that is a program if a page takes it for HTML.
const hostile = `</script><img src=x onerror="document.title='owned'"><b>bold</b>`

const orders = `
name: order
start: validate
nodes:
  - {id: validate, task: validate, input: {customer: input.customer}}
  - {id: approve, approval: {message: "A large order. Shall it be shipped?", quorum: 1}}
  - {id: ship, task: ship, input: {customer: input.customer}, retry: {maxAttempts: 1, exhausted: park}}
  - {id: refused, end: {fail: not_approved, message: nobody wanted to ship it}}
  - {id: shipped}
transitions:
  - {from: validate, to: approve, condition: input.amount > 5000, priority: 0}
  - {from: validate, to: ship, priority: 1}
  - {from: approve, to: ship, condition: result.approved, priority: 0}
  - {from: approve, to: refused, priority: 1}
  - {from: ship, to: shipped}
`

const imports = `
name: import
start: split
nodes:
  - {id: split}
  - {id: load, task: load, input: {file: file}, retry: {maxAttempts: 1, exhausted: park}}
  - {id: sum}
transitions:
  - {from: split, to: load, foreach: {collection: input.files, as: file}, siblingGroup: files}
  - {from: load, to: sum, synchronization: {siblingGroup: files}}
`

// A shop is an engine with runs to look at, and the address of its pages.
type shop struct {
	engine  *pawl.Engine
	handler http.Handler // its pages, below /ops/
	url     string       // of them; it ends in a slash
}

// openShop opens an engine in which a run waits for a person, one task is parked, one run
// failed, one is done, and half of the branches of an import
// that a test starts will be, while one of them is parked.
func openShop(t *testing.T, o inspector.Options) *shop {
	t.Helper()
	ctx := t.Context()
	s := &shop{}
	handlers := pawl.Handlers{
		"validate": func(_ context.Context, t pawl.Task) (any, error) {
			if t.Run == "failed" {
				return nil, pawl.Permanent(fmt.Errorf("no street: %s", hostile))
			}
			return map[string]any{"note": hostile}, nil
		},
		"ship": func(_ context.Context, t pawl.Task) (any, error) {
			if t.Run == "parked" && t.Attempt == 1 {
				return nil, pawl.TaskError{Code: "carrier_down", Message: "the carrier does not answer " + hostile}
			}
			return map[string]any{"parcel": "P-1"}, nil
		},
		"load": func(_ context.Context, t pawl.Task) (any, error) {
			if t.Branch.Index%2 == 0 {
				return nil, nil
			}
			if t.Branch.Index == 7 {
				return nil, pawl.TaskError{Code: "broken_file", Message: "line 3 has no end"}
			}
			return nil, pawl.ErrPending // it goes on, as long as anybody looks
		},
	}
	var err error
	s.engine, err = pawl.Open(ctx, t.TempDir(), pawl.Options{Executor: handlers})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, s.engine.Close(ctx))
	})
	for _, text := range []string{orders, imports} {
		d, err := workflow.ParseYAML([]byte(text))
		require.NoError(t, err)
		_, err = s.engine.Publish(t.Context(), d)
		require.NoError(t, err)
	}
	s.start(t, "approval", "order", map[string]any{"customer": hostile, "amount": 9000})
	for _, id := range []workflow.RunID{"parked", "failed", "done"} {
		s.start(t, id, "order", map[string]any{"customer": "Ada", "amount": 10})
	}
	s.await(t, "approval", workflow.EventApprovalRequested, 1)
	s.await(t, "parked", workflow.EventTaskParked, 1)
	for _, id := range []workflow.RunID{"failed", "done"} {
		_, err := s.engine.Wait(ctx, id)
		require.NoError(t, err)
	}
	s.handler = http.StripPrefix("/ops", inspector.Handler(s.engine, o))
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	s.url = server.URL + "/ops/"
	return s
}

// start starts a run of a workflow.
func (s *shop) start(t *testing.T, id workflow.RunID, name string, input map[string]any) {
	t.Helper()
	require.NoError(t, s.engine.Start(t.Context(), workflow.Run{ID: id, Workflow: name}, input))
}

// await returns when a run has had n events of a type.
func (s *shop) await(t *testing.T, id workflow.RunID, kind workflow.EventType, n int) {
	t.Helper()
	for e, err := range s.engine.Events(t.Context(), id, pawl.EventsOptions{Follow: true}) {
		require.NoError(t, err)
		if e.Type == kind {
			n--
		}
		if n == 0 {
			return
		}
	}
	t.Fatalf("%s has ended", id)
}
