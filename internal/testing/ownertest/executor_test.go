package ownertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

// Values and errors as hosts may make them.
type (
	loop          struct{ Next *loop }
	panics        struct{}
	lies          struct{}
	panickingText struct{}
)

// MarshalJSON panics.
func (panics) MarshalJSON() ([]byte, error) { panic("a value's bug") }

// MarshalJSON returns what is no JSON.
func (lies) MarshalJSON() ([]byte, error) { return []byte(`{"a":`), nil }

// Error panics.
func (panickingText) Error() string { panic("an error's bug") }

var nothing map[string]int

func ring() *loop {
	l := &loop{}
	l.Next = l
	return l
}

// badExecutors are what a handler may do wrong, with the code that its task fails
// with.
var badExecutors = map[string]struct {
	do   func() (any, error)
	code string
}{
	"panic with text":         {func() (any, error) { panic("boom") }, "panic"},
	"panic with an error":     {func() (any, error) { panic(errors.New("boom")) }, "panic"},
	"panic with nil":          {func() (any, error) { panic(any(nil)) }, "panic"},
	"panic with bytes":        {func() (any, error) { panic("\xff\x00" + strings.Repeat("x", 1<<20)) }, "panic"},
	"panic with a bad error":  {func() (any, error) { panic(panickingText{}) }, "panic"},
	"nil map":                 {func() (any, error) { nothing["a"] = 1; return nil, nil }, "panic"},
	"nil pointer":             {func() (any, error) { var p *pawl.Task; return p.Run, nil }, "panic"},
	"goexit":                  {func() (any, error) { runtime.Goexit(); return nil, nil }, "panic"},
	"goexit after a panic":    {func() (any, error) { defer runtime.Goexit(); panic("boom") }, "panic"},
	"NaN":                     {func() (any, error) { return math.NaN(), nil }, "invalid_result"},
	"infinity deep inside":    {func() (any, error) { return map[string]any{"a": []any{math.Inf(1)}}, nil }, "invalid_result"},
	"invalid UTF-8":           {func() (any, error) { return "a\xff", nil }, "invalid_result"},
	"invalid UTF-8 as a key":  {func() (any, error) { return map[string]any{"\xc3": 1}, nil }, "invalid_result"},
	"a channel":               {func() (any, error) { return make(chan int), nil }, "invalid_result"},
	"a function":              {func() (any, error) { return func() {}, nil }, "invalid_result"},
	"a complex number":        {func() (any, error) { return 1i, nil }, "invalid_result"},
	"a cycle":                 {func() (any, error) { return ring(), nil }, "invalid_result"},
	"a value that panics":     {func() (any, error) { return panics{}, nil }, "panic"},
	"a value that lies":       {func() (any, error) { return lies{}, nil }, "invalid_result"},
	"raw text that is broken": {func() (any, error) { return json.RawMessage(`[1,`), nil }, "invalid_result"},
	"1e400":                   {func() (any, error) { return json.Number("1e400"), nil }, "invalid_result"},
	"too deep":                {func() (any, error) { return deep(20_000), nil }, "limit_exceeded"},
	"huge":                    {func() (any, error) { return strings.Repeat("x", 2<<20), nil }, "result_too_large"},
	"enormous":                {func() (any, error) { return strings.Repeat("x", 17<<20), nil }, "result_too_large"},
	"an error that panics":    {func() (any, error) { return nil, panickingText{} }, "error"},
	"a typed nil":             {func() (any, error) { return nil, (*pawl.TaskError)(nil) }, "error"},
	"an error of bytes":       {func() (any, error) { return nil, errors.New("\xff\x00") }, "error"},
	"a huge error":            {func() (any, error) { return nil, errors.New(strings.Repeat("x", 4<<20)) }, "error"},
	"a code of bytes":         {func() (any, error) { return nil, pawl.TaskError{Code: "\xff"} }, "\uFFFD"},
	"no code":                 {func() (any, error) { return nil, pawl.TaskError{} }, "error"},
	"an error and a result":   {func() (any, error) { return 1, errors.New("both") }, "error"},
	"a context error":         {func() (any, error) { return nil, context.Canceled }, "error"},
}

func deep(n int) any {
	var v any
	for range n {
		v = []any{v}
	}
	return v
}

// TestBadExecutors has tasks go wrong in every way, next to tasks that do not: the
// run goes on by its error transition, in the order of things, and another run,
// which is asleep meanwhile, is what it was and goes on when it is woken.
func TestBadExecutors(t *testing.T) {
	d := witness.MustParse(`name: bad
start: a
nodes: [{id: a, task: bad}, {id: rescue, task: good, output: {output.ok: result, output.code: error.code}}]
transitions: [{from: a, to: rescue, outcome: error}]`)
	each := harness.Figure(2, 50, 500) // of each kind there are at least two ways
	large := harness.Figure(2, 10, 334)
	synctest.Test(t, func(t *testing.T) {
		names := make([]string, 0, len(badExecutors))
		for name := range badExecutors {
			names = append(names, name)
		}
		slices.Sort(names)
		e, err := pawl.Open(t.Context(), filepath.Join(harness.Workspace(t), "engine"), pawl.Options{
			Durability: pawl.ProcessCrash, Concurrency: 32, Executor: pawl.Handlers{
				"bad":  func(_ context.Context, t pawl.Task) (any, error) { return badExecutors[nameOf(t.Run)].do() },
				"good": func(context.Context, pawl.Task) (any, error) { return "good", nil },
			}})
		require.NoError(t, err)
		bystander := workflow.Run{ID: "bystander", Definition: witness.MustParse(`name: bystander
start: a
nodes: [{id: a, wait: {event: go}}, {id: b, task: good, output: {output.ok: result}}]
transitions: [{from: a, to: b}]`)}
		require.NoError(t, e.Start(t.Context(), bystander, nil))
		synctest.Wait()
		before, err := e.Inspect(t.Context(), bystander.ID)
		require.NoError(t, err)
		for _, name := range names {
			count := each
			if name == "enormous" || name == "huge" || name == "a huge error" || name == "too deep" {
				count = large
			}
			for i := range count {
				run := workflow.Run{ID: workflow.RunID(fmt.Sprint(name, "#", i)), Definition: d}
				out, err := e.Run(t.Context(), run, nil)
				require.NoError(t, err, name)
				require.NoError(t, out.Err(), name)
				require.Equal(t, "good", out.Output["ok"], name)
				assert.Equal(t, badExecutors[name].code, out.Output["code"], name)
			}
		}
		after, err := e.Inspect(t.Context(), bystander.ID)
		require.NoError(t, err)
		require.Equal(t, before, after, "another run")
		require.NoError(t, e.Signal(t.Context(), bystander.ID, workflow.Signal{Name: "go"}))
		out, err := e.Wait(t.Context(), bystander.ID)
		require.NoError(t, err)
		require.Equal(t, "good", out.Output["ok"], "another run")
		require.NoError(t, e.Close(t.Context()))
		t.Logf("%d ways to go wrong, %d times each (large ones %d), every run went on; violations: 0", len(names), each, large)
	})
}

func nameOf(id workflow.RunID) string {
	name, _, _ := strings.Cut(string(id), "#")
	return name
}

// TestHangingExecutors has tasks hang that ignore their contexts: their attempts
// time out, what they come to later is stale and changes nothing, and Close returns
// when its own context is done, and names those that have not returned.
func TestHangingExecutors(t *testing.T) {
	hangs := harness.Figure(10, 100, 1000)
	synctest.Test(t, func(t *testing.T) {
		d := witness.MustParse(`name: hang
start: a
nodes: [{id: a, task: hang, timeout: 5s, retry: {maxAttempts: 2, initialInterval: 1s}, output: {output.ok: result}}]`)
		free := make(chan struct{})
		var mu sync.Mutex
		var late []pawl.Key
		dir := filepath.Join(harness.Workspace(t), "engine")
		e, err := pawl.Open(t.Context(), dir, pawl.Options{Durability: pawl.ProcessCrash, Concurrency: 2 * hangs, Executor: pawl.Handlers{
			"hang": func(_ context.Context, task pawl.Task) (any, error) {
				if task.Attempt == 2 && len(task.Run)%2 == 0 {
					return "second", nil
				}
				mu.Lock()
				late = append(late, task.Key)
				mu.Unlock()
				<-free
				return "late", nil
			}}})
		require.NoError(t, err)
		id := func(i int) workflow.RunID { return workflow.RunID(strings.Repeat("h", 1+i%2) + fmt.Sprintf("%04d", i)) }
		began := time.Now()
		for i := range hangs {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id(i), Definition: d}, nil))
		}
		seqs := map[workflow.RunID]int64{}
		for i := range hangs {
			out, err := e.Wait(t.Context(), id(i))
			require.NoError(t, err)
			if len(id(i))%2 == 0 {
				require.NoError(t, out.Err())
				require.Equal(t, "second", out.Output["ok"])
			} else {
				require.Equal(t, workflow.CodeTimeout, out.Failure.Code)
			}
			snap, err := e.Inspect(t.Context(), id(i))
			require.NoError(t, err)
			seqs[id(i)] = snap.Seq
		}
		require.InDelta(t, 11*time.Second, time.Since(began), float64(time.Second))
		mu.Lock()
		stale := slices.Clone(late)
		mu.Unlock()
		for _, key := range stale {
			err := e.Complete(t.Context(), key, "late")
			require.True(t, errors.Is(err, pawl.ErrStale) || errors.Is(err, pawl.ErrEnded), "%v", err)
		}
		closeBegan := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var left *pawl.LeftBehindError
		require.ErrorAs(t, e.Close(ctx), &left)
		require.Len(t, left.Tasks, len(stale))
		require.Equal(t, 3*time.Second, time.Since(closeBegan), "Close waits as long as it may, and no longer")
		close(free) // they deliver to an engine that is closed
		synctest.Wait()
		e, err = pawl.Open(t.Context(), dir, pawl.Options{})
		require.NoError(t, err)
		for run, seq := range seqs {
			snap, err := e.Inspect(t.Context(), run)
			require.NoError(t, err)
			require.Equal(t, seq, snap.Seq, "a late result has changed %s", run)
		}
		require.NoError(t, e.Close(t.Context()))
		t.Logf("%d runs with hanging tasks, %d late results were stale, Close took 3 s of 3 s; violations: 0", hangs, len(stale))
	})
}
