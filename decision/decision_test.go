package decision_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// Every type with a method evolveState is among the variants, and every effect
// is marked as one.
func TestVariantsAreComplete(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	methods := map[string][]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				receiver := fmt.Sprint(f.Recv.List[0].Type)
				methods[f.Name.Name] = append(methods[f.Name.Name], receiver)
			}
		}
	}
	var variants, effects []string
	for _, v := range decision.Decisions.Variants() {
		variants = append(variants, reflect.TypeOf(v).Name())
		if _, ok := v.(decision.Effect); ok {
			effects = append(effects, reflect.TypeOf(v).Name())
		}
	}
	require.ElementsMatch(t, methods["evolveState"], variants)
	require.ElementsMatch(t, methods["effect"], effects)
}

// A record of a journal is read back as it was written, for every variant with
// every field.
func TestRecordsRoundTrip(t *testing.T) {
	for _, zero := range decision.Decisions.Variants() {
		t.Run(reflect.TypeOf(zero).Name(), func(t *testing.T) {
			harness.CheckProperty(t, func(t *rapid.T) {
				v := reflect.New(reflect.TypeOf(zero)).Elem()
				fill(t, v)
				d := v.Interface().(decision.Decision)
				in := decision.Record{Seq: 1, At: moment(t), Epoch: 1 << 63, Planner: 1, Message: state.Resume{}, Decisions: []decision.Decision{d, d}}
				e, err := in.Encode()
				require.NoError(t, err)
				out, err := e.Decode(e.Values.Lookup)
				require.NoError(t, err)
				require.Equal(t, in, out)
				require.Equal(t, d.String(), out.Decisions[0].String())
				require.NotContains(t, d.String(), "\n")
			})
		})
	}
}

// Messages are read back as they were, too.
func TestMessagesRoundTrip(t *testing.T) {
	for _, zero := range state.Messages.Variants() {
		t.Run(reflect.TypeOf(zero).Name(), func(t *testing.T) {
			harness.CheckProperty(t, func(t *rapid.T) {
				v := reflect.New(reflect.TypeOf(zero)).Elem()
				fill(t, v)
				in := decision.Record{Seq: 1, Message: v.Interface().(state.Message)}
				e, err := in.Encode()
				require.NoError(t, err)
				out, err := e.Decode(e.Values.Lookup)
				require.NoError(t, err)
				require.Equal(t, in, out)
			})
		})
	}
}

func moment(t *rapid.T) time.Time {
	return time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "ms")).UTC()
}

// fill draws a value for everything in v that a journal keeps.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(moment(t)))
		return
	case map[string]any:
		v.Set(reflect.ValueOf(map[string]any{"k": model(t), "": nil}))
		return
	case []any:
		v.Set(reflect.ValueOf([]any{model(t), nil, int64(1)}))
		return
	case []string:
		v.Set(reflect.ValueOf([]string{"state", "a\"b", "é"}))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get("json") != "-" {
				fill(t, v.Field(i))
			}
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), 2, 2)
		fill(t, s.Index(0))
		fill(t, s.Index(1))
		v.Set(s)
	case reflect.Map:
		m, elem := reflect.MakeMap(v.Type()), reflect.New(v.Type().Elem()).Elem()
		fill(t, elem)
		m.SetMapIndex(reflect.ValueOf("loop").Convert(v.Type().Key()), elem)
		v.Set(m)
	case reflect.Interface:
		if x := model(t); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	case reflect.String:
		v.SetString(rapid.StringMatching(`[a-z "\\]{0,8}`).Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(0, 1<<40).Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Uint8: // a status or a phase
		v.SetUint(uint64(rapid.IntRange(0, 3).Draw(t, "status")))
	default:
		t.Fatalf("cannot fill a %v", v.Type())
	}
}

// model draws a value, small or large enough to stand apart.
func model(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		nil, true, int64(-3), 2.5, "text", []any{}, map[string]any{"a": []any{int64(1), "x"}}, strings.Repeat("large ", 300),
	}).Draw(t, "value")
}

var (
	at      = time.Date(2030, 1, 1, 0, 0, 1, 0, time.UTC)
	failure = workflow.Failure{Code: "busy", Message: "later"}
	scope   = workflow.Scope{Group: 1, Branch: 2}
)

// lines is the text of every variant.
var lines = map[string]decision.Decision{
	`create-token t7 node=a in=g1:2 counts={"l":1} caught=busy`: decision.CreateToken{Token: state.Token{
		ID: 7, Node: "a", Scope: scope, Counts: state.Counts{"l": 1}, Caught: &failure,
	}},
	`create-branches g2 group=g origin=t1 in=g1:2 spawns=e*2,f*1 tokens=t2..t4 max=2 items=[1,null,3] open`: decision.CreateBranches{
		Group: state.Group{
			ID: 2, Name: "g", Origin: 1, Scope: scope, First: 2, Total: 3, Max: 2, Open: true,
			Spawns: []state.Spawn{{Transition: "e", Count: 2}, {Transition: "f", Count: 1}},
		}, Items: []any{int64(1), nil, int64(3)},
	},
	`start-branches g1 count=2`: decision.StartBranches{Group: 1, Count: 2},
	`dispatch-task t1 task=work attempt=2 input={"a":1} due=2030-01-01T00:00:01.000Z beat=2030-01-01T00:00:01.000Z`: decision.DispatchTask{
		Token: 1, Task: "work", Attempt: 2, Epoch: 9, Input: map[string]any{"a": int64(1)}, Due: at, Beat: at,
	},
	`extend-task t1 beat=2030-01-01T00:00:01.000Z`:                            decision.ExtendTask{Token: 1, Beat: at},
	`retry-task t1 due=2030-01-01T00:00:01.000Z error=busy (later)`:           decision.RetryTask{Token: 1, Due: at, Failure: &failure},
	`park-task t1 error=busy (later)`:                                         decision.ParkTask{Token: 1, Failure: failure},
	`await-timer t1 due=2030-01-01T00:00:01.000Z`:                             decision.AwaitTimer{Token: 1, Attempt: 1, Due: at},
	`await-siblings t1 in=g1:2 via=e source=[1]`:                              decision.AwaitSiblings{Token: 1, Scope: scope, Via: "e", Source: []any{int64(1)}},
	`complete-token t1 skipped output="x"`:                                    decision.CompleteToken{Token: 1, Output: "x", Skipped: true},
	`fail-token t1 error=busy (later)`:                                        decision.FailToken{Token: 1, Failure: failure},
	`expire-token t1 error=busy (later)`:                                      decision.ExpireToken{Token: 1, Failure: failure},
	`cancel-token t1 reason=why`:                                              decision.CancelToken{Token: 1, Reason: "why"},
	`arrive-branch g1:2 due=2030-01-01T00:00:01.000Z`:                         decision.ArriveBranch{Scope: scope, Due: at},
	`end-branch g1:2`:                                                         decision.EndBranch{Scope: scope},
	`fail-branch g1:2 error=busy (later)`:                                     decision.FailBranch{Scope: scope, Failure: failure},
	`drop-branch g1:2`:                                                        decision.DropBranch{Scope: scope},
	`merge-branches g2 in=g1:2 target=state.a[] value=null`:                   decision.MergeBranches{Group: 2, Scope: scope, Path: []string{"state", "a"}, Append: true},
	`fire-group g1 cancel shortfall timed-out`:                                decision.FireGroup{Group: 1, Cancel: true, Shortfall: true, TimedOut: true},
	`fail-group g1 shortfall timed-out error=busy (later)`:                    decision.FailGroup{Group: 1, Shortfall: true, TimedOut: true, Failure: failure},
	`abandon-group g1`:                                                        decision.AbandonGroup{Group: 1},
	`set-data in=g1:2 state["a b"]=null`:                                      decision.SetData{Scope: scope, Path: []string{"state", "a b"}},
	`append-data state.log[]="` + strings.Repeat("x", 119) + `...(302 bytes)`: decision.AppendData{Path: []string{"state", "log"}, Value: strings.Repeat("x", 300)},
	`start-run input={} due=2030-01-01T00:00:01.000Z`:                         decision.StartRun{Input: map[string]any{}, At: at, Due: at},
	`complete-run output={"a":1.5}`:                                           decision.CompleteRun{Output: map[string]any{"a": 1.5}, At: at},
	`fail-run error=busy (on two\nlines)`:                                     decision.FailRun{Failure: workflow.Failure{Code: "busy", Message: "on two\nlines"}, At: at},
	`fail-run error=busy (later)`:                                             decision.FailRun{Failure: failure, At: at},
	`expire-run error=busy (later)`:                                           decision.ExpireRun{Failure: failure, At: at},
	`cancel-run error=busy (later)`:                                           decision.CancelRun{Failure: failure, At: at},
	`suspend-run error=busy (later)`:                                          decision.SuspendRun{Failure: failure},
	`resume-run`:                                                              decision.ResumeRun{},

	`start-child t1 attempt=1 definition=01234567 input={} due=2030-01-01T00:00:01.000Z`: decision.StartChild{Token: 1, Attempt: 1, Definition: "0123456789", Input: map[string]any{}, Due: at},
	`end-child t1 status=failed error=busy (later)`:                                      decision.EndChild{Token: 1, Status: workflow.RunFailed, Failure: &failure},
	`request-approval t1 attempt=1 due=2030-01-01T00:00:01.000Z`:                         decision.RequestApproval{Token: 1, Attempt: 1, Message: "m", Due: at},
	`add-vote t1 by=ann approved data=1`:                                                 decision.AddVote{Token: 1, Vote: state.Vote{By: "ann", Approved: true, Comment: "c", Data: int64(1), At: at}},
	`decide-approval t1 approved cause=votes`:                                            decision.DecideApproval{Token: 1, Approved: true, Cause: "votes"},
	`await-event t1 names=a,b due=2030-01-01T00:00:01.000Z`:                              decision.AwaitEvent{Token: 1, Attempt: 1, Names: []string{"a", "b"}, Due: at},
	`keep-signal 1 name=a id=x payload=1 done`:                                           decision.KeepSignal{Seq: 1, Name: "a", ID: "x", Payload: int64(1), Done: true},
	`take-signal t1 name=a signal=1`:                                                     decision.TakeSignal{Token: 1, Seq: 1, Name: "a"},
	`lose-signal 1 name=a`:                                                               decision.LoseSignal{Seq: 1, Name: "a"},
	`reject-signal t1 name=a error=busy (later)`:                                         decision.RejectSignal{Token: 1, Name: "a", Failure: failure},
	`await-lock t1`:       decision.AwaitLock{Token: 1, Result: int64(1)},
	`take-lock t1 lock=l`: decision.TakeLock{Token: 1, Lock: "l"},
	`hold-token t1`:       decision.HoldToken{Token: 1},
	`snooze-task t1 due=2030-01-01T00:00:01.000Z`:      decision.SnoozeTask{Token: 1, Due: at},
	`keep-details t1 details={"n":1}`:                  decision.KeepDetails{Token: 1, Details: map[string]any{"n": int64(1)}},
	`keep-result t1 result=1`:                          decision.KeepResult{Token: 1, Result: int64(1)},
	`renew-input t1 asked input={"a":1}`:               decision.RenewInput{Token: 1, Input: map[string]any{"a": int64(1)}, Asked: true},
	`await-join t1 via=e`:                              decision.AwaitJoin{Token: 1, Via: "e"},
	`fire-join node=a tokens=t1,t2`:                    decision.FireJoin{Node: "a", Tokens: []workflow.TokenID{1, 2}},
	`cancel-tokens in=g1:2 nodes=a,b except=t1`:        decision.CancelTokens{Scope: scope, Nodes: []workflow.NodeID{"a", "b"}, Except: 1},
	`add-branch g1 token=t9 item=1`:                    decision.AddBranch{Group: 1, Token: 9, Item: int64(1)},
	`close-group g1`:                                   decision.CloseGroup{Group: 1},
	`arm-group g1 due=2030-01-01T00:00:01.000Z`:        decision.ArmGroup{Group: 1, Due: at},
	`arm-group g1 off`:                                 decision.ArmGroup{Group: 1},
	`list-errors g1 in=g1:2 target=state.bad value=[]`: decision.ListErrors{Group: 1, Scope: scope, Path: []string{"state", "bad"}, Value: []any{}},
	`pause-run parent`:                                 decision.PauseRun{Parent: true},
	`stage-artifacts t1 artifact=a.pdf:3`:              decision.StageArtifacts{Token: 1, Artifacts: []workflow.Artifact{{Name: "a.pdf", Hash: "sha256:1", Size: 3}}},
	`patch-run revision=2 definition={"name":"w"} due=2030-01-01T00:00:01.000Z step=a:1/2`: decision.PatchRun{
		Revision: 2, Definition: map[string]any{"name": "w"}, Due: at, Steps: []state.Step{{Node: "a", Live: 1, Resolved: 2}},
	},
	`fork-run run=b from=a record=3 shift=1m0s`: decision.ForkRun{
		Run: "b", From: workflow.ForkPoint{Run: "a", Record: 3}, Shift: time.Minute,
	},
	`start-step node=a`:                decision.StartStep{Node: "a"},
	`end-step node=a taken=e skipped`:  decision.EndStep{Node: "a", Taken: []workflow.TransitionID{"e"}, Skipped: true},
	`defer-failure error=busy (later)`: decision.DeferFailure{Failure: failure},
	`await-budget t1 chosen=a input=1`: decision.AwaitBudget{Token: 1, Chosen: "a", Input: int64(1)},
	`raise-limits meta=cost:5.5`:       decision.RaiseLimits{Meta: amount.FromFloats(map[string]float64{"cost": 5.5})},
}

func TestString(t *testing.T) {
	seen := map[string]bool{}
	for want, d := range lines {
		require.Equal(t, want, d.String())
		seen[reflect.TypeOf(d).Name()] = true
	}
	require.Len(t, seen, len(decision.Decisions.Variants()), "%v", slices.Sorted(maps.Keys(seen)))
	require.Equal(t, "t1 e [tier 0]: why", decision.Note{Token: 1, Transition: "e", Text: "why"}.String())
	require.Equal(t, "t1: why", decision.Note{Token: 1, Text: "why"}.String())
	require.Equal(t, `t1: a &&\n b is true`, decision.Note{Token: 1, Expression: "a &&\n b", Result: true}.String())
}

// Events and Withdrawn answer every variant; what they return is particulars
// that a journal can keep.
func TestEventsAndWithdrawnAreTotal(t *testing.T) {
	types := map[workflow.EventType]bool{}
	for _, d := range lines {
		s := begun(t)
		withdrawn := decision.Withdrawn(s, d)
		require.True(t, slices.IsSorted(withdrawn), "%v", d)
		for _, e := range decision.Events(s, d) {
			types[e.Type] = true
			require.Zero(t, e.Seq, "%v", d)
			require.NotEmpty(t, e.Type, "%v", d)
		}
	}
	require.GreaterOrEqual(t, len(types), 22, "%v", types)
	require.Panics(t, func() { decision.Events(begun(t), nil) })
	require.Panics(t, func() { decision.Evolve(begun(t), nil) })
}

// begun returns a state with three branches; the first is dispatched.
func begun(t *testing.T) *state.State {
	d, err := workflow.ParseYAML([]byte(`
name: d
start: s
nodes: [{id: s}, {id: a, task: work}, {id: b}]
transitions:
  - {id: e, from: s, to: a, siblingGroup: g, spawnCount: 3}
  - {id: f, from: a, to: b, synchronization: {siblingGroup: g}}
`))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	s := state.NewState("r", g)
	decision.Evolve(s, decision.StartRun{Input: map[string]any{}, At: at})
	decision.Evolve(s, decision.CreateToken{Token: state.Token{ID: 1, Node: "s"}})
	decision.Evolve(s, decision.CreateBranches{Group: state.Group{ID: 1, Name: "g", Origin: 1, Node: "s", First: 2, Total: 3, Spawns: []state.Spawn{{Transition: "e", Count: 3}}}})
	s.PutGroup(&state.Group{ID: 2, Name: "g", Origin: 1, Node: "s", Scope: scope})
	for id := workflow.TokenID(1); id <= 3; id++ {
		decision.Evolve(s, decision.DispatchTask{Token: id, Task: "work", Attempt: 1})
	}
	return s
}

// Wide decisions withdraw every running task that they end.
func TestWithdrawn(t *testing.T) {
	for _, c := range []struct {
		d    decision.Decision
		want []workflow.TokenID
	}{
		{decision.CompleteRun{}, []workflow.TokenID{1, 2, 3}},
		{decision.FailGroup{Group: 1}, []workflow.TokenID{2, 3}},
		{decision.FireGroup{Group: 1, Cancel: true}, []workflow.TokenID{2, 3}},
		{decision.FireGroup{Group: 1}, nil},
		{decision.FailBranch{Scope: workflow.Scope{Group: 1, Branch: 1}}, []workflow.TokenID{3}},
		{decision.CancelToken{Token: 3}, []workflow.TokenID{3}},
		{decision.CancelToken{Token: 4}, nil}, // not begun
	} {
		require.Equal(t, c.want, decision.Withdrawn(begun(t), c.d), "%v", c.d)
	}
}

// A decision that cannot follow from a state breaks an invariant.
func TestEvolvePanics(t *testing.T) {
	for _, d := range []decision.Decision{
		decision.CreateToken{Token: state.Token{ID: 9}},
		decision.CreateBranches{Group: state.Group{ID: 9}},
		decision.CompleteToken{Token: 9},
		decision.StartRun{},
	} {
		require.Panics(t, func() { decision.Evolve(begun(t), d) }, "%v", d)
	}
}

// Both texts of a usual record are in one piece of memory.
func TestEncodeCostsFewAllocations(t *testing.T) {
	r := decision.Record{Seq: 1, Message: state.TaskCompleted{Token: 1, Output: "some output of a task"}, Decisions: []decision.Decision{decision.CompleteToken{Token: 1, Output: "some output of a task"}}}
	one, err := r.Encode()
	require.NoError(t, err)
	require.Equal(t, len(one.Message), cap(one.Message), "an append would write into the decisions")
	require.Equal(t, len(one.Decisions), cap(one.Decisions), "it keeps room that it does not need")
	var again decision.Encoded
	var scratch []byte
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() { again, scratch, err = r.EncodeWith(scratch) }), 4.0)
	require.NoError(t, err)
	require.Equal(t, one, again)
}
