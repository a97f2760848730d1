package pawltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// folders returns the folders of scenarios that there are.
func folders(t *testing.T) (out []string) {
	for _, name := range []string{"scenarios", "patterns"} {
		path := filepath.Join("..", "testdata", name)
		if files, err := filepath.Glob(filepath.Join(path, "*.y*ml")); err == nil && len(files) > 0 {
			out = append(out, path)
		}
	}
	require.NotEmpty(t, out)
	return out
}

// sampled returns of how many scenarios one is played: under the race detector, which
// makes SQLite ten times slower, of four.
func sampled() int {
	if harness.Raced && harness.CurrentLevel() == harness.Quick {
		return 4
	}
	return 1
}

// Every scenario of the repository comes out as it says, and leaves sound directories;
// quick runs of six days play them all, and look at the directories of every fourth that they play, the gate at those
// of every second, other ones the next day.
func TestScenarios(t *testing.T) {
	step := sampled()
	for _, folder := range folders(t) {
		scenarios, err := Load(folder)
		require.NoError(t, err)
		scenarios = harness.Today(t, 6, scenarios)
		looked := map[*Scenario]bool{}
		for _, s := range harness.SampleOfDay(t, harness.Figure(4, 2, 1), scenarios) {
			looked[s] = true
		}
		for i := 0; i < len(scenarios); i += step {
			s := scenarios[i]
			t.Run(filepath.Base(folder)+"/"+s.Name, func(t *testing.T) {
				t.Parallel()
				var o Options
				if looked[s] {
					o = checked(o)
				}
				r := Play(t, s, o)
				require.True(t, r.Passed, "%s:%d: %v", s.File, s.Line, r)
			})
		}
	}
}

// playSome plays one scenario in n of a folder, other ones each day.
func playSome(t *testing.T, n int, folder string, o Options) {
	scenarios, err := Load(folder)
	require.NoError(t, err)
	for _, s := range harness.SampleOfDay(t, n, scenarios) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := Play(t, s, o)
			require.True(t, r.Passed, "%s:%d: %v", s.File, s.Line, r)
		})
	}
}

// Every scenario comes out as it says with a crash after any commit; the gates of four days play them all.
func TestScenariosWithCrashes(t *testing.T) {
	harness.RequireLevel(t, harness.Gate, "it plays every scenario once for every commit")
	for _, folder := range folders(t) {
		t.Run(filepath.Base(folder), func(t *testing.T) { playSome(t, harness.Figure(1, 4, 1), folder, checked(Options{Crash: true})) })
	}
}

// Every scenario comes out as it says in whichever order results come that are
// due at one instant; the gates of two days play them all, and each day has another order.
func TestScenariosShuffled(t *testing.T) {
	harness.RequireLevel(t, harness.Gate, "it plays every scenario again")
	seeds := make([]int64, harness.Figure(3, 3, 20))
	for i := range seeds {
		seeds[i] = int64(i)
	}
	for _, seed := range harness.SampleOfDay(t, harness.Figure(3, 3, 1), seeds) {
		for _, folder := range folders(t) {
			t.Run(fmt.Sprintf("%s/%d", filepath.Base(folder), seed), func(t *testing.T) {
				playSome(t, harness.Figure(1, 2, 1), folder, checked(Options{Shuffle: &seed}))
			})
		}
	}
}

// load reads one scenario out of a text.
func load(t *testing.T, text string) *Scenario {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	scenarios, err := Load(path)
	require.NoError(t, err)
	require.Len(t, scenarios, 1)
	return scenarios[0]
}

const twoSteps = `
scenario: two steps
definition:
  name: two
  start: a
  state: {initial: {list: [1, 2]}}
  nodes:
    - {id: a, task: t, output: {state.x.y: result.n}}
    - {id: b, task: t, output: {output.n: state.x.y}}
    - {id: c, task: t}
  transitions: [{from: a, to: b}, {from: b, to: c, condition: "false"}]
mocks: {a: [{output: {n: 7}, delay: 2s}]}
events: [{at: 1s, retry: {node: c}}]
expect:
  rejected: [0]
`

// Each expectation that does not hold is reported with what was expected and
// what came.
func TestFailures(t *testing.T) {
	tests := []struct{ expect, want string }{
		{"status: failed", "expect.status: expected failed, got completed"},
		{"output: {n: 8}", "expect.output.n: expected 8, got 7"},
		{"output: {}", "expect.output.n: expected nothing, got 7"},
		{"output: {n: 7, m: 1}", "expect.output.m: expected 1, got nothing"},
		{"state: {x: {y: 8}}", "expect.state.x.y: expected 8, got 7"},
		{"state: {list: [1]}", "expect.state.list: expected [1], got [1,2]"},
		{"error: {code: e}", `expect.error: expected {"code":"e"}, got null`},
		{"nodes: {a: 2}", "expect.nodes.a: expected 2 completions, got 1"},
		{"path: [b, a]", "expect.path: expected [b a], got [a b]"},
		{"before: [[b, a]]", "expect.before: expected b to complete before a starts, got a started first"},
		{"before: [[c, a]]", "expect.before: expected c to complete before a starts, got c never completed"},
		{"before: [[a, c]]", "expect.before: expected a to complete before c starts, got c never started"},
		{"never: [b]", "expect.never: expected b never to start, got it did"},
		{"children: {two: [completed]}", "expect.children.two: expected [completed], got []"},
		{"events: {task.dispatched: 1}", "expect.events.task.dispatched: expected 1 event, got 2"},
		{"duration: 3s", "expect.duration: expected 3s, got 2s"},
	}
	for _, tt := range tests {
		s := load(t, twoSteps+"  "+tt.expect+"\n")
		r := Play(t, s, Options{})
		require.Len(t, r.Failures, 1, tt.expect)
		assert.Equal(t, tt.want, r.Failures[0].String())
		assert.False(t, r.Passed)
		text := r.String()
		assert.Contains(t, text, "expected: "+r.Failures[0].Expected)
		assert.Contains(t, text, "+2s scenario 2 TaskCompleted token=t1 attempt=1\n")
		assert.Contains(t, text, "        set-data state.x.y=7\n", "the decisions")
	}
}

// A long trace is cut before its last decisions, and each of these keeps its message.
func TestLastDecisions(t *testing.T) {
	r := Report{Trace: []string{"m1", "    a", "    b", "m2", "    c", "    d", "    e"}, Failures: []Failure{{What: "expect.path"}}}
	require.Contains(t, r.String(), "\ndecisions:\n    m1\n")
	for n, want := range map[int][]string{1: {"m2", "    e"}, 3: {"m2", "    c", "    d", "    e"}, 4: {"m1", "    b", "m2", "    c", "    d", "    e"}, 5: r.Trace} {
		lines, total := lastOfTrace(r.Trace, n)
		assert.Equal(t, want, lines, n)
		assert.Equal(t, 5, total)
	}
	for range 50 {
		r.Trace = append(r.Trace, "m", "    x")
	}
	assert.Contains(t, r.String(), "expect.path\n    expected: \n    got:      \nthe last 40 of 55 decisions:\n    m\n        x\n")
	assert.Contains(t, r.Verbose(), "\ndecisions:\n    m1\n        a\n")
}

// Events that are refused, and those that are not, are told apart.
func TestRejected(t *testing.T) {
	r := Play(t, load(t, strings.Replace(twoSteps, "rejected: [0]", "nodes: {a: 1}", 1)), Options{})
	require.Len(t, r.Failures, 1)
	assert.Contains(t, r.Failures[0].String(), "expect.rejected: expected event 0 to be accepted, got run \"scenario\": nothing there waits for this")
	r = Play(t, load(t, strings.Replace(twoSteps, "{at: 1s, retry: {node: c}}", "{at: 1s, cancel: true}", 1)+"  status: cancelled\n"), Options{})
	require.Len(t, r.Failures, 1)
	assert.Contains(t, r.Failures[0].String(), "expect.rejected: expected event 0 to be refused, got it was accepted")
}

// With Crash there is a play for every commit, and in each of them the process
// crashes once.
func TestCrashes(t *testing.T) {
	r := Play(t, load(t, twoSteps), checked(Options{Crash: true}))
	require.True(t, r.Passed, r.String())
	assert.Equal(t, 4, r.Plays, "one, and one for each of three commits")
	assert.Equal(t, 1+3*2, r.lives)
}

// A play that fails only after a crash says which.
func TestCrashReport(t *testing.T) {
	s := load(t, twoSteps)
	var r Report
	r.playOnce(t, s, playing{crashAt: 2})
	require.True(t, r.Passed, r.String())
	assert.Equal(t, 2, r.lives)
	s.document.Expect.Never = []string{"a"}
	r = Report{}
	r.playOnce(t, s, playing{crashAt: 2})
	assert.Contains(t, r.String(), "with a crash after commit 2:\nexpect.never")
}

// Two plays of one scenario make the same decisions at the same times.
func TestPlaysAreEqual(t *testing.T) {
	harness.RequireLevel(t, harness.Gate, "it plays every scenario twice again")
	scenarios, err := Load(filepath.Join("..", "testdata", "scenarios"))
	require.NoError(t, err)
	scenarios = harness.SampleOfDay(t, harness.Figure(1, 3, 1), scenarios)
	for i := 0; i < len(scenarios); i += sampled() {
		s := scenarios[i]
		s.document.Expect.Nodes = map[string]int{"nowhere": 1} // so that there is a trace
		first := Play(t, s, Options{})
		require.NotEmpty(t, first.Failures)
		require.Equal(t, first, Play(t, s, Options{}), s.Name)
	}
}
