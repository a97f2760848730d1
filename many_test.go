package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

const waiter = `{name: waiter, version: %d, start: a, nodes: [{id: a, wait: {event: e}}]}`

// ofRuns selects runs.
func ofRuns(f pawl.RunFilter) pawl.Selection { return pawl.Selection{Runs: &f} }

// changedLetters does an act to all dead letters of a filter, and returns how many took it.
func changedLetters(ctx context.Context, t *testing.T, e *pawl.Engine, f pawl.DeadLetterFilter, a pawl.Act) int {
	t.Helper()
	report, err := e.DoAll(ctx, pawl.Selection{DeadLetters: &f}, a)
	require.NoError(t, err)
	require.Empty(t, report.Refused)
	return report.Changed
}

// A DoAll that has used up the effort of its filter says where it goes on, also if nothing has fitted.
func TestDoAllGoesOnBehindItsEffort(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	const runs = 5
	for i := range runs {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	}
	s := ofRuns(pawl.RunFilter{Where: "seq > 1000", Effort: 1})
	for calls := 1; ; calls++ {
		report, err := e.DoAll(t.Context(), s, pawl.Pause{})
		require.Zero(t, report.Found)
		if err == nil {
			require.Zero(t, report.Cursor)
			return
		}
		require.ErrorAs(t, err, new(*pawl.EffortError))
		require.NotEqual(t, s.After, report.Cursor)
		require.LessOrEqual(t, calls, runs)
		s.After = report.Cursor
	}
}

// An act on many runs changes each of them or not, and says which.
func TestActsOnManyRuns(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for i := range 3 {
		for _, version := range []int{1, 2} {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprintf("r%d%d", i, version)), Definition: define(t, fmt.Sprintf(waiter, version))}, nil))
		}
	}
	require.NoError(t, e.Cancel(t.Context(), "r01", ""))
	longer := map[string]any{"op": "add", "path": "/nodes/a/timeout", "value": "1h"}
	waiters := ofRuns(pawl.RunFilter{Workflow: "waiter"})
	report, err := e.DoAll(t.Context(), waiters, pawl.Patch{Of: func(d *workflow.Definition) []any {
		if d.Version == 2 {
			return nil
		}
		return []any{longer}
	}})
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Applied: true, Found: 5, Changed: 2, Left: 3}, report)
	d, revision, err := e.Definition(t.Context(), "r11")
	require.NoError(t, err)
	require.Equal(t, 2, revision)
	require.Equal(t, "1h0m0s", d.Nodes[0].Timeout.String())

	first, err := e.Revision(t.Context(), "r11", 1)
	require.NoError(t, err)
	require.Zero(t, first.Nodes[0].Timeout)
	second, err := e.Revision(t.Context(), "r11", 2)
	require.NoError(t, err)
	require.Equal(t, d, second)
	_, err = e.Revision(t.Context(), "r11", 3)
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.ErrorContains(t, err, `run "r11" has no revision 3`)

	report, err = e.DoAll(t.Context(), ofRuns(pawl.RunFilter{Prefix: "r1"}), pawl.Patch{Ops: []any{map[string]any{"op": "remove", "path": "/nodes/a"}}})
	require.NoError(t, err)
	require.Len(t, report.Refused, 2)
	require.Equal(t, workflow.RunID("r11"), report.Refused[0].Run)
	require.Equal(t, report.Refused[0].Err.Error(), report.Refused[0].Why)

	cancelling := ofRuns(pawl.RunFilter{Prefix: "r2"})
	cancelling.DryRun = true
	report, err = e.DoAll(t.Context(), cancelling, pawl.Cancel{})
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Found: 2, Targets: []pawl.Target{{Run: "r21"}, {Run: "r22"}}}, report)
	cancelling.DryRun = false
	report, err = e.DoAll(t.Context(), cancelling, pawl.Cancel{Reason: "closed"})
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Applied: true, Found: 2, Changed: 2}, report, "the dry run has changed nothing")
	out, err := e.Wait(t.Context(), "r22")
	require.NoError(t, err)
	require.Equal(t, "closed", out.Failure.Message)
	for _, wrong := range []pawl.Patch{{}, {Base: 1, Ops: []any{longer}}} {
		_, err = e.DoAll(t.Context(), waiters, wrong)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
}

// A patch that is made of the definition of its run is for the revision that the run has, and is made again if somebody patches the run
// meanwhile.
func TestPatchOfTheDefinition(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	set := func(timeout string) []any {
		return []any{map[string]any{"op": "add", "path": "/nodes/a/timeout", "value": timeout}}
	}
	asked := 0
	revision, err := e.Patch(t.Context(), "r", pawl.Patch{Of: func(*workflow.Definition) []any {
		if asked++; asked == 1 {
			_, err := e.Patch(t.Context(), "r", pawl.Patch{Base: 1, Ops: set("1h")})
			require.NoError(t, err)
		}
		return set("2h")
	}})
	require.NoError(t, err)
	require.Equal(t, []int{3, 2}, []int{revision, asked})
	revision, err = e.Patch(t.Context(), "r", pawl.Patch{Of: func(*workflow.Definition) []any { return nil }})
	require.NoError(t, err)
	require.Equal(t, 3, revision, "there was nothing to change")
	always := pawl.Patch{Of: func(*workflow.Definition) []any {
		_, now, err := e.Definition(t.Context(), "r")
		require.NoError(t, err)
		_, err = e.Patch(t.Context(), "r", pawl.Patch{Base: now, Ops: set("1h")})
		require.NoError(t, err)
		return set("2h")
	}}
	_, err = e.Patch(t.Context(), "r", always)
	require.ErrorIs(t, err, pawl.ErrConflict)
	_, err = e.Patch(t.Context(), "r", pawl.Patch{Ops: set("1h"), Of: always.Of})
	require.ErrorIs(t, err, pawl.ErrInvalid)

	sim, err := e.Simulate(t.Context(), pawl.OfRun{Run: "r"})
	require.NoError(t, err)
	require.NoError(t, sim.Do(t.Context(), pawl.Patch{Of: func(*workflow.Definition) []any { return set("3h") }}))
	d, _, err := sim.Definition()
	require.NoError(t, err)
	require.Equal(t, "3h0m0s", d.Nodes[0].Timeout.String())
}

// A limit counts runs that a call can change; others are not looked at. Parents are cancelled
// before their children, which would make them fail.
func TestWhichOfManyRuns(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": hold}})
	for i := range 4 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	}
	for _, want := range []pawl.Report{{Found: 3, Changed: 3, Cursor: pawl.Target{Run: "r2"}}, {Found: 1, Changed: 1}, {}} {
		report, err := e.DoAll(t.Context(), ofRuns(pawl.RunFilter{Limit: 3}), pawl.Cancel{})
		require.NoError(t, err)
		want.Applied = true
		require.Equal(t, want, report)
	}
	ended := []workflow.RunStatus{workflow.RunCancelled, workflow.RunFailed}
	report, err := e.DoAll(t.Context(), ofRuns(pawl.RunFilter{Status: ended, Where: `seq > 0`}), pawl.Cancel{})
	require.NoError(t, err)
	require.Zero(t, report.Found)
	_, err = e.DoAll(t.Context(), ofRuns(pawl.RunFilter{Status: ended, Where: `seq >`}), pawl.Cancel{})
	require.ErrorAs(t, err, new(*pawl.WhereError))

	publish(t, e, define(t, callee))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "parent", Definition: define(t, caller)}, map[string]any{"n": 1}))
	for c, err := range e.Watch(t.Context(), pawl.WatchFilter{Parent: "parent"}) {
		require.NoError(t, err)
		if _, err := e.Summary(t.Context(), "parent/1.1"); err == nil || !c.Lost {
			break
		}
	}
	_, err = e.DoAll(t.Context(), ofRuns(pawl.RunFilter{Newest: true}), pawl.Cancel{})
	require.NoError(t, err)
	require.Equal(t, workflow.RunCancelled, outcomeOf(t, e, "parent").Status)
}

// A brokenCodec stores nothing of one run: the error is of a disk without space, or of that run alone.
type brokenCodec struct{ of atomic.Pointer[brokenRun] }

type brokenRun struct {
	run workflow.RunID
	err error
}

func (*brokenCodec) KeyID() string { return "plain" }

func (c *brokenCodec) Encode(place string, plain []byte) ([]byte, error) {
	if of := c.of.Load(); of != nil && strings.Contains(place, string(of.run)) {
		return nil, of.err
	}
	return plain, nil
}

func (*brokenCodec) Decode(_, _ string, stored []byte) ([]byte, error) { return stored, nil }

// A call that acts on many runs says how far it came when it ends early, and goes on from there; an error that
// concerns one run alone does not end it, and one that concerns all does.
func TestDoAllGoesOn(t *testing.T) {
	codec := &brokenCodec{}
	e := open(t, t.TempDir(), pawl.Options{Codec: codec})
	for i := range 5 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: define(t, fmt.Sprintf(waiter, i+2))}, nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var seen []int
	patch := pawl.Patch{Of: func(d *workflow.Definition) []any {
		switch seen = append(seen, d.Version); d.Version {
		case 3:
			return []any{"no operation"}
		case 4:
			cancel()
		}
		return []any{map[string]any{"op": "add", "path": "/nodes/a/timeout", "value": "1h"}}
	}}
	report, err := e.DoAll(ctx, ofRuns(pawl.RunFilter{}), patch)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []any{3, 2, 1, pawl.Target{Run: "r2"}}, []any{report.Found, report.Changed, len(report.Refused), report.Cursor}, "that which was under way is finished")
	require.Equal(t, workflow.RunID("r1"), report.Refused[0].Run)
	require.ErrorAs(t, report.Refused[0].Err, new(*workflow.PatchError))
	goOn := ofRuns(pawl.RunFilter{})
	goOn.After = report.Cursor
	report, err = e.DoAll(t.Context(), goOn, patch)
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Applied: true, Found: 2, Changed: 2}, report)
	require.Equal(t, []int{2, 3, 4, 5, 6}, seen)

	codec.of.Store(&brokenRun{"r1", pawl.ErrNoSpace})
	report, err = e.DoAll(t.Context(), ofRuns(pawl.RunFilter{}), pawl.Pause{})
	require.ErrorIs(t, err, pawl.ErrNoSpace)
	require.ErrorContains(t, err, `run "r1"`)
	require.Equal(t, pawl.Report{Applied: true, Found: 1, Changed: 1, Cursor: pawl.Target{Run: "r0"}}, report, "r1 is tried again")
}

// A selection has one filter and takes the acts that the table of acts says: of runs, dead letters or approvals.
func TestWhatASelectionTakes(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	selections := map[acts.Many]pawl.Selection{acts.Runs: {Runs: &pawl.RunFilter{}}, acts.DeadLetters: {DeadLetters: &pawl.DeadLetterFilter{}}, acts.Approvals: {Approvals: &pawl.ApprovalFilter{}}}
	for _, v := range acts.All() {
		act, err := v.Decode(map[string]json.RawMessage{"name": []byte(`"x"`)})
		for _, fields := range []string{`{}`, `{"name":"x"}`, `{"ops":[{}]}`, `{"nodes":["a"]}`, `{"group":"g"}`, `{"approved":true}`, `{"code":"c"}`, `{"meta":{"cost":1}}`, `{"elapse":"1s"}`} {
			if err != nil {
				var of map[string]json.RawMessage
				require.NoError(t, json.Unmarshal([]byte(fields), &of))
				act, err = v.Decode(of)
			}
		}
		require.NoError(t, err, v.Name)
		if v.Name == "patch" {
			act = pawl.Patch{Ops: []any{1}}
		}
		for many, s := range selections {
			_, err = e.DoAll(t.Context(), s, act)
			require.Equal(t, v.Many == many, err == nil, "%s of %v: %v", v.Name, many, err)
			if err != nil {
				require.ErrorIs(t, err, pawl.ErrInvalid)
			}
		}
	}
	for _, wrong := range []pawl.Selection{{}, {Runs: &pawl.RunFilter{}, Approvals: &pawl.ApprovalFilter{}}} {
		_, err := e.DoAll(t.Context(), wrong, pawl.Cancel{})
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	_, err := e.DoAll(t.Context(), ofRuns(pawl.RunFilter{}), nil)
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// A call that ends early is gone on with in the direction that it had, from where it came to, also if that is where
// it began.
func TestDoAllKeepsItsDirection(t *testing.T) {
	codec := &brokenCodec{}
	e := open(t, t.TempDir(), pawl.Options{Codec: codec})
	for i := range 5 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: define(t, fmt.Sprintf(waiter, i+2))}, nil))
	}
	for want, f := range map[string]pawl.RunFilter{
		"[0 1 2 3 4]": {Newest: true}, "[4 3 2 1 0]": {Newest: true, Limit: 2}, "[1 2 3 4]": {Newest: true, After: "r0"}, "[2 1 0]": {Newest: true, After: "r3", Limit: 1},
	} {
		var seen []int
		s, step := ofRuns(f), 0
		patch := func(failing int) pawl.Patch { // at the so manieth run, from 0
			return pawl.Patch{Of: func(d *workflow.Definition) []any {
				codec.of.Store(nil)
				if failing--; failing < 0 {
					codec.of.Store(&brokenRun{workflow.RunID(fmt.Sprint("r", d.Version-2)), pawl.ErrNoSpace})
				} else {
					seen = append(seen, d.Version-2)
				}
				return []any{map[string]any{"op": "add", "path": "/nodes/a/timeout", "value": fmt.Sprintf("%dh%dm", len(want), step)}}
			}}
		}
		for ; ; step++ {
			report, err := e.DoAll(t.Context(), s, patch(1+step%2))
			if s.After = report.Cursor; s.After.Run == "" {
				require.NoError(t, err)
				break
			}
			report, err = e.DoAll(t.Context(), s, patch(0))
			require.ErrorIs(t, err, pawl.ErrNoSpace)
			require.Equal(t, pawl.Report{Applied: true, Cursor: s.After}, report)
		}
		codec.of.Store(nil)
		require.Equal(t, want, fmt.Sprint(seen))
	}
}

// An error of the run behind the last one of a limit is told by the call that goes on from there.
func TestDoAllUpToAFault(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for i, n := range []string{"1", "x"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Labels: map[string]string{"n": n}, Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	}
	s := ofRuns(pawl.RunFilter{Where: "int(labels.n) > 0", Limit: 1})
	report, err := e.DoAll(t.Context(), s, pawl.Cancel{})
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Applied: true, Found: 1, Changed: 1, Cursor: pawl.Target{Run: "r0"}}, report)
	s.After = report.Cursor
	_, err = e.DoAll(t.Context(), s, pawl.Cancel{})
	require.ErrorAs(t, err, new(*pawl.WhereError))
}

// A damaged run is refused, by the error that says what is wrong with it. A dry run counts it: nobody knows whether it fits.
func TestDoAllLeavesDamagedRuns(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "bad", Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	require.NoError(t, e.Close(t.Context()))
	runs := filepath.Join(dir, "runs")
	require.NoError(t, os.RemoveAll(runs))
	require.NoError(t, os.Mkdir(runs, 0o700))
	e = open(t, dir, pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "good", Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	all := ofRuns(pawl.RunFilter{Sort: "cost"}) // for which each run is read
	all.DryRun = true
	report, err := e.DoAll(t.Context(), all, pawl.Pause{})
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Found: 2, Targets: []pawl.Target{{Run: "good"}}}, report)
	all.DryRun = false
	report, err = e.DoAll(t.Context(), all, pawl.Pause{})
	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 1}, []int{report.Found, report.Changed, len(report.Refused)})
	var damage *pawl.CorruptError
	require.ErrorAs(t, report.Refused[0].Err, &damage)
	require.Equal(t, workflow.RunID("bad"), damage.Run)
	require.Equal(t, runs, filepath.Dir(filepath.Dir(damage.File)))
	require.Equal(t, 1, strings.Count(report.Refused[0].Why, "corrupt"), report.Refused[0].Why)
}

// Published definitions can be listed and read.
func TestDefinitionsAreListed(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for i := range 300 { // more than a page
		_, err := e.Publish(t.Context(), define(t, fmt.Sprintf(waiter, i+1)))
		require.NoError(t, err)
	}
	_, err := e.Publish(t.Context(), define(t, oneTask))
	require.NoError(t, err)
	var versions []int
	names := map[string]bool{}
	for d, err := range e.Definitions(t.Context(), pawl.DefinitionFilter{}) {
		require.NoError(t, err)
		names[d.Name] = true
		if d.Name == "waiter" {
			versions = append(versions, d.Version)
			require.NotEmpty(t, d.Hash)
		}
	}
	require.Len(t, names, 2)
	require.Len(t, versions, 300)
	for name, want := range map[string]int{"waiter": 300, "one": 1, "on": 0, "x": 0} {
		n := 0
		for d, err := range e.Definitions(t.Context(), pawl.DefinitionFilter{Workflow: name}) {
			require.NoError(t, err)
			require.Equal(t, name, d.Name)
			n++
		}
		require.Equal(t, want, n)
	}
	require.Equal(t, 300, versions[299])
	d, err := e.Published(t.Context(), "waiter", 0)
	require.NoError(t, err)
	require.Equal(t, 300, d.Version)
	_, err = e.Published(t.Context(), "waiter", 301)
	require.ErrorIs(t, err, pawl.ErrNotPublished)
}

// The cost of a failed attempt is told with its failure.
func TestMetadataOfFailedAttempts(t *testing.T) {
	cost := map[string]any{"tokens_used": int64(7)}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		require.Equal(t, task.Run, task.Root)
		switch task.Attempt {
		case 1:
			return pawl.Result{Metadata: cost}, errors.New("beside a result")
		case 2:
			return nil, pawl.WithMetadata(pawl.TaskError{Code: "busy", Retryable: true}, cost)
		default:
			return nil, pawl.WithMetadata(pawl.Permanent(errors.New("with what is no value")), map[string]any{"f": func() {}})
		}
	}}})
	def := define(t, `{name: f, start: a, nodes: [{id: a, task: work, retry: {maxAttempts: 3, initialInterval: 1ms}}]}`)
	out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: def}, nil)
	require.NoError(t, err)
	require.Equal(t, "with what is no value", out.Failure.Message)
	retrying := eventsOf(t, e, "r", workflow.EventTaskRetrying)
	require.Len(t, retrying, 2)
	for _, ev := range retrying {
		require.Equal(t, cost, ev.Data["metadata"])
	}
	failed := eventsOf(t, e, "r", workflow.EventTaskFailed)[0].Data["metadata"].(map[string]any)
	require.Contains(t, failed, "invalid_metadata")
	require.Nil(t, pawl.ErrorMetadata(errors.New("none")))
	require.NoError(t, pawl.WithMetadata(nil, cost))

	e = open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "later", Definition: define(t, `{name: f, start: a, nodes: [{id: a, task: work, retry: {maxAttempts: 1, exhausted: park}}]}`)}, nil))
	key := eventsOf(t, e, "later", workflow.EventTaskDispatched)[0].Data["key"].(string)
	require.NoError(t, e.Fail(t.Context(), pawl.Key(key), pawl.WithMetadata(errors.New("no"), cost)))
	require.Equal(t, cost, eventsOf(t, e, "later", workflow.EventTaskParked)[0].Data["metadata"])
}

// parkFive starts a run whose fan-out parks five tasks, and returns the engine when all are parked.
func parkFive(t *testing.T) *pawl.Engine {
	t.Helper()
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"load": func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "bad_line", Message: "no"}
	}}})
	d := define(t, `{name: import, start: split, nodes: [{id: split}, {id: load, task: load, retry: {maxAttempts: 1, exhausted: park}}, {id: done}],
		transitions: [{from: split, to: load, foreach: {collection: input.lines}, siblingGroup: g}, {from: load, to: done, synchronization: {siblingGroup: g}}]}`)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "import-1", Definition: d}, map[string]any{"lines": []int{0, 1, 2, 3, 4}}))
	parked := 0
	for ev, err := range e.Events(t.Context(), "import-1", pawl.EventsOptions{Follow: true}) {
		require.NoError(t, err)
		if ev.Type == workflow.EventTaskParked {
			parked++
		}
		if parked == 5 {
			break
		}
	}
	return e
}

// tokensParked returns the tokens of dead letters that fit a filter.
func tokensParked(t *testing.T, e *pawl.Engine, f pawl.DeadLetterFilter) (out []workflow.TokenID) {
	t.Helper()
	for l, err := range e.DeadLetters(t.Context(), f) {
		require.NoError(t, err)
		out = append(out, l.Token)
	}
	return out
}

// Dead letters are acted on in steps that go on where the last one stopped, though what was acted on has left the list; one that refuses is
// named with its token, and keeps no other from being acted on.
func TestDoAllDeadLettersInSteps(t *testing.T) {
	e := parkFive(t)
	all := tokensParked(t, e, pawl.DeadLetterFilter{})
	s := pawl.Selection{DeadLetters: &pawl.DeadLetterFilter{Run: "import-1", Limit: 2}}
	_, err := e.Patch(t.Context(), "import-1", pawl.Patch{Base: 1, Ops: []any{op("add", "/nodes/load/outputSchema", map[string]any{"type": "string"})}})
	require.NoError(t, err)
	steps, refused := 0, 0
	for more := true; more; steps++ {
		skip := pawl.Skip{Output: "skipped"}
		if steps == 1 {
			skip.Output = 1
		}
		r, err := e.DoAll(pawl.As(t.Context(), "ann"), s, skip)
		require.NoError(t, err)
		require.Equal(t, r.Found, r.Changed+len(r.Refused))
		if steps == 1 {
			require.Equal(t, pawl.Target{Run: "import-1", Token: all[3]}, r.Cursor)
			for i, one := range r.Refused {
				require.Equal(t, []any{workflow.RunID("import-1"), all[2+i]}, []any{one.Run, one.Token})
				require.ErrorAs(t, one.Err, new(*workflow.Failure))
			}
		}
		refused += len(r.Refused)
		more, s.After = r.Cursor.Run != "", r.Cursor
	}
	require.Equal(t, []int{3, 2}, []int{steps, refused})
	require.Equal(t, all[2:4], tokensParked(t, e, pawl.DeadLetterFilter{}))
	require.Equal(t, 2, changedLetters(t.Context(), t, e, pawl.DeadLetterFilter{}, pawl.Skip{Output: "skipped"}))
	_, err = e.Wait(t.Context(), "import-1")
	require.NoError(t, err)
	_, err = e.DoAll(t.Context(), pawl.Selection{DeadLetters: &pawl.DeadLetterFilter{After: "nobody"}}, pawl.Skip{})
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
}

// A dead letter that waits no longer when its turn comes, since the skip of another one has ended it, is left.
func TestDoAllLeavesWhatWaitsNoLonger(t *testing.T) {
	e := parkFive(t)
	_, err := e.Patch(t.Context(), "import-1", pawl.Patch{Base: 1, Ops: []any{
		op("add", "/transitions/load->done/synchronization", map[string]any{"siblingGroup": "g", "strategy": "any", "remaining": "cancel"}),
	}})
	require.NoError(t, err)
	r, err := e.DoAll(t.Context(), pawl.Selection{DeadLetters: &pawl.DeadLetterFilter{}}, pawl.Skip{})
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Applied: true, Found: 5, Changed: 1, Left: 4}, r)
}

// Pages of both lists begin behind a token of a run, and hold as many as are asked for.
func TestPagesOfWhatWaits(t *testing.T) {
	e := parkFive(t)
	all := tokensParked(t, e, pawl.DeadLetterFilter{})
	require.Len(t, all, 5)
	require.Equal(t, all[2:4], tokensParked(t, e, pawl.DeadLetterFilter{After: "import-1", AfterToken: all[1], Limit: 2}))

	asks := define(t, `{name: asks, start: a, nodes: [{id: a, approval: {message: "'go?'"}}]}`)
	for i := range 3 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("asks-", i)), Definition: asks}, nil))
	}
	approvals := func(f pawl.ApprovalFilter) (runs []workflow.RunID) {
		for a, err := range e.Approvals(t.Context(), f) {
			require.NoError(t, err)
			runs = append(runs, a.Run)
		}
		return runs
	}
	require.Equal(t, []workflow.RunID{"asks-0", "asks-1"}, approvals(pawl.ApprovalFilter{Limit: 2}))
	require.Equal(t, []workflow.RunID{"asks-1", "asks-2"}, approvals(pawl.ApprovalFilter{After: "asks-0", AfterToken: 1}), "whether or not it still waits")

	r, err := e.DoAll(t.Context(), pawl.Selection{Approvals: &pawl.ApprovalFilter{Workflow: "asks", Limit: 2}}, pawl.Vote{By: "ann", Approved: true})
	require.NoError(t, err)
	require.Equal(t, 2, r.Changed)
	require.Equal(t, workflow.RunID("asks-1"), r.Cursor.Run)
	require.Equal(t, []workflow.RunID{"asks-2"}, approvals(pawl.ApprovalFilter{After: r.Cursor.Run, AfterToken: r.Cursor.Token}))
}

// Acts on all dead letters leave alone what somebody has retried since they were listed, and whose attempt would be lost.
func TestActsOnAllLeaveWhatWasRetried(t *testing.T) {
	for name, act := range map[string]pawl.Act{"skip": pawl.Skip{Output: "skipped"}, "retry": pawl.Retry{Input: workflow.InputAgain}} {
		t.Run(name, func(t *testing.T) {
			again, keys := atomic.Bool{}, make(chan pawl.Key, 2)
			codec := &retryingCodec{}
			e := open(t, t.TempDir(), pawl.Options{Codec: codec, IdleAfter: time.Hour, Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
				if !again.Load() {
					return nil, pawl.TaskError{Code: "no", Message: "not now"}
				}
				keys <- task.Key
				return nil, pawl.ErrPending
			}}})
			def := define(t, "name: d\nstart: a\nnodes: [{id: a, task: work, retry: {maxAttempts: 1, exhausted: park}}]\n")
			for _, id := range []workflow.RunID{"one", "two"} {
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
				for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{Follow: true}) {
					require.NoError(t, err)
					if ev.Type == workflow.EventTaskParked {
						break
					}
				}
			}
			again.Store(true)
			var key pawl.Key
			codec.once.Store(func() { // in the commit of the first: somebody retries the other one
				if err := e.Retry(t.Context(), pawl.Target{Run: "two", Node: "a"}, pawl.RetryOptions{}); err != nil {
					t.Error(err)
					return
				}
				for key = <-keys; !strings.Contains(string(key), "two"); key = <-keys {
				}
			})
			r, err := e.DoAll(t.Context(), pawl.Selection{DeadLetters: &pawl.DeadLetterFilter{}}, act)
			require.NoError(t, err)
			require.Equal(t, pawl.Report{Applied: true, Found: 2, Changed: 1, Left: 1}, r)
			require.NoError(t, e.Complete(t.Context(), key, "done"))
			out, err := e.Wait(t.Context(), "two")
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
		})
	}
}

// A retryingCodec does something once, when a record of the run one is stored.
type retryingCodec struct{ once atomic.Value }

func (*retryingCodec) KeyID() string { return "plain" }

func (c *retryingCodec) Encode(place string, plain []byte) ([]byte, error) {
	if do, _ := c.once.Load().(func()); do != nil && strings.Contains(place, "one") {
		c.once.Store((func())(nil))
		do()
	}
	return plain, nil
}

func (*retryingCodec) Decode(_, _ string, stored []byte) ([]byte, error) { return stored, nil }

// A report is written as JSON without what it has not.
func TestAReportAsJSON(t *testing.T) {
	for want, report := range map[string]pawl.Report{
		`{"applied":false,"found":0,"changed":0,"left":0}`: {},
		`{"applied":true,"found":1,"changed":0,"left":0,"refused":[{"run":"import-1","token":2,"error":"no"}],"cursor":{"run":"import-1","token":2}}`: {
			Applied: true, Found: 1, Refused: []pawl.Refusal{{Run: "import-1", Token: 2, Err: errors.New("no"), Why: "no"}}, Cursor: pawl.Target{Run: "import-1", Token: 2},
		},
	} {
		text, err := json.Marshal(report)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

// The story of docs/act.md: a dead letter is found, its cause patched, and the
// retry calls the mended address.
func TestDeadLetterFromCauseToCure(t *testing.T) {
	ctx := t.Context()
	fetch := func(_ context.Context, t pawl.Task) (any, error) {
		url := t.Input.(map[string]any)["url"]
		if url != "https://new.example/7" {
			return nil, pawl.TaskError{Code: "http_404", Message: "not found"}
		}
		return map[string]any{"sum": 10}, nil
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"http": fetch}})
	d := workflow.Definition{
		Name: "invoice", Start: "fetch", Nodes: []workflow.Node{{
			ID: "fetch", Task: "http", Input: map[string]string{"url": "'https://old.example/' + input.id"},
			Retry: &workflow.RetrySpec{Exhausted: workflow.ExhaustedPark}, Output: map[string]string{"output.sum": "result.sum"},
		}},
	}
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "invoice-7", Definition: &d}, map[string]any{"id": "7"}))
	awaitEvent(t, e, "invoice-7", workflow.EventTaskParked)

	n := 0
	for l, err := range e.DeadLetters(ctx, pawl.DeadLetterFilter{Code: "http_404"}) {
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"url": "https://old.example/7"}, l.Input)
		n++
	}
	require.Equal(t, 1, n)
	patchURL(t, e, "input.address")
	at := pawl.Target{Run: "invoice-7", Node: "fetch"}
	var failure *workflow.Failure
	require.ErrorAs(t, e.Retry(ctx, at, pawl.RetryOptions{}), &failure)
	assert.Equal(t, workflow.CodeExpression, failure.Code)
	assert.Equal(t, workflow.NodeID("fetch"), failure.Node)
	require.ErrorIs(t, e.Retry(ctx, at, pawl.RetryOptions{Input: "anew"}), pawl.ErrInvalid)

	patchURL(t, e, "'https://new.example/' + input.id")
	require.NoError(t, e.Retry(ctx, at, pawl.RetryOptions{}))
	out, err := e.Wait(ctx, "invoice-7")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"sum": int64(10)}, out.Output)
	renewed := awaitEvent(t, e, "invoice-7", workflow.EventTaskInputRenewed)
	assert.Equal(t, map[string]any{"revision": int64(3), "asked": false}, renewed.Data)
}

// One dead letter whose input cannot be evaluated keeps a retry of all from no other.
func TestARetryOfAllGoesOnAfterARefusal(t *testing.T) {
	ctx := t.Context()
	calls := map[workflow.RunID]int{}
	work := func(_ context.Context, t pawl.Task) (any, error) {
		if calls[t.Run]++; calls[t.Run] == 1 {
			return nil, errors.New("at first")
		}
		return nil, nil
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"http": work}, Concurrency: 1})
	d := workflow.Definition{Name: "two", Start: "fetch", Nodes: []workflow.Node{{
		ID: "fetch", Task: "http", Input: map[string]string{"url": "'u'"}, Retry: &workflow.RetrySpec{Exhausted: workflow.ExhaustedPark},
	}}}
	for _, id := range []workflow.RunID{"invoice-7", "other"} {
		require.NoError(t, e.Start(ctx, workflow.Run{ID: id, Definition: &d}, nil))
		awaitEvent(t, e, id, workflow.EventTaskParked)
	}
	patchURL(t, e, "input.address")
	report, err := e.DoAll(ctx, pawl.Selection{DeadLetters: &pawl.DeadLetterFilter{}}, pawl.Retry{})
	require.NoError(t, err)
	require.Equal(t, 1, report.Changed)
	require.Len(t, report.Refused, 1)
	require.Equal(t, workflow.RunID("invoice-7"), report.Refused[0].Run)
	require.ErrorAs(t, report.Refused[0].Err, new(*workflow.Failure))
	_, err = e.Wait(ctx, "other")
	require.NoError(t, err)
	require.Equal(t, 1, changedLetters(ctx, t, e, pawl.DeadLetterFilter{}, pawl.Retry{Input: workflow.InputKept}))
}

// patchURL replaces the expression of the url at the node fetch of the run invoice-7.
func patchURL(t *testing.T, e *pawl.Engine, expression string) {
	t.Helper()
	_, revision, err := e.Definition(t.Context(), "invoice-7")
	require.NoError(t, err)
	_, err = e.Patch(t.Context(), "invoice-7", pawl.Patch{Base: revision, Ops: []any{
		map[string]any{"op": "replace", "path": "/nodes/fetch/input/url", "value": expression},
	}})
	require.NoError(t, err)
}

// awaitEvent returns the first event of a type, when it has come.
func awaitEvent(t *testing.T, e *pawl.Engine, run workflow.RunID, typ workflow.EventType) history.Event {
	t.Helper()
	for ev, err := range e.Events(t.Context(), run, pawl.EventsOptions{Follow: true}) {
		require.NoError(t, err)
		if ev.Type == typ {
			return ev
		}
	}
	t.Fatalf("the run %q has ended without %s", run, typ)
	return history.Event{}
}

const unmet = `
name: unmet
start: begin
nodes:
  - {id: begin}
  - {id: a, task: t}
  - {id: both, task: t, join: all}
  - {id: b, task: t}
  - {id: away}
  - {id: other, wait: {event: done}}
transitions:
  - {from: begin, to: a}
  - {from: begin, to: b}
  - {from: begin, to: other}
  - {from: a, to: both}
  - {from: b, to: both, condition: input.meets}
  - {from: b, to: away, priority: 1}
`

// A run that goes on, and whose join can no longer be met, has an incident wherever runs are listed, until it ends;
// also after the directory was opened again.
func TestAnUnmetJoinIsAnIncident(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	options := pawl.Options{Executor: pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, nil }}}
	e := open(t, dir, options)
	next, stop := watching(t, ctx, e, pawl.WatchFilter{Where: `code == "join_unmet"`})
	defer stop()
	for id, meets := range map[workflow.RunID]bool{"stuck": false, "fine": true} {
		require.NoError(t, e.Start(ctx, workflow.Run{ID: id, Definition: define(t, unmet)}, map[string]any{"meets": meets}))
	}
	c, err := next()
	require.NoError(t, err)
	require.Equal(t, workflow.RunID("stuck"), c.Run)
	require.Equal(t, workflow.RunRunning, c.Status)
	filter := acts.IncidentFilter(pawl.RunFilter{Where: `workflow == "unmet" // of ours`})
	for range 2 {
		require.Equal(t, []workflow.RunID{"stuck"}, runsWith(t, e, filter))
		s, err := e.Summary(ctx, "stuck")
		require.NoError(t, err)
		require.Equal(t, "both", string(s.Failure.Node))
		require.Equal(t, workflow.CodeJoinUnmet, s.Failure.Code)
		o, err := e.Overview(ctx, "stuck")
		require.NoError(t, err)
		require.Equal(t, s.Failure, o.Failure)
		require.NoError(t, e.Close(ctx))
		e = open(t, dir, options)
	}
	require.NoError(t, e.Cancel(ctx, "stuck", "no use"))
	require.Empty(t, runsWith(t, e, filter))
}

// A text that is no condition does not become one between the parentheses of another.
func TestAnIncidentFilterJoinsConditionsAndNotTexts(t *testing.T) {
	for _, where := range []string{`true) || (true`, `workflow == "a") || (1 == 1`, `(`} {
		f := acts.IncidentFilter(pawl.RunFilter{Where: where})
		require.ErrorAs(t, acts.CheckWhere(f.Where), new(*pawl.WhereError), where)
	}
}

// A version is one of a published definition.
func TestVersionsThatCannotBe(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, "name: one\nstart: a\nnodes: [{id: a}]")
	_, err := e.Publish(t.Context(), def)
	require.NoError(t, err)
	for _, run := range []workflow.Run{{Definition: def, Version: 7}, {Definition: def, Version: -1}, {Workflow: "one", Version: -1}} {
		run.ID = "r"
		require.ErrorIs(t, e.Start(t.Context(), run, nil), pawl.ErrInvalid)
	}
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "r", Workflow: "one", Version: 2}, nil), pawl.ErrNotPublished)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Workflow: "one", Version: 1}, nil))
}
