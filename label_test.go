package pawl_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// runsWith returns the ids of the runs that fit a filter.
func runsWith(t *testing.T, e *pawl.Engine, f pawl.RunFilter) (ids []workflow.RunID) {
	t.Helper()
	for r, err := range e.Runs(t.Context(), f) {
		require.NoError(t, err)
		ids = append(ids, r.Run)
	}
	return ids
}

// The labels of a run are shown and find it, and it alone, not its children: over a restart,
// a repair, and with a codec. They go with a purge.
func TestLabels(t *testing.T) {
	ctx := t.Context()
	odd := map[string]string{"customer": "7", "a\"b\\é<&>'": "x\"y\\é<&>'", "empty": ""}
	for name, codec := range map[string]pawl.Codec{"plain": nil, "sealed": testCodec(t, "k")} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			options := pawl.Options{Codec: codec, Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }}}
			e := open(t, dir, options)
			_, err := e.Publish(t.Context(), define(t, "name: leaf\nstart: w\nnodes: [{id: w, task: work}]"))
			require.NoError(t, err)
			def := define(t, family)
			given := map[string]string{}
			for key, v := range odd {
				given[key] = v
			}
			next, stop := watching(t, ctx, e, pawl.WatchFilter{Labels: map[string]string{"customer": "7"}})
			defer stop()
			require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def, Labels: given}, nil))
			given["customer"] = "changed afterwards"
			_, err = e.Wait(ctx, "r")
			require.NoError(t, err)
			change, err := next()
			require.NoError(t, err)
			require.Equal(t, odd, change.Labels)
			require.Equal(t, workflow.RunID("r"), change.Run)
			require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def, Labels: odd}, nil), "the same again")
			require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def}, nil), pawl.ErrRunExists)
			for i := range 3 {
				run := workflow.Run{ID: workflow.RunID(fmt.Sprint("s", i)), Definition: def, Labels: map[string]string{"customer": fmt.Sprint(i)}}
				_, err := e.Run(ctx, run, nil)
				require.NoError(t, err)
			}
			_, err = e.Run(ctx, workflow.Run{ID: "none", Definition: def, Labels: map[string]string{}}, nil)
			require.NoError(t, err)

			check := func(e *pawl.Engine) {
				require.Equal(t, []workflow.RunID{"r"}, runsWith(t, e, pawl.RunFilter{Labels: odd}))
				for key, v := range odd {
					require.Equal(t, []workflow.RunID{"r"}, runsWith(t, e, pawl.RunFilter{Labels: map[string]string{key: v}}), key)
				}
				require.Equal(t, []workflow.RunID{"s1"}, runsWith(t, e, pawl.RunFilter{Labels: map[string]string{"customer": "1"}, Newest: true}))
				require.Empty(t, runsWith(t, e, pawl.RunFilter{Labels: map[string]string{"customer": "1", "empty": ""}}))
				for id, want := range map[workflow.RunID]map[string]string{"r": odd, "r/1.1": nil, "s2": {"customer": "2"}, "none": nil} {
					s, err := e.Inspect(ctx, id)
					require.NoError(t, err)
					require.Equal(t, want, s.Labels, id)
					require.Equal(t, want, summaryOf(t, e, id).Labels, id)
				}
			}
			check(e)
			for ev, err := range e.Events(ctx, "s1", pawl.EventsOptions{}) {
				require.NoError(t, err)
				require.Equal(t, map[string]any{"customer": "1"}, ev.Data["labels"], "%v", ev)
				break
			}
			require.NoError(t, e.Close(ctx))
			e = open(t, dir, options)
			check(e)
			require.NoError(t, e.Close(ctx))
			report, err := rescue.VerifySealed(dir, codec)
			require.NoError(t, err)
			require.Zero(t, report.Damage)
			repaired := filepath.Join(t.TempDir(), "repaired")
			_, err = rescue.RepairSealed(dir, repaired, codec)
			require.NoError(t, err)
			e = open(t, repaired, options)
			check(e)
			require.NoError(t, e.Fork(ctx, "r", "fork", pawl.ForkOptions{}))
			require.Equal(t, []workflow.RunID{"r", "fork"}, runsWith(t, e, pawl.RunFilter{Labels: odd}))
			require.Equal(t, odd, summaryOf(t, e, "fork").Labels)
			_, err = e.Wait(ctx, "fork")
			require.NoError(t, err)
			require.NoError(t, e.Purge(ctx, "fork"))
			require.NoError(t, e.Purge(ctx, "r"))
			require.Empty(t, runsWith(t, e, pawl.RunFilter{Labels: odd}))
			require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def}, nil), "the id is free")
			require.Empty(t, runsWith(t, e, pawl.RunFilter{Labels: odd}))
		})
	}
}

// Labels that cannot be are refused, and the error says which and why.
func TestLabelsThatAreRefused(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	many := map[string]string{}
	for i := range workflow.MaxLabels + 1 {
		many[fmt.Sprint(i)] = ""
	}
	start := func(labels map[string]string) error {
		return e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, steps), Labels: labels}, nil)
	}
	for _, tt := range []struct {
		labels map[string]string
		key    string
		says   string
	}{
		{many, "", "17 labels, at most 16"},
		{map[string]string{"": "x"}, "", "the key of a label is empty"},
		{map[string]string{strings.Repeat("k", workflow.MaxLabelKey+1): "x"}, strings.Repeat("k", workflow.MaxLabelKey+1), "the key has 65 bytes, at most 64"},
		{map[string]string{"b": strings.Repeat("v", workflow.MaxLabelValue+1), "c": "\n"}, "b", "the value has 257 bytes, at most 256"},
		{map[string]string{"k\xff": "x"}, "k\xff", "the key is not UTF-8"},
		{map[string]string{"k": "\u200b"}, "k", "U+200B"},
	} {
		err := start(tt.labels)
		var wrong *pawl.LabelError
		require.ErrorAs(t, err, &wrong)
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.Equal(t, tt.key, wrong.Key)
		require.ErrorContains(t, err, tt.says)
	}
	delete(many, "0")
	many[strings.Repeat("k", workflow.MaxLabelKey)] = strings.Repeat("v", workflow.MaxLabelValue)
	delete(many, "1")
	require.NoError(t, start(many))
	require.Equal(t, []workflow.RunID{"r"}, slices.Collect(slices.Values(runsWith(t, e, pawl.RunFilter{Labels: many}))))
}
