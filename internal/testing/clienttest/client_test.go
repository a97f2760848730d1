package clienttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// toolsVariable is the variable of the environment that names the folder of the tools.
const toolsVariable = "PAWL_CLIENT"

const order = `
name: order
start: reserve
nodes:
  - {id: reserve, task: reserve, input: {customer: input.customer}, output: {state.parcel: result.parcel}}
  - {id: paid, wait: {event: payment}, output: {output.paid: result.payload.amount, output.parcel: state.parcel}}
transitions:
  - {from: reserve, to: paid}
`

// TestClient lets a program whose types were generated from openapi.yaml start, signal and watch
// a run.
func TestClient(t *testing.T) {
	dir := buildClient(t)
	e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: pawl.Handlers{
		"reserve": func(_ context.Context, task pawl.Task) (any, error) { return map[string]any{"parcel": "P-1"}, nil },
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	d, err := workflow.ParseYAML([]byte(order))
	require.NoError(t, err)
	_, err = e.Publish(t.Context(), d)
	require.NoError(t, err)
	whoever := func(*http.Request) (string, api.Rights, error) { return "ann", api.View | api.Values | api.Act, nil }
	server := httptest.NewServer(http.StripPrefix("/pawl", api.Handler(e, api.Options{Identify: whoever})))
	defer server.Close()

	const id = "order 1 for Zoë"
	var told struct {
		Output map[string]any
		Types  []workflow.EventType
	}
	require.NoError(t, json.Unmarshal(execute(t, dir, "node", "client.js", server.URL+"/pawl", id), &told))
	require.Equal(t, map[string]any{"paid": 12.0, "parcel": "P-1"}, told.Output)
	var types []workflow.EventType
	for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		types = append(types, ev.Type)
	}
	require.Equal(t, types, told.Types)
}

// buildClient returns a folder with the program, for which it generates the types of the API and
// checks by them what the program does with it.
func buildClient(t *testing.T) string {
	t.Helper()
	if harness.Raced {
		t.Skip("it drives another program, which the race detector does not see")
	}
	tools := os.Getenv(toolsVariable)
	if tools == "" {
		t.Skipf("%s names no folder with the tools of testdata/package.json: doc.go says how to make it", toolsVariable)
	}
	packages, err := filepath.Abs(filepath.Join(tools, "node_modules"))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/source")))
	require.NoError(t, os.Symlink(packages, filepath.Join(dir, "node_modules")))
	document, err := filepath.Abs("../../../api/openapi.yaml")
	require.NoError(t, err)
	execute(t, dir, "node", "node_modules/openapi-typescript/bin/cli.js", document, "-o", "schema.d.ts")
	execute(t, dir, "node", "node_modules/typescript/bin/tsc")
	return dir
}

// execute runs a program in a folder, and returns what it has printed.
func execute(t *testing.T, dir, name string, arguments ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, arguments...)
	c.Dir = dir
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w\n%s\n%s", err, out, exit.Stderr)
	}
	require.NoError(t, err)
	return out
}
