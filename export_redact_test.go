package pawl_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A redacted export says nothing that came from outside but keys, names and codes. It can be shown after each record, as
// the run stood then, and nothing plans it again.
func TestRedact(t *testing.T) {
	const secret = "Sesame"
	many := strings.Repeat(secret, 300) // stands apart from its record
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
		"good": func(context.Context, pawl.Task) (any, error) {
			return pawl.Result{Output: map[string]any{"text": many, "list": []any{secret, secret, 471147.5, true, nil}}, Metadata: map[string]any{"m": secret}}, nil
		},
		"bad": func(context.Context, pawl.Task) (any, error) { return nil, errors.New(secret) },
	}})
	d := define(t, `
name: w
start: a
nodes:
  - {id: a, task: good, output: {state.kept: result}}
  - {id: b, task: good, input: {item: item, text: state.kept.text}}
  - {id: ask, approval: {messageExpr: '"ask " + input.who'}, input: {who: input.who}}
  - {id: s, wait: {event: go}, output: {state.got: result}}
  - {id: c, task: bad}
transitions:
  - {from: a, to: b, foreach: {collection: result.list}, siblingGroup: g}
  - {from: b, to: ask, synchronization: {siblingGroup: g, merge: {source: result.text, target: state.texts, strategy: collect}}}
  - {from: ask, to: s}
  - {from: s, to: c}
`)
	ctx := pawl.As(t.Context(), secret)
	run := workflow.Run{ID: "r", Definition: d, Tenant: secret, Labels: map[string]string{"customer": secret}}
	require.NoError(t, e.Start(ctx, run, map[string]any{"who": secret}))
	require.NoError(t, e.Signal(ctx, "r", workflow.Signal{Name: "go", ID: secret, Payload: secret}))
	awaitEvent(t, e, "r", workflow.EventApprovalRequested)
	require.NoError(t, e.Vote(ctx, pawl.Target{Run: "r", Node: "ask"}, workflow.Ballot{Approved: true, Comment: secret, Data: secret}))
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, workflow.RunFailed, out.Status)

	var text, without bytes.Buffer
	require.NoError(t, e.Export(t.Context(), "r", &text, pawl.ExportOptions{}))
	require.NoError(t, replay.Redact(&without, bytes.NewReader(text.Bytes())))
	require.NotContains(t, without.String(), secret)
	require.NotContains(t, without.String(), "471147")
	require.Contains(t, without.String(), `"state","kept"`, "names stay")

	path := filepath.Join(t.TempDir(), "r.pawl")
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
	whole := framesOf(t, path)
	require.NoError(t, os.WriteFile(path, without.Bytes(), 0o600))
	shown := framesOf(t, path)
	require.Len(t, shown, len(whole))
	for i, f := range shown {
		require.Equal(t, whole[i].Tokens, f.Tokens)
		require.Equal(t, whole[i].Groups, f.Groups)
		require.Equal(t, whole[i].Status, f.Status)
		require.True(t, f.Redacted)
	}
	kept, _ := shown[len(shown)-1].State["kept"].(map[string]any)
	require.Equal(t, []any{"xxxxxx", "xxxxxx", int64(0), false, nil}, kept["list"])
	require.Len(t, kept["text"], len(many))

	rec, err := replay.Open(path)
	require.NoError(t, err)
	require.True(t, rec.Redacted())
	_, err = replay.Check(rec)
	require.ErrorIs(t, err, replay.ErrRedacted)
	require.ErrorIs(t, new(replay.Coverage).Add(rec), replay.ErrRedacted)
	_, err = replay.Diff(rec, rec)
	require.ErrorIs(t, err, replay.ErrRedacted)
	_, err = replay.Substitute(rec, d)
	require.ErrorIs(t, err, replay.ErrRedacted)

	var again bytes.Buffer
	require.NoError(t, replay.Redact(&again, bytes.NewReader(without.Bytes())))
	require.Equal(t, without.String(), again.String())
	require.Error(t, replay.Redact(&again, bytes.NewReader(text.Bytes()[:text.Len()-9])))
}

// framesOf returns a recorded run after each record.
func framesOf(t *testing.T, path string) (out []*replay.Frame) {
	t.Helper()
	rec, err := replay.Open(path)
	require.NoError(t, err)
	s, err := replay.NewStepper(rec)
	require.NoError(t, err)
	for seq := range s.Len() {
		f, err := s.At(seq + 1)
		require.NoError(t, err)
		out = append(out, f)
	}
	return out
}
