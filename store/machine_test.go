package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A machine checks that a directory keeps what decision.Evolve means, whatever
// is flushed, loaded, closed and crashed in between. Its model is a state that is
// only ever evolved, and the events and records that it gave.
type machine struct {
	t       *testing.T
	path    string
	dir     *Dir
	owner   *owner
	model   *state.State
	events  []decision.Event
	records []decision.Record
}

const machineRun workflow.RunID = "run/1"

func newMachine(t *testing.T, path string) *machine {
	m := &machine{t: t, path: path}
	m.open()
	m.owner = start(t, m.dir, machineRun)
	m.model = state.NewState(machineRun, m.owner.state.Graph)
	m.commit(state.Start{Input: map[string]any{"x": 1.5}}, startRun(map[string]any{"x": 1.5}), createToken(1, "start"))
	return m
}

func (m *machine) commit(msg state.Message, ds ...decision.Decision) {
	r := m.owner.record(msg, ds...)
	require.NoError(m.t, runfile.ApplyRecord(m.model, &r, func(es []decision.Event) { m.events = append(m.events, es...) }))
	m.records = append(m.records, r)
	m.owner.do(msg, ds...)
}

// Commit draws a record of one to four decisions.
func (m *machine) Commit(t *rapid.T) {
	if m.model.Status.Final() {
		t.Skip("the run has ended")
	}
	scratch := m.model.Overlay()
	var ds []decision.Decision
	for range rapid.IntRange(1, 4).Draw(t, "decisions") {
		d := drawDecision(t, scratch)
		if d == nil {
			continue
		}
		decision.Evolve(scratch, d)
		ds = append(ds, d)
		if scratch.Status.Final() {
			break
		}
	}
	m.commit(state.Heartbeat{Token: 1, Attempt: len(m.records)}, ds...)
}

// File flushes.
func (m *machine) File(*rapid.T) { require.NoError(m.t, m.owner.file()) }

// Load forgets the state and loads it again, as passivation does.
func (m *machine) Load(*rapid.T) { m.owner = load(m.t, m.dir, machineRun) }

// Reopen closes the directory and opens it again.
func (m *machine) Reopen(*rapid.T) {
	require.NoError(m.t, m.dir.Close())
	m.open()
	m.owner = load(m.t, m.dir, machineRun)
}

// open opens the directory. It knows the definition: to compile it takes long.
func (m *machine) open() {
	hook := &testhook.Hook{}
	hook.SetTrimRecords(1)
	hook.SetRedoBytes(1500)
	d, err := Open(m.path, Options{Durability: ProcessCrash, Hook: hook})
	require.NoError(m.t, err)
	d.AddDefinition(graph(m.t))
	m.dir = d
}

// Crash goes on with what a crash would leave.
func (m *machine) Crash(*rapid.T) {
	m.dir.sweeping.Wait() // it removes files, which are copied here
	m.moveTo(crashed(m.t, m.path))
}

// Interrupt goes on with what a crash in the middle of a flush would leave.
func (m *machine) Interrupt(t *rapid.T) {
	at := rapid.SampledFrom([]flushStage{built, renamed, synced, trimming, trimmed}).Draw(t, "stage")
	var copied string
	reset := onStage(m.dir, func(now flushStage) error {
		if now != at {
			return nil
		}
		copied = crashed(m.t, m.path)
		return errors.New("crash")
	})
	err := m.owner.file()
	reset()
	if at != trimming {
		require.Error(m.t, err)
	} else if require.NoError(m.t, err); copied == "" {
		return // there was not more than one record
	}
	m.moveTo(copied)
}

func (m *machine) moveTo(path string) {
	require.NoError(m.t, m.dir.Close())
	m.path = path
	m.open()
	m.owner = load(m.t, m.dir, machineRun)
}

// Check compares the states with the model.
func (m *machine) Check(*rapid.T) {
	require.Equal(m.t, m.model.AllRows(), m.owner.state.AllRows())
}

// Read reads everything, as introspection does.
func (m *machine) Read(t *rapid.T) {
	s, err := m.dir.State(machineRun)
	require.NoError(m.t, err)
	require.Equal(m.t, m.model.AllRows(), s.AllRows())
	require.Equal(m.t, m.records, all(m.t, m.dir.History(machineRun)))
	after := rapid.IntRange(0, len(m.events)).Draw(t, "after")
	require.Equal(m.t, m.events[after:], append([]decision.Event{}, all(m.t, m.dir.Events(machineRun, int64(after)))...))
}

func TestFilesEqualEvolve(t *testing.T) {
	base := harness.Workspace(t)
	n := 0
	harness.CheckProperty(t, func(rt *rapid.T) {
		n++
		m := newMachine(t, fmt.Sprintf("%s/%d", base, n))
		defer func() { _ = m.dir.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"Commit": m.Commit, "Commit2": m.Commit, "Commit3": m.Commit, "File": m.File, "Load": m.Load,
			"Reopen": m.Reopen, "Crash": m.Crash, "Interrupt": m.Interrupt,
			"Read": m.Read, "": m.Check,
		})
		m.Load(rt)
		m.Check(rt)
	})
}

// drawDecision draws a decision that can follow from s, or nil.
func drawDecision(t *rapid.T, s *state.State) decision.Decision {
	draw := rapid.SampledFrom([]func(*rapid.T, *state.State) decision.Decision{
		drawToken, drawToken, drawTask, drawTask, drawEnd, drawFan, drawBranch, drawBranch, drawGroup,
		drawData, drawData, drawData, drawRun,
	}).Draw(t, "kind")
	return draw(t, s)
}

func drawToken(t *rapid.T, s *state.State) decision.Decision {
	return decision.CreateToken{Token: state.Token{
		ID: s.NextToken, Node: "start", Parent: 1, Scope: drawScope(t, s), Counts: drawCounts(t), Caught: drawFailure(t),
	}}
}

func drawCounts(t *rapid.T) state.Counts {
	if rapid.Bool().Draw(t, "uncounted") {
		return nil
	}
	return state.Counts{"again": rapid.IntRange(1, 9).Draw(t, "count")}
}

func drawFailure(t *rapid.T) *workflow.Failure {
	if rapid.Bool().Draw(t, "fine") {
		return nil
	}
	return &workflow.Failure{Code: "error", Message: rapid.StringN(0, 5, -1).Draw(t, "message"), Permanent: true, Attempts: 2, Token: 1}
}

func drawTime(t *rapid.T) time.Time {
	return at(rapid.IntRange(1, 1000).Draw(t, "time"))
}

func drawTask(t *rapid.T, s *state.State) decision.Decision {
	id := drawLive(t, s)
	if id == 0 {
		return nil
	}
	f := workflow.Failure{Code: "timeout"}
	return rapid.SampledFrom([]decision.Decision{
		decision.DispatchTask{Token: id, Task: "t", Attempt: 2, Epoch: 1<<64 - 1, Input: drawValue(t), Due: drawTime(t), Beat: drawTime(t)},
		decision.ExtendTask{Token: id, Beat: drawTime(t)},
		decision.RetryTask{Token: id, Due: drawTime(t), Base: 1, Failure: drawFailure(t)},
		decision.ParkTask{Token: id, Failure: f},
		decision.SnoozeTask{Token: id, Due: drawTime(t)},
		decision.KeepDetails{Token: id, Details: drawValue(t)},
		decision.KeepResult{Token: id, Result: drawValue(t)},
		decision.RenewInput{Token: id, Input: drawValue(t)},
		decision.AwaitTimer{Token: id, Due: drawTime(t)},
	}).Draw(t, "task")
}

func drawEnd(t *rapid.T, s *state.State) decision.Decision {
	id := drawLive(t, s)
	if id == 0 {
		return nil
	}
	f := workflow.Failure{Code: "timeout"}
	return rapid.SampledFrom([]decision.Decision{
		decision.CompleteToken{Token: id, Output: drawValue(t), Metadata: map[string]any{"took": int64(3)}},
		decision.FailToken{Token: id, Failure: f},
		decision.ExpireToken{Token: id, Failure: f},
		decision.CancelToken{Token: id, Reason: "why"},
	}).Draw(t, "end")
}

// drawFan makes a group of up to 40 branches: enough for siblings in bulk.
func drawFan(t *rapid.T, s *state.State) decision.Decision {
	n := rapid.SampledFrom([]int{0, 1, 3, 40}).Draw(t, "branches")
	g := state.Group{
		ID: s.NextGroup, Name: "g", Origin: 1, Node: "wo/rk~1", Scope: drawScope(t, s), First: s.NextToken, Total: n,
		Spawns: []state.Spawn{{Transition: "spread", Count: n}}, Max: 2, Open: true, Result: drawValue(t),
		Counts: drawCounts(t), Caught: drawFailure(t), Started: n,
	}
	var items []any
	if rapid.Bool().Draw(t, "foreach") {
		items = []any{}
		for range n {
			items = append(items, drawValue(t))
		}
	}
	return decision.CreateBranches{Group: g, Items: items}
}

func drawBranch(t *rapid.T, s *state.State) decision.Decision {
	sc := drawScope(t, s)
	if sc.Group == 0 || s.Branch(sc).Status != state.BranchRunning {
		return nil
	}
	f := workflow.Failure{Code: "error", Node: "start"}
	out := []decision.Decision{
		decision.ArriveBranch{Scope: sc, Due: drawTime(t)}, decision.EndBranch{Scope: sc},
		decision.FailBranch{Scope: sc, Failure: f}, decision.DropBranch{Scope: sc},
	}
	if ids := s.Branch(sc).Tokens.AppendTo(nil); len(ids) > 0 {
		out = append(out, decision.AwaitSiblings{Token: ids[0], Scope: sc, Via: "meet", Source: drawValue(t), Completes: true})
	}
	return rapid.SampledFrom(out).Draw(t, "branch")
}

func drawGroup(t *rapid.T, s *state.State) decision.Decision {
	sc := drawScope(t, s)
	if sc.Group == 0 || s.Group(sc.Group).Phase != workflow.Gathering {
		return nil
	}
	return rapid.SampledFrom([]decision.Decision{
		decision.FireGroup{Group: sc.Group, Cancel: rapid.Bool().Draw(t, "cancel")},
		decision.FailGroup{Group: sc.Group, Failure: workflow.Failure{Code: "error"}},
		decision.AbandonGroup{Group: sc.Group},
		decision.CloseGroup{Group: sc.Group},
		decision.ArmGroup{Group: sc.Group, Due: drawTime(t)},
		decision.MergeBranches{Group: sc.Group, Scope: s.Group(sc.Group).Scope, Path: drawPath(t), Value: drawValue(t)},
	}).Draw(t, "group")
}

func drawData(t *rapid.T, s *state.State) decision.Decision {
	sc, path, v := drawScope(t, s), drawPath(t), drawValue(t)
	if rapid.Bool().Draw(t, "append") {
		return decision.AppendData{Scope: sc, Path: path, Value: v}
	}
	return decision.SetData{Scope: sc, Path: path, Value: v}
}

func drawPath(t *rapid.T) []string {
	key := rapid.SampledFrom([]string{"a", "b", "a/b", "~0", "", "é", "a0"})
	return append([]string{"state"}, rapid.SliceOfN(key, 0, 3).Draw(t, "path")...)
}

func drawRun(t *rapid.T, s *state.State) decision.Decision {
	f := workflow.Failure{Code: "timeout"}
	if s.Status == workflow.RunSuspended {
		return decision.ResumeRun{}
	}
	if rapid.IntRange(0, 9).Draw(t, "goes on") > 0 {
		return decision.SuspendRun{Failure: f}
	}
	return rapid.SampledFrom([]decision.Decision{
		decision.CompleteRun{Output: map[string]any{"v": drawValue(t)}, At: drawTime(t)},
		decision.FailRun{Failure: f, At: drawTime(t)}, decision.ExpireRun{Failure: f, At: drawTime(t)},
		decision.CancelRun{Failure: f, At: drawTime(t)},
	}).Draw(t, "run")
}

// drawLive draws a live token, 0 if no token lives.
func drawLive(t *rapid.T, s *state.State) workflow.TokenID {
	ids := s.LiveTokens()
	if len(ids) == 0 {
		return 0
	}
	return rapid.SampledFrom(ids).Draw(t, "token")
}

// drawScope draws a branch that has not ended, or the run itself.
func drawScope(t *rapid.T, s *state.State) workflow.Scope {
	scopes := []workflow.Scope{{}}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		for i := range min(g.Total, 3) {
			if sc := (workflow.Scope{Group: id, Branch: i}); g.Phase == workflow.Gathering && s.Branch(sc).Status == state.BranchRunning {
				scopes = append(scopes, sc)
			}
		}
	}
	return rapid.SampledFrom(scopes).Draw(t, "scope")
}

var largeText = fmt.Sprintf("%02000d", 7)

func drawValue(t *rapid.T) any {
	return rapid.SampledFrom([]any{
		nil, true, int64(1) << 53, 1e-7, 0.1, 1e23, "", "text\x00\u2028", largeText, []any{}, []any{nil, int64(-1), "x"},
		map[string]any{}, map[string]any{"a": map[string]any{"b": []any{1.25}}, "": nil},
	}).Draw(t, "value")
}
