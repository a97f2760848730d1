package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// evil is a text that renames the window of a terminal, wipes it and turns what follows around.
const evil = "\x1b]0;evil\x07\x1b[2J\r\u202e"

// hostileExport writes a run whose every text is evil: its id, names in its definition, values, failures, who acted.
func hostileExport(t *testing.T) string {
	t.Helper()
	d, err := workflow.ParseYAML([]byte("name: x\nstart: a\nnodes: [{id: a, task: work}, {id: b, approval: {quorum: 2}}, {id: c, wait: {event: e}}]\ntransitions: [{from: a, to: b}, {from: a, to: c}]"))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	s := state.NewState(evil, g)
	s.Epoch = 1
	var text bytes.Buffer
	w, err := portable.NewWriter(&text, evil)
	require.NoError(t, err)
	doc, err := g.Definition.MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, w.WriteRun(&portable.Run{ID: evil, Hash: g.Hash, Definition: doc, Tenant: evil, Labels: map[string]string{evil: evil}}))
	act := state.Act{By: evil, Reason: evil}
	for i, m := range []state.Message{
		state.Start{Input: map[string]any{evil: evil}, Act: act}, state.TaskCompleted{Token: 1, Attempt: 1, Epoch: 1, Output: map[string]any{evil: evil}},
		state.Ballot{Node: "b", By: evil, Approved: true, Comment: evil}, state.Pause{Act: act}, state.Cancel{Reason: evil, Act: act},
	} {
		at := time.UnixMilli(1893495600000 + int64(i)).UTC()
		plan, err := planning.Step(s, m, at)
		require.NoError(t, err)
		r := decision.Record{Seq: int64(i) + 1, At: at, Epoch: 1, Planner: planning.Version, Message: m, Decisions: plan.Decisions}
		for _, d := range plan.Decisions {
			decision.Apply(s, d, &r)
		}
		require.NoError(t, w.WriteRecord(&r))
	}
	require.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "hostile.pawl")
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
	return path
}

// hostileDirectory makes a directory with runs whose values and failures are evil; one of them is parked.
func hostileDirectory(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Logger: slog.New(slog.DiscardHandler), Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "bad", Message: evil}
	}}})
	require.NoError(t, err)
	d, err := workflow.ParseYAML([]byte("name: x\nstart: a\nnodes: [{id: a, task: work, retry: {maxAttempts: 1, exhausted: park}}, {id: b, task: work}]\ntransitions: [{from: a, to: b}]"))
	require.NoError(t, err)
	for _, id := range []workflow.RunID{"parked", "failed"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, map[string]any{evil: evil}))
	}
	require.NoError(t, e.Cancel(t.Context(), "failed", evil))
	for parked := false; !parked; {
		s, err := e.Inspect(t.Context(), "parked")
		require.NoError(t, err)
		parked = s.Tokens[0].Status == workflow.WaitingForOperator
		runtime.Gosched()
	}
	for _, id := range []workflow.RunID{"first", "second"} { // no retry of it can evaluate its input
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, map[string]any{"m": map[string]any{}, "k": evil}))
		for parked := false; !parked; runtime.Gosched() {
			s, err := e.Inspect(t.Context(), id)
			require.NoError(t, err)
			parked = s.Tokens[0].Status == workflow.WaitingForOperator
		}
		_, err = e.Patch(t.Context(), id, pawl.Patch{Base: 1, Ops: []any{map[string]any{"op": "add", "path": "/nodes/a/input", "value": map[string]any{"v": "input.m[input.k]"}}}})
		require.NoError(t, err)
	}
	require.NoError(t, e.Close(t.Context()))
	return dir
}

// hostileFiles writes a definition, scenarios and an export with a damaged run into a folder whose name is evil.
func hostileFiles(t *testing.T, export string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), strings.ReplaceAll(evil, "/", ""))
	require.NoError(t, os.Mkdir(folder, 0o700))
	whole, err := os.ReadFile(export)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"fails.yaml": "name: fails\nstart: a\n" + `nodes: [{id: a, end: {fail: bad, message: "\e[2J"}}]`, "test.yaml": strings.Replace(bad, "bad", `"\e[2J"`, 1),
		"cut.pawl": string(whole) + string(whole[:len(whole)/2]), "no.yaml": "scenario: [",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	return folder
}

// requireText fails if a terminal would do more with a text than show it.
func requireText(t *testing.T, text string, args []string) {
	t.Helper()
	i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf) })
	require.Negative(t, i, "pawl %.200q: %q", args, text)
}

// An export that somebody else has written may hold anything: no command lets it reach the terminal as more than
// text.
func TestHostileTextsStayTexts(t *testing.T) {
	path, dir := hostileExport(t), hostileDirectory(t)
	folder := hostileFiles(t, path)
	in := func(name string) string { return filepath.Join(folder, name) }
	for _, args := range [][]string{
		{"why", path}, {"step", path}, {"step", path, "--at", "2"}, {"diff", path, path}, {"coverage", path}, {"replay", path}, {"graph", path}, {"verify", path}, {"why", path + ":" + evil}, {"show", evil}, {"check", evil},
		{"ls", "--dir", dir}, {"ls", "--dir", dir, "--json"}, {"show", "--dir", dir, "parked"}, {"show", "--dir", dir, "failed", "--json"}, {"why", "--dir", dir, "failed"}, {"why", "--dir", dir, "parked"},
		{"journal", "--dir", dir, "parked"}, {"events", "--dir", dir, "failed"}, {"events", "--dir", dir, "parked", "--json"}, {"threads", "--dir", dir, "parked"}, {"data", "--dir", dir, "parked"}, {"inbox", "--dir", dir},
		{"retry", "--workflow", "x", "-m", "x", "--by", "ann", "--offline", "--yes", "--dir", dir}, {"run", in("fails.yaml")}, {"check", in("nothing.yaml"), in("fails.yaml")},
		{"ls", "--dir", in("cut.pawl")}, {"purge", evil, "other", "-m", "x", "--by", "ann", "--offline", "--dir", dir}, {"cancel", evil, "other", "-m", "x", "--by", "ann", "--offline", "--dir", dir},
	} {
		var out, errs bytes.Buffer
		status := (&console{In: strings.NewReader(""), Out: &out, Errs: &errs, Now: time.Now}).runArguments(t.Context(), args)
		requireText(t, out.String(), args)
		requireText(t, errs.String(), args)
		t.Logf("%q %d %.100q %.100q", args, status, out.String(), errs.String())
	}
	for _, args := range [][]string{{"test", in("test.yaml"), in("no.yaml")}, {"test", "--json", in("test.yaml")}} { // which ends its process
		out, err := exec.CommandContext(t.Context(), program(t), args...).CombinedOutput()
		require.NotZero(t, exitStatus(t, err))
		require.Contains(t, string(out), "expect.path")
		requireText(t, string(out), args)
	}
}
