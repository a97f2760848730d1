package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
	"github.com/pawl-run/pawl/workflow"
)

// play runs a definition on an engine of its own and prints what comes out.
func play(handlers pawl.Handlers, yaml string, input any) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pawl-example-")
	check(err)
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: handlers})
	check(err)
	defer func() { check(errors.Join(engine.Close(ctx), os.RemoveAll(dir))) }()
	def, err := workflow.ParseYAML([]byte(yaml))
	check(err)
	out, err := engine.Run(ctx, workflow.Run{ID: "example", Definition: def}, input)
	check(err)
	text, err := json.Marshal(out.Output)
	check(err)
	fmt.Println(out.Status, string(text), out.Err())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// An expression that comes with the input of the run: its author needs no new
// version of the definition.
func ExampleTransform() {
	play(pawl.Handlers{"transform": handler.Transform(handler.TransformOptions{})}, `
name: report
start: shape
nodes:
  - {id: shape, task: transform, input: {expression: input.report, data: input.orders}, output: {output.report: result}}
`, map[string]any{
		"orders": []any{map[string]any{"id": "a", "total": 12}, map[string]any{"id": "b", "total": 80}},
		"report": map[string]any{"large": "data.filter(o, o.total > 50).map(o, o.id)", "count": "size(data)"},
	})
	// Output: completed {"report":{"count":2,"large":["b"]}} <nil>
}

// A request to a service on this machine, which Private allows. A status that
// the definition expects is a result, and no failure.
func ExampleHTTP() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stock/tea" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"left": 3}`)
	}))
	defer server.Close()
	play(pawl.Handlers{"http": handler.HTTP(handler.HTTPOptions{Private: true})}, `
name: stock
start: tea
nodes:
  - {id: tea, task: http, input: {url: input.shop + '/stock/tea'}, output: {output.tea: result.body.left}}
  - {id: cup, task: http, input: {url: input.shop + '/stock/cup', accept: '[404]'}, output: {output.cup: result.status}}
transitions: [{from: tea, to: cup}]
`, map[string]any{"shop": server.URL})
	// Output: completed {"cup":404,"tea":3} <nil>
}
