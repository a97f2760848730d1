package acts_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

// A hold is an act that no surface knows: it pauses a run.
type hold struct {
	pawl.Pause
	Note string `json:"note,omitzero" needs:"note must say something"`
}

// An act that is one type and one row is known to each path, trial, dry run and client of the API.
func TestANewActIsOneTypeAndOneRow(t *testing.T) {
	acts.Add(t, acts.Verb{Name: "hold", Path: "/hold", Title: "Hold", Past: "held"}, hold{})
	engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, engine.Close(context.Background())) }()
	d := &workflow.Definition{Name: "wait", Start: "w", Nodes: []workflow.Node{{ID: "w", Wait: &workflow.WaitSpec{Event: "go"}}}}
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
	server := httptest.NewServer(api.Handler(engine, api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "ann", api.All, nil }}))
	defer server.Close()
	c := api.NewClient(server.URL, server.Client())
	o := api.Operation{Act: hold{Note: "wait"}, Reason: "a test"}

	would, err := c.DryRun(t.Context(), "r", o)
	require.NoError(t, err)
	require.Equal(t, workflow.RunPaused, would.Outcome.Status)
	tried, err := c.Simulate(t.Context(), "r", api.Simulate{Acts: []api.Operation{o, {Act: pawl.Resume{}}}})
	require.NoError(t, err)
	require.Equal(t, workflow.RunRunning, tried.Outcome.Status)
	_, err = c.Do(t.Context(), "r", api.Operation{Act: hold{}, Reason: "a test"})
	require.ErrorContains(t, err, "note must say something")
	_, err = c.Do(t.Context(), "r", o)
	require.NoError(t, err)
	s, err := engine.Summary(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, workflow.RunPaused, s.Status)

	answer, err := server.Client().Post(server.URL+"/v1/runs/r/hold", "application/json", strings.NewReader(`{"reason": "x", "note": "y", "comment": "z"}`))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
}

// An act comes back from JSON as it was, with its values as they stand there.
func TestActsInJSON(t *testing.T) {
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	token := pawl.Target{Token: 3}
	want := []pawl.Act{
		pawl.Cancel{}, pawl.Pause{}, pawl.Resume{}, pawl.Signal{Name: "go", Payload: raw("9007199254740993"), TTL: time.Hour, Early: true},
		pawl.Patch{Base: 2, Ops: []any{raw(`{"op":"test"}`)}}, pawl.CancelNodes{Nodes: []workflow.NodeID{"a", "b"}},
		pawl.AddBranch{Group: "g", ID: "1", Item: raw("[1]")}, pawl.CloseGroup{Group: "g", Origin: 4}, pawl.Raise{Meta: map[string]float64{"cost": 5.5}},
		pawl.Retry{Target: pawl.Target{Token: 3, Parked: true}, Input: workflow.InputAgain}, pawl.Skip{Target: pawl.Target{Node: "a"}, Output: raw("{}")},
		pawl.Vote{Target: token}, pawl.Complete{Target: token, Output: raw("1")}, pawl.Fail{Target: token, Code: "x", Retryable: true}, pawl.Elapse{Elapse: time.Minute},
	}
	require.Len(t, acts.All(), len(want), "an act is missing here")
	for _, a := range want {
		v := acts.Of(a)
		fields, err := v.Encode(a)
		require.NoError(t, err)
		got, err := v.Decode(fields)
		require.NoError(t, err)
		require.Equal(t, a, got)
	}
}

// A reader is read where the engine reads it, and refused where the engine refuses it, though encoding/json would write {}.
func TestReadersInActs(t *testing.T) {
	complete := pawl.Complete{Target: pawl.Target{Token: 3}, Output: strings.NewReader(`{"a": 1}`)}
	fields, err := acts.Of(complete).Encode(complete)
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1}`, string(fields["output"]))
	complete.Output = iotest.ErrReader(errors.New("line cut"))
	_, err = acts.Of(complete).Encode(complete)
	require.ErrorContains(t, err, "line cut")
	for _, a := range []pawl.Act{
		pawl.Vote{Target: pawl.Target{Token: 3}, Data: strings.NewReader("1")}, pawl.Signal{Name: "go", Payload: map[string]any{"of": strings.NewReader("1")}},
		pawl.Skip{Target: pawl.Target{Token: 3}, Output: strings.NewReader("1")}, pawl.Patch{Base: 1, Ops: []any{strings.NewReader("1")}},
	} {
		_, err = acts.Of(a).Encode(a)
		require.ErrorContains(t, err, "is a reader: give what it reads")
	}
}

// Fields that are missing, of another act or of another type are refused, each in words of JSON.
func TestActsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		`vote {}`:                                      "approved must be true or false",
		`vote {"approved": null}`:                      "approved must be true or false",
		`elapse {"elapse": null}`:                      "elapse must say how much time passes",
		`vote {"approved": true, "parked": true}`:      `vote takes no field "parked"`,
		`retry {"run": "r"}`:                           `retry takes no field "run"`,
		`skip {"token": 1, "node": "a"}`:               "skip is done to a token: name it or its node, not both",
		`fail {"code": ""}`:                            "code must say how the task has failed",
		`elapse {"elapse": ""}`:                        "elapse must say how much time passes",
		`signal {"name": "go", "ttl": "-1s"}`:          `ttl is "-1s": it must be a duration such as "30s"`,
		`signal {"name": 7}`:                           `the field "name" cannot be of type number`,
		`raise {"meta": {}}`:                           "meta must name limits",
		`raise {"meta": {"cost": "5"}}`:                `the field "meta" cannot be of type string`,
		`cancelNodes {"nodes": []}`:                    "nodes must name some",
		`closeGroup {"group": "g", "item": 1}`:         `closeGroup takes no field "item"`,
		`patch {"base": 1, "ops": {"op": "replace"} }`: `the field "ops" cannot be of type object`,
	} {
		name, object, _ := strings.Cut(text, " ")
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(object), &fields))
		v, ok := acts.Named(name)
		require.True(t, ok)
		_, err := v.Decode(fields)
		require.EqualError(t, err, want, text)
	}
}
