package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

const wideTasks = "name: wide\nstart: a\nnodes: [{id: a}, {id: b, task: work}]\ntransitions: [{from: a, to: b, spawnCount: 2000}]"

// One tenant has 2,000 tasks and a hundred runs queued; a run that another one begins has every second turn from its
// first task on, and waits for no task but the one that has the turn.
func TestATenantIsNotDelayedByAnother(t *testing.T) {
	tasks := &firstHeld{begun: make(chan struct{}, 1), gate: make(chan struct{})}
	e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Durability: pawl.ProcessCrash, Executor: tasks})
	one := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}, {id: b, task: work}]\ntransitions: [{from: a, to: b}]")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "wide", Definition: define(t, wideTasks), Tenant: "big"}, nil))
	<-tasks.begun
	for i := range 100 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID("many" + string(rune('a'+i%26)) + string(rune('a'+i/26))), Definition: one, Tenant: "big"}, nil))
	}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "small", Definition: one, Tenant: "small"}, nil))
	close(tasks.gate)
	out, err := e.Wait(t.Context(), "small")
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.LessOrEqual(t, slices.Index(tasks.order(), workflow.RunID("small")), 2, "of the tasks that were queued before it, one runs and one may have the turn")
	require.NoError(t, e.Cancel(t.Context(), "wide", ""))
}

const family = "name: family\nstart: a\nnodes: [{id: a, subworkflow: {name: leaf}}]"

// The tenant of a run is that of its children, is shown, selects runs, and stays: over a restart and a repair.
func TestTheTenantOfARun(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	begun := make(chan bool, 9)
	options := pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		begun <- true
		return nil, pawl.ErrPending
	}}}
	e := open(t, dir, options)
	_, err := e.Publish(t.Context(), define(t, "name: leaf\nstart: w\nnodes: [{id: w, task: work}]"))
	require.NoError(t, err)
	def := define(t, family)
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def, Tenant: "acme"}, nil))
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def, Tenant: "acme"}, nil), "the same again")
	require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def}, nil), pawl.ErrRunExists)
	require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def, Tenant: "other"}, nil), pawl.ErrRunExists)
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "s", Definition: def, Tenant: "other"}, nil))
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "t", Definition: def}, nil))
	for _, bad := range []string{strings.Repeat("x", limits.MaxTenant+1), "a\xff", "a\nb", "a\u200bb"} {
		require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "bad", Definition: def, Tenant: bad}, nil), pawl.ErrInvalid)
	}

	runsOf := func(e *pawl.Engine, f pawl.RunFilter) (ids []workflow.RunID) {
		for r, err := range e.Runs(ctx, f) {
			require.NoError(t, err)
			require.Equal(t, f.Tenant, r.Tenant)
			ids = append(ids, r.Run)
		}
		return ids
	}
	check := func(e *pawl.Engine) {
		for range 3 { // the children are there
			<-begun
		}
		require.Equal(t, []workflow.RunID{"r", "r/1.1"}, slices.Sorted(slices.Values(runsOf(e, pawl.RunFilter{Tenant: "acme"}))))
		require.Equal(t, []workflow.RunID{"s"}, runsOf(e, pawl.RunFilter{Tenant: "other", Roots: true}))
		require.Empty(t, runsOf(e, pawl.RunFilter{Tenant: "other", Status: []workflow.RunStatus{workflow.RunFailed}}))
		require.Empty(t, runsOf(e, pawl.RunFilter{Tenant: "nobody"}))
		for id, want := range map[workflow.RunID]string{"r": "acme", "r/1.1": "acme", "s/1.1": "other", "t": "", "t/1.1": ""} {
			s, err := e.Inspect(ctx, id)
			require.NoError(t, err)
			require.Equal(t, want, s.Tenant, id)
			for ev, err := range e.Events(ctx, id, pawl.EventsOptions{}) {
				require.NoError(t, err)
				told, _ := ev.Data["tenant"].(string)
				require.Equal(t, want, told, "as the first event says")
				break
			}
		}
	}
	check(e)
	require.NoError(t, e.Close(ctx))
	e = open(t, dir, options)
	check(e)
	require.NoError(t, e.Close(ctx))
	report, err := rescue.Verify(t.Context(), dir, rescue.Options{})
	require.NoError(t, err)
	require.Zero(t, report.Damage)
	repaired := filepath.Join(t.TempDir(), "repaired")
	_, err = rescue.Repair(t.Context(), dir, repaired, rescue.Options{})
	require.NoError(t, err)
	check(open(t, repaired, options))
}

// Limits of tenants bound what each has at once, and no other.
func TestLimitsOfTenants(t *testing.T) {
	ctx := t.Context()
	for _, bad := range []map[string]pawl.TenantLimit{{"a": {Concurrency: -1}}, {"*": {Active: -1}}, {"a": {Bytes: -1}}, {"a": {Pending: true}}, {"": {Active: 1}}, {"a\n": {}}} {
		_, err := pawl.Open(ctx, t.TempDir(), pawl.Options{Tenants: bad})
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.ErrorContains(t, err, "Options.Tenants")
	}
	begun := make(chan workflow.RunID, 99)
	gate := make(chan struct{})
	dir := t.TempDir()
	options := pawl.Options{
		Tenants: map[string]pawl.TenantLimit{"*": {Active: 2, Concurrency: 1}, "vip": {}},
		Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
			begun <- task.Run
			select {
			case <-gate:
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}},
	}
	e := open(t, dir, options)
	def := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}]")
	start := func(id workflow.RunID, tenant string) error {
		return e.Start(ctx, workflow.Run{ID: id, Definition: def, Tenant: tenant}, nil)
	}
	require.NoError(t, start("a1", "a"))
	require.Equal(t, workflow.RunID("a1"), <-begun)
	require.NoError(t, start("a2", "a"))
	s, err := e.Inspect(ctx, "a2")
	require.NoError(t, err)
	require.True(t, s.Tokens[0].Limited, "it waits for its tenant")
	err = start("a3", "a")
	require.ErrorIs(t, err, pawl.ErrBusy)
	var busy *pawl.TenantBusyError
	require.ErrorAs(t, err, &busy)
	require.Equal(t, pawl.TenantBusyError{Tenant: "a", Active: 2, Max: 2}, *busy)
	for _, other := range []string{"b", "vip", "vip", "vip", "", "", ""} {
		require.NoError(t, start(pawl.NewRunID(), other))
		<-begun
	}
	require.NoError(t, e.Close(ctx))

	e = open(t, dir, options) // what goes on counts as well
	for range 8 {
		<-begun
	}
	for _, id := range []workflow.RunID{"a1", "a2"} {
		require.ErrorAs(t, e.Signal(ctx, id, workflow.Signal{Name: "unknown"}), new(*workflow.SignalError), "it is loaded")
	}
	require.ErrorIs(t, start("a3", "a"), pawl.ErrBusy)
	close(gate)
	for _, id := range []workflow.RunID{"a1", "a2"} {
		out, err := e.Wait(ctx, id)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
}

// A tenant whose runs take as many bytes as they may starts and forks no more; its runs go on, others notice nothing, and
// a purge makes room.
func TestTheBytesOfATenantAreBounded(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	options := pawl.Options{
		IdleAfter: time.Hour,
		Tenants:   map[string]pawl.TenantLimit{"*": {Bytes: 600_000}, "vip": {}},
		Executor:  pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }},
	}
	def := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}]")
	start := func(e *pawl.Engine, id workflow.RunID, tenant string) error {
		return e.Start(ctx, workflow.Run{ID: id, Definition: def, Tenant: tenant}, map[string]any{"x": strings.Repeat("x", 250_000)})
	}
	e := open(t, dir, options)
	require.NoError(t, start(e, "a1", "a"))
	require.NoError(t, start(e, "a2", "a"))
	require.NoError(t, start(e, "a3", "a"), "it may begin until there are so many")
	refused := func(e *pawl.Engine) {
		err := start(e, "a4", "a")
		require.ErrorIs(t, err, pawl.ErrBusy)
		var full *pawl.TenantFullError
		require.ErrorAs(t, err, &full)
		require.Equal(t, "a", full.Tenant)
		require.Equal(t, int64(600_000), full.Max)
		require.Greater(t, full.Bytes, full.Max)
		require.ErrorContains(t, err, "purge")
		_, err = e.Inspect(ctx, "a4")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		require.ErrorAs(t, e.Fork(ctx, "a3", "f", pawl.ForkOptions{}), &full)
	}
	refused(e)
	for _, other := range []string{"b", "vip", "vip", "vip", "vip", "", "", "", ""} {
		require.NoError(t, start(e, pawl.NewRunID(), other))
	}
	require.NoError(t, e.Close(ctx))

	e = open(t, dir, options)
	refused(e)
	require.NoError(t, start(e, "a2", "a"), "the same again")
	require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "a2", Definition: def, Tenant: "a"}, nil), pawl.ErrRunExists)
	for _, id := range []workflow.RunID{"a1", "a2"} {
		require.NoError(t, e.Cancel(ctx, id, ""), "it goes on")
		refused(e)
	}
	for _, id := range []workflow.RunID{"a1", "a2"} {
		require.NoError(t, e.Purge(ctx, id))
	}
	require.NoError(t, start(e, "a4", "a"))
	err := start(e, "a5", "a")
	require.ErrorAs(t, err, new(*pawl.TenantFullError))
}

// A task type that an expression has chosen is that of every attempt, also of one that is
// sent by another engine; a dead letter, Inspect and Why name it.
func TestAChosenTaskTypeStays(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	const source = `
name: agent
start: act
nodes:
  - {id: act, taskExpr: input.tool, tasks: [search, count], retry: {exhausted: park}, output: {output.by: result}}
`
	broken := func(context.Context, pawl.Task) (any, error) { return nil, errors.New("broken") }
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"search": broken, "count": named("count")}})
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "a", Definition: define(t, source)}, map[string]any{"tool": "search"}))
	awaitEvent(t, e, "a", workflow.EventTaskParked)

	letters := 0
	for l, err := range e.DeadLetters(ctx, pawl.DeadLetterFilter{Task: "search"}) {
		require.NoError(t, err)
		assert.Equal(t, "search", l.Task)
		letters++
	}
	assert.Equal(t, 1, letters)
	snapshot, err := e.Inspect(ctx, "a")
	require.NoError(t, err)
	assert.Equal(t, "search", snapshot.Tokens[0].Chosen)
	why, err := e.Why(ctx, "a")
	require.NoError(t, err)
	require.Len(t, why.Waits, 1)
	assert.Contains(t, why.Waits[0].For, "of task search")
	require.NoError(t, e.Close(ctx))

	e = open(t, dir, pawl.Options{Executor: pawl.Handlers{"search": named("search"), "count": named("count")}})
	require.NoError(t, e.Retry(ctx, pawl.Target{Run: "a", Node: "act"}, pawl.RetryOptions{}))
	out, err := e.Wait(ctx, "a")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"by": "search"}, out.Output)
}

// All that an expression may choose has to be published before the run starts.
func TestChoicesArePublished(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"a": named("a")}})
	_, err := e.Publish(t.Context(), define(t, "name: finder\nstart: x\nnodes: [{id: x, task: a}]\n"))
	require.NoError(t, err)
	boss := define(t, "name: boss\nstart: ask\nnodes: [{id: ask, subworkflow: {nameExpr: input.agent, names: [finder, writer]}}]\n")
	err = e.Start(t.Context(), workflow.Run{ID: "boss", Definition: boss}, map[string]any{"agent": "finder"})
	require.ErrorIs(t, err, pawl.ErrNotPublished)
	_, err = e.Publish(t.Context(), define(t, "name: writer\nstart: x\nnodes: [{id: x}]\n"))
	require.NoError(t, err)
	out, err := e.Run(t.Context(), workflow.Run{ID: "boss", Definition: boss}, map[string]any{"agent": "finder"})
	require.NoError(t, err)
	assert.Equal(t, workflow.RunCompleted, out.Status)
}

// A task that is dispatched and that nobody performs says what it waits for, its place in line and since when, and nobody is
// advised to skip it; a task that is performed says so.
func TestQueuedTasksSayWhatTheyWaitFor(t *testing.T) {
	for want, o := range map[string]pawl.Options{
		workflow.QueuedForSlot:   {Concurrency: 1},
		workflow.QueuedForType:   {Types: map[string]pawl.TypeLimit{"work": {Concurrency: 1}}},
		workflow.QueuedForRate:   {Types: map[string]pawl.TypeLimit{"work": {Rate: 0.01}}},
		workflow.QueuedForTenant: {Tenants: map[string]pawl.TenantLimit{"acme": {Concurrency: 1}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			hold := make(chan struct{})
			o.Executor = pawl.Handlers{"work": func(ctx context.Context, _ pawl.Task) (any, error) {
				select {
				case <-hold:
				case <-ctx.Done():
				}
				return nil, ctx.Err()
			}}
			e := open(t, t.TempDir(), o)
			def := define(t, "name: w\nstart: s\nnodes: [{id: s}, {id: a, task: work}]\ntransitions: [{from: s, to: a, spawnCount: 3, siblingGroup: g}]\n")
			began := time.Now().UTC()
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Tenant: "acme", Definition: def}, nil))
			<-time.After(time.Second)
			var places []int
			running := 0
			for _, token := range mustInspect(t, e, "r").Tokens[1:] {
				if token.Executing {
					running++
					require.Nil(t, token.Queued, want)
					continue
				}
				require.NotNil(t, token.Queued, want)
				require.Equal(t, want, token.Queued.For)
				require.Equal(t, 2, token.Queued.Of)
				require.True(t, token.Queued.Since.Equal(began), want)
				places = append(places, token.Queued.Place)
			}
			require.Equal(t, 1, running, want)
			require.Equal(t, []int{1, 2}, places, want)

			x, err := e.Why(t.Context(), "r")
			require.NoError(t, err)
			require.Len(t, x.Waits, 1)
			w := x.Waits[0]
			require.Equal(t, []int{3, 1, 2}, []int{w.Count, w.Running, w.Waiting})
			require.Equal(t, 1, w.Queued.Place)
			require.Contains(t, w.For, "attempt 1: 1 run, the first since 2000-01-01T00:00:00Z; 2 wait, the first is queued for")
			require.NotEmpty(t, w.Try, "one is performed")

			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "q", Tenant: "acme", Definition: def}, nil))
			<-time.After(time.Second)
			x, err = e.Why(t.Context(), "q")
			require.NoError(t, err)
			require.Zero(t, x.Waits[0].Running)
			require.Equal(t, 3, x.Waits[0].Queued.Place)
			require.Empty(t, x.Waits[0].Try, "to skip what has not begun helps nobody")
			require.Contains(t, x.Waits[0].For, "3 of 5 in line")
			require.Equal(t, 1, strings.Count(x.Waits[0].For, "since"), x.Waits[0].For)
			close(hold)
		})
	}
}

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
			report, err := rescue.Verify(t.Context(), dir, rescue.Options{Codec: codec})
			require.NoError(t, err)
			require.Zero(t, report.Damage)
			repaired := filepath.Join(t.TempDir(), "repaired")
			_, err = rescue.Repair(t.Context(), dir, repaired, rescue.Options{Codec: codec})
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
	for i := range limits.MaxLabels + 1 {
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
		{map[string]string{strings.Repeat("k", limits.MaxLabelKey+1): "x"}, strings.Repeat("k", limits.MaxLabelKey+1), "the key has 65 bytes, at most 64"},
		{map[string]string{"b": strings.Repeat("v", limits.MaxLabelValue+1), "c": "\n"}, "b", "the value has 257 bytes, at most 256"},
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
	many[strings.Repeat("k", limits.MaxLabelKey)] = strings.Repeat("v", limits.MaxLabelValue)
	delete(many, "1")
	require.NoError(t, start(many))
	require.Equal(t, []workflow.RunID{"r"}, slices.Collect(slices.Values(runsWith(t, e, pawl.RunFilter{Labels: many}))))
}
