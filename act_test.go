package pawl_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/workflow"
)

// listActs returns the events of a run that name somebody, or a reason, as lines.
func listActs(t *testing.T, e *pawl.Engine, id workflow.RunID) []string {
	t.Helper()
	var out []string
	for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		if by, reason := ev.Data["by"], ev.Data["reason"]; by != nil || reason != nil {
			out = append(out, fmt.Sprintf("%s %v: %v", ev.Type, by, reason))
		}
	}
	return out
}

// office is a run in which everything can be asked for that an operator asks for.
const office = `
name: office
start: s
nodes:
  - {id: s}
  - {id: bad, task: bad, retry: {maxAttempts: 1, exhausted: park}}
  - {id: worse, task: bad, retry: {maxAttempts: 1, exhausted: park}}
  - {id: slow, task: later}
  - {id: late, task: later, retry: {maxAttempts: 1}}
  - {id: gate, approval: {message: ok, quorum: 2}}
  - {id: door, wait: {event: knock}}
  - {id: never, wait: {event: never}}
  - {id: each, wait: {event: each}}
  - {id: joined}
transitions:
  - {from: s, to: bad}
  - {from: s, to: worse}
  - {from: s, to: slow}
  - {from: s, to: late}
  - {from: late, to: joined, outcome: error}
  - {from: s, to: gate}
  - {from: s, to: door}
  - {from: s, to: never}
  - {from: s, to: each, siblingGroup: g, open: true, foreach: {collection: "[1]"}}
  - {from: each, to: joined, synchronization: {siblingGroup: g}}
`

// officeCalls makes every call, each as somebody else and for a reason of its own.
func officeCalls(t *testing.T, e *pawl.Engine) {
	as := func(who string) context.Context {
		return pawl.Because(pawl.As(t.Context(), who), "reason of "+who)
	}
	id := workflow.RunID("r")
	at := func(node workflow.NodeID) pawl.Target { return pawl.Target{Run: id, Node: node} }
	group := pawl.GroupTarget{Run: id, Group: "g"}
	keys := map[workflow.NodeID]pawl.Key{}
	require.NoError(t, e.Start(as("starter"), workflow.Run{ID: id, Definition: define(t, office)}, nil))
	synctest.Wait()
	s, err := e.Inspect(t.Context(), id)
	require.NoError(t, err)
	for _, token := range s.Tokens {
		keys[token.Node] = token.Key
	}
	_, err = e.Patch(as("patcher"), id, pawl.Patch{Base: 1, Ops: []any{map[string]any{"op": "replace", "path": "/nodes/gate/approval/message", "value": "fine?"}}})
	require.NoError(t, err)
	for _, err := range []error{
		e.Pause(as("pauser"), id), e.Resume(as("resumer"), id),
		e.Retry(as("retrier"), at("bad"), pawl.RetryOptions{}),
		e.Signal(as("knocker"), id, workflow.Signal{Name: "knock"}),
		e.Vote(as("voter"), at("gate"), workflow.Ballot{By: "voter", Approved: true, Comment: "why not"}),
		e.CancelNodes(as("pruner"), id, "never"),
		e.AddBranch(as("adder"), group, 2), e.CloseGroup(as("closer"), group),
		e.Complete(as("completer"), keys["slow"], nil), e.Fail(as("failer"), keys["late"], errors.New("no")),
	} {
		require.NoError(t, err)
	}
	synctest.Wait()
	require.Equal(t, 2, changedLetters(as("retrier of all"), t, e, pawl.DeadLetterFilter{}, pawl.Retry{}))
	synctest.Wait()
	require.NoError(t, e.Skip(as("skipper"), at("bad"), nil))
	require.Equal(t, 1, changedLetters(as("skipper of all"), t, e, pawl.DeadLetterFilter{}, pawl.Skip{}))
	require.NoError(t, e.Cancel(as("canceller"), id, "over"))
}

func TestEveryCallNamesWhoMadeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		options := pawl.Options{Executor: pawl.Handlers{
			"bad":   func(context.Context, pawl.Task) (any, error) { return nil, errors.New("no") },
			"later": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
		}}
		e := open(t, dir, options)
		officeCalls(t, e)
		var want []string
		for _, x := range [][2]string{
			{"workflow.started", "starter"}, {"workflow.patched", "patcher"}, {"workflow.paused", "pauser"}, {"workflow.resumed", "resumer"},
			{"task.retrying", "retrier"}, {"task.input_renewed", "retrier"}, {"task.dispatched", "retrier"}, {"signal.received", "knocker"},
			{"approval.voted", "voter"}, {"token.cancelled", "pruner"}, {"fan_out.added", "adder"}, {"fan_out.closed", "closer"},
			{"token.completed", "completer"}, {"task.failed", "failer"}, {"token.failed", "failer"},
			{"task.retrying", "retrier of all"}, {"task.dispatched", "retrier of all"},
			{"task.retrying", "retrier of all"}, {"task.input_renewed", "retrier of all"}, {"task.dispatched", "retrier of all"},
			{"token.completed", "skipper"}, {"token.completed", "skipper of all"},
		} {
			want = append(want, fmt.Sprintf("%s %s: reason of %s", x[0], x[1], x[1]))
		}
		want = append(want, "workflow.cancelled canceller: over")
		got := listActs(t, e, "r")
		require.Equal(t, want, got)

		for s, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
			require.NoError(t, err)
			require.Equal(t, "canceller", s.Failure.By)
			require.Equal(t, `cancelled by "canceller": over`, s.Failure.Error())
		}
		records := 0
		for r, err := range e.Journal(t.Context(), "r", pawl.EventsOptions{}) {
			require.NoError(t, err)
			if text := fmt.Sprintf("%+v", r.Message); strings.Contains(text, "reason of ") || strings.Contains(text, "canceller") {
				records++
			}
		}
		require.Equal(t, 17, records, "each call has a record")

		require.NoError(t, e.Close(t.Context()))
		e = open(t, dir, options)
		require.Equal(t, got, listActs(t, e, "r"), "what was written tells it as well")
	})
}

func TestCallsInNobodysName(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]any{"n": 1}))
	require.NoError(t, e.Pause(pawl.Because(t.Context(), "the disk is full"), "a"))
	require.NoError(t, e.Resume(pawl.Because(pawl.As(pawl.As(t.Context(), "ann"), "bob"), ""), "a"))
	require.NoError(t, e.Cancel(pawl.Because(t.Context(), "no more"), "a", ""))
	require.Equal(t, []string{
		"workflow.paused <nil>: the disk is full", "workflow.resumed bob: <nil>", "workflow.cancelled <nil>: no more",
	}, listActs(t, e, "a"))
	out, err := e.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, workflow.Failure{Code: workflow.CodeCancelled, Message: "no more", Permanent: true}, *out.Failure)
}

// A countingContext counts how often somebody asks whether it is done.
type countingContext struct {
	context.Context
	asked *atomic.Int64
}

func (c countingContext) Err() error {
	c.asked.Add(1)
	return c.Context.Err()
}

// A call that names a token looks at that token, and not at the thousands that follow it.
func TestCompleteLooksAtOneToken(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Durability: pawl.ProcessCrash, IdleAfter: time.Hour})
	def := define(t, `{name: w, start: a, nodes: [{id: a}, {id: b, wait: {event: nothing}}], transitions: [{from: a, to: b, spawnCount: 9000}]}`)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
	count := func(at pawl.Target) int64 {
		ctx := countingContext{t.Context(), new(atomic.Int64)}
		require.ErrorIs(t, e.Do(ctx, "r", pawl.Complete{Target: at}), pawl.ErrNotLive)
		return ctx.asked.Load()
	}
	one := count(pawl.Target{Token: 9001})
	require.Positive(t, one)
	for _, token := range []workflow.TokenID{1, 2, -1, 20_000} { // it has ended, it waits, there are no such tokens
		require.Equal(t, one, count(pawl.Target{Token: token}), token)
		require.Equal(t, one, count(pawl.Target{Token: token, Node: "a"}), token)
	}
}

// A result from outside may be all that an executor may return.
func TestCompleteTakesResults(t *testing.T) {
	type offer struct {
		Price int `json:"price"`
	}
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, `{name: w, start: a, nodes: [{id: a, task: ask, output: {output.offer: result}}]}`)
	metadata := map[string]any{"cost": 0.5}
	result := pawl.ResultOf[offer]{Output: offer{3}, Metadata: metadata}
	for id, output := range map[workflow.RunID]any{
		"result": pawl.Result{Output: offer{3}, Metadata: metadata}, "typed": result, "pointer": &result,
	} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
		require.NoError(t, e.Do(t.Context(), id, pawl.Complete{Target: pawl.Target{Node: "a"}, Output: output}))
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"offer": map[string]any{"price": int64(3)}}, out.Output, id)
		o, err := e.Overview(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, map[string]float64{"cost": 0.5}, o.Meta, id)
	}
}

// The same call, made by somebody else, is still the same.
func TestARepeatedCallKeepsWhoWasFirst(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, `{name: w, start: a, nodes: [{id: a, wait: {event: nothing}}]}`)
	for _, who := range []string{"ann", "bob"} {
		ctx := pawl.As(t.Context(), who)
		require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: def}, nil))
		require.NoError(t, e.Signal(ctx, "r", workflow.Signal{Name: "go", ID: "1", Early: true}))
		require.NoError(t, e.Pause(ctx, "r"))
	}
	for _, who := range []string{"cid", "dan"} {
		require.NoError(t, e.Cancel(pawl.As(t.Context(), who), "r", "x"))
	}
	require.Equal(t, []string{
		"workflow.started ann: <nil>", "signal.received ann: <nil>", "workflow.paused ann: <nil>", "workflow.cancelled cid: x",
	}, listActs(t, e, "r"))
}

// A result's metadata are the handler's own, and stay as they are.
func TestWhoCompletesATaskDoesNotChangeItsMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]any{"n": 1}))
		synctest.Wait()
		s, err := e.Inspect(t.Context(), "a")
		require.NoError(t, err)
		result := pawl.Result{Output: map[string]any{"n": 1}, Metadata: map[string]any{"by": "a machine"}}
		require.NoError(t, e.Complete(pawl.As(t.Context(), "ann"), s.Tokens[0].Key, result))
		require.Equal(t, []string{"task.completed a machine: <nil>", "token.completed ann: <nil>"}, listActs(t, e, "a"))
	})
}

func TestChildrenKeepWhoCancelledTheirParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{})
		startParent(t, e, "p", nil,
			`{name: p, start: c, nodes: [{id: c, subworkflow: {name: c}}]}`,
			`{name: c, start: c, nodes: [{id: c, subworkflow: {name: d}}]}`,
			`{name: d, start: w, nodes: [{id: w, wait: {event: nothing}}]}`)
		synctest.Wait()
		require.NoError(t, e.Cancel(pawl.As(t.Context(), "ann"), "p", "enough"))
		synctest.Wait()
		n := 0
		for s, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
			require.NoError(t, err)
			require.Equal(t, workflow.RunCancelled, s.Status)
			require.Equal(t, "ann", s.Failure.By, s.Run)
			n++
		}
		require.Equal(t, 3, n)
	})
}

func TestPurgeTellsTheLogWhoAsked(t *testing.T) {
	var log logged
	e := open(t, t.TempDir(), pawl.Options{Logger: log.logger(), Executor: pawl.Handlers{"work": double}})
	for _, id := range []workflow.RunID{"a", "b", "c"} {
		_, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: define(t, oneTask)}, map[string]any{"n": 1})
		require.NoError(t, err)
	}
	require.NoError(t, e.Purge(t.Context(), "a"))
	require.NoError(t, e.Purge(pawl.Because(pawl.As(t.Context(), "ann"), "she asked for it"), "b"))
	n, err := e.PurgeEnded(pawl.As(t.Context(), "nightly"), pawl.Retention{Before: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, `level=INFO msg="pawl: run purged" run=b runs=1 by=ann reason="she asked for it"
level=INFO msg="pawl: run purged" run=c runs=1 by=nightly reason=""
`, log.text.String())
}

func TestNamesHaveOneSpelling(t *testing.T) {
	const composed, decomposed = "Ren\u00e9", "Rene\u0301"
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, `{name: w, start: a, nodes: [{id: a, approval: {message: ok, quorum: 9}}]}`)
	require.NoError(t, e.Start(pawl.As(t.Context(), decomposed), workflow.Run{ID: "r", Definition: def}, nil))
	at := pawl.Target{Run: "r", Node: "a"}
	vote := func(by string) error { return e.Vote(t.Context(), at, workflow.Ballot{By: by, Approved: true}) }
	require.NoError(t, vote(composed))
	require.NoError(t, vote("Ann  Lee"))
	for _, same := range []string{composed, decomposed, " " + composed + "\n", "Ann Lee", "Ann\u00a0Lee", "\u2003Ann\u2002 Lee"} {
		require.ErrorIs(t, vote(same), pawl.ErrAlreadyVoted, "%+q", same)
	}
	require.NoError(t, e.Vote(pawl.As(t.Context(), " bob"), at, workflow.Ballot{Approved: true}), "the ballot has no name of its own")
	require.ErrorIs(t, e.Vote(pawl.As(t.Context(), "bob"), at, workflow.Ballot{By: "bob "}), pawl.ErrAlreadyVoted)
	require.ErrorContains(t, e.Vote(pawl.As(t.Context(), "bob"), at, workflow.Ballot{By: "cid"}), `the vote is that of "cid", and the call is made as "bob"`)
	require.Equal(t, []string{
		"workflow.started " + composed + ": <nil>", "approval.voted " + composed + ": <nil>", "approval.voted Ann Lee: <nil>", "approval.voted bob: <nil>",
	}, listActs(t, e, "r"))
}

func TestNamesAndReasonsThatAreRefused(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, `{name: w, start: a, nodes: [{id: a, approval: {message: ok, quorum: 9}}]}`)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
	at := pawl.Target{Run: "r", Node: "a"}
	for name, says := range map[string]string{
		"": "empty", "\u2003": "empty", "a\x00b": "U+0000", "ann\tlee": "U+0009", "ann\u200b": "U+200B", "\ufeffann": "U+FEFF",
		"a\u00adnn": "U+00AD", "a\u202enn": "U+202E", "ann\u034f": "U+034F", "ann\u3164": "U+3164", "ann\ufe0f": "U+FE0F", "ann\u2800": "U+2800",
		"ann\u2028lee": "U+2028", "ann\xff": "not UTF-8", strings.Repeat("a", limits.MaxName+1): "256 bytes, at most 255",
		strings.Repeat("\u0344", 80) + strings.Repeat("a", 90): "when it is composed",
	} {
		err := e.Pause(pawl.As(t.Context(), name), "r")
		require.ErrorIs(t, err, pawl.ErrInvalid, "%+q", name)
		require.ErrorContains(t, err, says, "%+q", name)
		err = e.Vote(t.Context(), at, workflow.Ballot{By: name})
		require.ErrorIs(t, err, pawl.ErrInvalid, "%+q", name)
	}
	for reason, says := range map[string]string{
		"a\nb": "U+000A", "a\x1b[2J": "U+001B", "a\u202eb": "U+202E", "a\xff": "not UTF-8", strings.Repeat("a", limits.MaxReason+1): "1025 bytes, at most 1024",
	} {
		err := e.Pause(pawl.Because(t.Context(), reason), "r")
		require.ErrorIs(t, err, pawl.ErrInvalid, "%+q", reason)
		require.ErrorContains(t, err, says, "%+q", reason)
	}
	s, err := e.Inspect(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, workflow.RunRunning, s.Status, "nothing has changed")
	require.NoError(t, e.Pause(pawl.Because(pawl.As(t.Context(), strings.Repeat("a", limits.MaxName)), strings.Repeat("a", limits.MaxReason)), "r"))
	require.NoError(t, e.Resume(pawl.As(pawl.As(t.Context(), "\x00"), "ann"), "r"), "the last As counts")
}

// Every call that keeps who has made it refuses a name that As refuses.
func TestEveryCallLooksAtTheName(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	ctx := pawl.As(t.Context(), "\u200b")
	at := pawl.Target{Run: "r", Node: "a"}
	calls := map[string]error{
		"Start": e.Start(ctx, workflow.Run{ID: "r", Definition: define(t, oneTask)}, nil), "Cancel": e.Cancel(ctx, "r", ""),
		"Signal": e.Signal(ctx, "r", workflow.Signal{Name: "x"}), "Vote": e.Vote(ctx, at, workflow.Ballot{By: "ann"}),
		"Retry": e.Retry(ctx, at, pawl.RetryOptions{}), "Skip": e.Skip(ctx, at, nil), "Pause": e.Pause(ctx, "r"), "Resume": e.Resume(ctx, "r"),
		"AddBranch": e.AddBranch(ctx, pawl.GroupTarget{Run: "r"}, nil), "CloseGroup": e.CloseGroup(ctx, pawl.GroupTarget{Run: "r"}),
		"CancelNodes": e.CancelNodes(ctx, "r", "a"), "Complete": e.Complete(ctx, "", nil), "Fail": e.Fail(ctx, "", errors.New("x")), "Purge": e.Purge(ctx, "r"),
	}
	_, calls["Patch"] = e.Patch(ctx, "r", pawl.Patch{})
	_, calls["DoAll"] = e.DoAll(ctx, pawl.Selection{DeadLetters: &pawl.DeadLetterFilter{}}, pawl.Skip{})
	_, calls["PurgeEnded"] = e.PurgeEnded(ctx, pawl.Retention{Before: time.Now()})
	_, calls["Run"] = e.Run(ctx, workflow.Run{}, nil)
	for name := range maps.Keys(calls) {
		require.ErrorContains(t, calls[name], "U+200B", name)
	}
}

// A record has every field of the signal, or the ballot, that a caller gave.
func TestSignalsAndBallotsAreRecordedWhole(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, `{name: w, start: a, nodes: [{id: a, approval: {message: ok, quorum: 9}}]}`)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
	signal := workflow.Signal{Name: "go", ID: "1", Payload: "p", Transient: true, TTL: time.Hour, Early: true}
	ballot := workflow.Ballot{ID: "2", Token: 1, Node: "a", By: "ann", Approved: true, Comment: "c", Data: "d"}
	require.NoError(t, e.Signal(t.Context(), "r", signal))
	require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "r", Token: 1, Node: "a"}, ballot))
	given := map[string]any{"Signal": signal, "Ballot": ballot}
	for r, err := range e.Journal(t.Context(), "r", pawl.EventsOptions{}) {
		require.NoError(t, err)
		message := reflect.ValueOf(r.Message)
		name := message.Type().Name()
		if given[name] == nil {
			continue
		}
		for field, value := range reflect.ValueOf(given[name]).Fields() {
			require.False(t, value.IsZero(), "%s.%s: set it above", name, field.Name)
			require.Equal(t, value.Interface(), message.FieldByName(field.Name).Interface(), "%s.%s", name, field.Name)
		}
		delete(given, name)
	}
	require.Empty(t, given)
}

// A signal of a name that nobody waits for is refused, with the names that there are.
func TestUnknownSignals(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{}})
	start := func(id workflow.RunID, yaml string) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, yaml)}, nil))
	}
	start("w", "name: w\nstart: w\nsignals: [noted]\nnodes: [{id: w, wait: {any: [{event: paid}, {event: refused}]}}]\n")
	start("mute", "name: w\nstart: w\nnodes: [{id: w, wait: {for: 1h}}]\n")

	err := e.Signal(t.Context(), "w", workflow.Signal{Name: "payd"})
	require.EqualError(t, err, `run "w" has no signal "payd" (did you mean "paid"?): its definition, w version 1, has ["noted" "paid" "refused"]: `+
		`declare it in signals, or send it as early if a patch will add a node`)
	var unknown *workflow.SignalError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, &workflow.SignalError{Run: "w", Name: "payd", Known: []string{"noted", "paid", "refused"}, Workflow: "w", Version: 1}, unknown)
	require.Equal(t, 400, pawl.HTTPStatus(err))
	require.EqualError(t, e.Signal(t.Context(), "mute", workflow.Signal{Name: "go"}),
		`run "mute" has no signal "go": no node of its definition, w version 1, waits for any: declare it in signals, or send it as early if a patch will add a node`)

	require.NoError(t, e.Signal(t.Context(), "mute", workflow.Signal{Name: "go", Transient: true}))
	lost := false
	for ev, err := range e.Events(t.Context(), "mute", pawl.EventsOptions{}) {
		require.NoError(t, err)
		lost = lost || ev.Type == workflow.EventSignalLost
	}
	require.True(t, lost, "it is told")

	require.NoError(t, e.Signal(t.Context(), "w", workflow.Signal{Name: "noted"}))
	require.NoError(t, e.Signal(t.Context(), "w", workflow.Signal{Name: "payd", Early: true}))
	require.NoError(t, e.Signal(t.Context(), "w", workflow.Signal{Name: "paid"}))
	out, err := e.Wait(t.Context(), "w")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
}

// The question to people may be an expression, and the lists of approvals carry
// the input of the node, also after a restart.
func TestAnApprovalSaysWhatItIsAbout(t *testing.T) {
	dir := t.TempDir()
	d := define(t, `
name: w
start: gate
nodes:
  - id: gate
    approval: {messageExpr: "'Pay ' + string(input.amount) + ' to ' + input.name + '?'"}
    input: {amount: input.amount}
`)
	plain := define(t, "name: p\nstart: gate\nnodes: [{id: gate, approval: {message: \"Go on?\"}}]\n")
	e := open(t, dir, pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, map[string]any{"amount": 7, "name": "Ann"}))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "b", Definition: plain}, nil))
	look := func() {
		var got []pawl.Approval
		for a, err := range e.Approvals(t.Context(), pawl.ApprovalFilter{}) {
			require.NoError(t, err)
			got = append(got, a)
		}
		require.Equal(t, []pawl.Approval{
			{Run: "a", Workflow: "w", Token: 1, Node: "gate", Message: "Pay 7 to Ann?", Input: map[string]any{"amount": int64(7)}},
			{Run: "b", Workflow: "p", Token: 1, Node: "gate", Message: "Go on?"},
		}, got)
		snap, err := e.Inspect(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"amount": int64(7)}, snap.Tokens[0].Input)
	}
	look()
	require.NoError(t, e.Close(context.Background()))
	e = open(t, dir, pawl.Options{})
	look()
	require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "a", Node: "gate"}, workflow.Ballot{By: "ann", Approved: true}))
	out, err := e.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, out.Err())

	for id, expr := range map[workflow.RunID]string{"number": "1", "missing": "input.nobody"} {
		out, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: define(t, "name: n\nstart: gate\nnodes: [{id: gate, approval: {messageExpr: "+expr+"}}]\n")}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.CodeExpression, out.Failure.Code)
	}
}

const patched = `
name: order
start: wait
nodes: [{id: wait, wait: {event: paid}}, {id: ship, task: ship}]
transitions: [{from: wait, to: ship, id: t1}]
`

func op(name, path string, v any) any {
	return map[string]any{"op": name, "path": path, "value": v}
}

// A patch outlives the engine: the run goes on by its last revision, whether it
// was flushed or not, and all revisions are kept. A repeated start is still the
// same one, and other runs of the definition are as they were.
func TestPatchIsKept(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			var done []string
			handlers := pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
				done = append(done, string(task.Run)+" "+string(task.Node))
				return map[string]any{}, nil
			}}
			d := define(t, patched)
			e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: handlers})
			require.NoError(t, err)
			reopen := func() {
				if flushed {
					require.NoError(t, e.Close(context.Background()))
					e, err = pawl.Open(t.Context(), dir, pawl.Options{Executor: handlers})
					require.NoError(t, err)
				}
			}
			for _, id := range []workflow.RunID{"a", "b"} {
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, nil))
			}
			revision, err := e.Patch(t.Context(), "a", pawl.Patch{Base: 1, Ops: []any{
				op("add", "/nodes/check", map[string]any{"task": "check"}),
				op("replace", "/transitions/t1/to", "check"),
				op("add", "/transitions/t2", map[string]any{"from": "check", "to": "ship"}),
			}})
			require.NoError(t, err)
			require.Equal(t, 2, revision)
			reopen()
			_, err = e.Patch(t.Context(), "a", pawl.Patch{Base: 1, Ops: []any{op("remove", "/nodes/check", nil)}})
			require.ErrorIs(t, err, pawl.ErrConflict)
			revision, err = e.Patch(t.Context(), "a", pawl.Patch{Base: 2, Ops: []any{op("add", "/nodes/check/priority", 4)}})
			require.NoError(t, err)
			require.Equal(t, 3, revision)
			reopen()

			now, revision, err := e.Definition(t.Context(), "a")
			require.NoError(t, err)
			require.Equal(t, 3, revision)
			require.Equal(t, 4, now.Nodes[2].Priority)
			snap, err := e.Inspect(t.Context(), "a")
			require.NoError(t, err)
			require.Equal(t, 3, snap.Revision)
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, nil), "the same start again")
			for _, id := range []workflow.RunID{"a", "b"} {
				require.NoError(t, e.Signal(t.Context(), id, workflow.Signal{Name: "paid"}))
				out, err := e.Wait(t.Context(), id)
				require.NoError(t, err)
				require.NoError(t, out.Err())
			}
			require.Equal(t, []string{"a check", "a ship", "b ship"}, done)
			_, err = e.Patch(t.Context(), "a", pawl.Patch{Base: 3, Ops: []any{op("add", "/nodes/check/priority", 5)}})
			require.ErrorIs(t, err, pawl.ErrEnded)
			require.ErrorIs(t, e.Do(t.Context(), "a", pawl.Complete{Target: pawl.Target{Node: "check"}}), pawl.ErrEnded)
			require.ErrorIs(t, e.Do(t.Context(), "a", pawl.Fail{Target: pawl.Target{Token: 1}, Code: "x"}), pawl.ErrEnded)
			require.NoError(t, e.Close(context.Background()))
			require.Equal(t, []string{"1 1", "3 3"}, revisions(t, dir), "b, and a")
		})
	}
}

// revisions returns, for every run's file, how many definitions it has and the
// number of the last, in order.
func revisions(t *testing.T, dir string) (out []string) {
	paths, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*a.db"))
	require.NoError(t, err)
	for _, path := range paths {
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		var text string
		require.NoError(t, db.QueryRow(`SELECT count(*) || ' ' || max(revision) FROM definition`).Scan(&text))
		require.NoError(t, db.Close())
		out = append(out, text)
	}
	if len(out) == 2 && out[0] > out[1] {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

// If there are several patches for one revision at the same time, one is taken.
func TestPatchesConflict(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, patched)}, nil))
	var taken, refused atomic.Int32
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			switch _, err := e.Patch(t.Context(), "a", pawl.Patch{Base: 1, Ops: []any{op("add", "/nodes/ship/priority", i+1)}}); {
			case err == nil:
				taken.Add(1)
			case errors.Is(err, pawl.ErrConflict):
				refused.Add(1)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, taken.Load())
	require.EqualValues(t, 15, refused.Load())
}

// Bad patches are refused with an error that says where and why, and change
// nothing.
func TestPatchRefusals(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{}, Bounds: workflow.Bounds{Nodes: 3}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, patched)}, nil))
	before, err := e.Inspect(t.Context(), "a")
	require.NoError(t, err)
	patch := func(ops ...any) error {
		_, err := e.Patch(t.Context(), "a", pawl.Patch{Base: 1, Ops: ops})
		return err
	}
	var pe *workflow.PatchError
	var de *workflow.DefinitionError
	var le *workflow.LimitError
	require.ErrorIs(t, patch(), pawl.ErrInvalid)
	require.ErrorIs(t, patch(make(chan int)), pawl.ErrInvalid)
	require.ErrorAs(t, patch("x"), &pe)
	require.ErrorAs(t, patch(op("remove", "/nodes/wait", nil), op("replace", "/start", "ship"), op("remove", "/transitions/t1", nil)), &pe)
	require.Equal(t, workflow.PatchError{Op: -1, Path: "/nodes/wait", Message: "t1 stands there"}, *pe)
	require.ErrorAs(t, patch(op("add", "/nodes/ship/task", "")), &de)
	require.ErrorAs(t, patch(op("add", "/nodes/x", map[string]any{}), op("add", "/nodes/y", map[string]any{}),
		op("add", "/transitions/x", map[string]any{"from": "ship", "to": "x"}), op("add", "/transitions/y", map[string]any{"from": "ship", "to": "y"})), &de, "the engine's bound")
	require.ErrorContains(t, de, "4 nodes are more than 3")
	require.ErrorAs(t, patch(make([]any, limits.MaxPatch+1)...), &le)
	require.ErrorIs(t, patch(op("add", "/nodes/sub", map[string]any{"subworkflow": map[string]any{"name": "none"}}),
		op("add", "/transitions/sub", map[string]any{"from": "ship", "to": "sub"})), pawl.ErrNotPublished)
	_, err = e.Patch(t.Context(), "nobody", pawl.Patch{Base: 1, Ops: []any{op("add", "/timeout", "1h")}})
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	after, err := e.Inspect(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// Limits of what results report are numbers with names, at the start of a run and when they are raised.
func TestLimitsThatAreNone(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	d, many := define(t, office), map[string]float64{}
	for i := range 33 {
		many[fmt.Sprint("n", i)] = 1
	}
	for _, limits := range []map[string]float64{{"cost": -1}, {"cost": math.NaN()}, {"cost": 1e300}, {"": 1}, {strings.Repeat("n", 129): 1}, {"\xff": 1}, many} {
		require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d, MetaLimits: limits}, nil), pawl.ErrInvalid, "%v", limits)
		require.ErrorIs(t, e.Do(t.Context(), "r", pawl.Raise{Meta: limits}), pawl.ErrInvalid, "%v", limits)
	}
	require.ErrorIs(t, e.Do(t.Context(), "r", pawl.Raise{}), pawl.ErrInvalid)
}

// A patch does not depend on how much of the definition was written out, which its text leaves out.
func TestPatchOfDefaultsThatAreWritten(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	d := &workflow.Definition{
		Name: "w", Mode: workflow.ModeGraph, Start: "a",
		Nodes:       []workflow.Node{{ID: "a", Wait: &workflow.WaitSpec{Event: "go"}}, {ID: "b"}},
		Transitions: []workflow.Transition{{From: "a", To: "b", Outcome: workflow.OnSuccess}},
	}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
	_, err := e.Patch(t.Context(), "r", pawl.Patch{Base: 1, Ops: []any{map[string]any{"op": "add", "path": "/nodes/b/priority", "value": 1}}})
	require.NoError(t, err)
}
