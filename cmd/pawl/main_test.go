package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// program returns the path of the command: that of this test binary, which TestMain lets be the command too, and for a release that of
// one that is built.
func program(t *testing.T) string {
	t.Helper()
	if harness.CurrentLevel() < harness.Release {
		path, err := exec.LookPath("pawl")
		require.NoError(t, err)
		return path
	}
	path := filepath.Join(t.TempDir(), "pawl")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

const good = `scenario: good
definition: {name: d, start: a, nodes: [{id: a, task: t}]}
mocks: {a: [{delay: 72h}]}
expect: {path: [a], duration: 72h}
`

var bad = strings.NewReplacer("good", "bad", "path: [a]", "path: []").Replace(good)

func TestCommand(t *testing.T) {
	pawl := program(t)
	folder := t.TempDir()
	for name, text := range map[string]string{
		"good.yaml": good, "both.yaml": good + "---\n" + bad, "unknown.yaml": good + "expected: {}\n", "syntax.yaml": "a: [",
		"sub/lost.yaml": good + "---\nscenario: lost\nfile: gone.yaml\nexpect: {}\n",
	} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	tests := []struct {
		args   []string
		status int
		out    string // all of it, or after ... its end
		errs   string // part of it
	}{
		{[]string{"test", "good.yaml"}, 0, "ok   good.yaml:1: good\n1 passed, 0 failed\n", ""},
		{[]string{"test", "--crash", "good.yaml"}, 0, "ok   good.yaml:1: good (3 plays)\n1 passed, 0 failed\n", ""},
		{[]string{"test", "--shuffle", "7", "good.yaml"}, 0, "ok   good.yaml:1: good\n1 passed, 0 failed\n", ""},
		{[]string{"test", "--run", "^go", "both.yaml"}, 0, "ok   both.yaml:1: good\n1 passed, 0 failed\n", ""},
		{[]string{"test", "good.yaml", "both.yaml"}, 1, "...\n2 passed, 1 failed\n", ""},
		{[]string{"test", "--run", "bad", "both.yaml"}, 1, `FAIL both.yaml:6: bad
    expect.path
        expected: []
        got:      [a]
    decisions:
        +0s scenario 1 Start
            start-run input={}
            create-token t1 node=a
            dispatch-task t1 task=t attempt=1 input={}
        +72h0m0s scenario 2 TaskCompleted token=t1 attempt=1
            complete-token t1
            complete-run output={}
0 passed, 1 failed
`, ""},
		{[]string{"test", "good.yaml", "unknown.yaml"}, 2, "ok   good.yaml:1: good\n1 passed, 0 failed, 1 unreadable\n", `unknown.yaml:5:1: unknown field "expected"`},
		{[]string{"test", "sub"}, 2, "ok   sub/lost.yaml:1: good\n1 passed, 0 failed, 1 unreadable\n", "sub/lost.yaml:6:1: file: gone.yaml: no such file"},
		{[]string{"test", "."}, 2, "...\n3 passed, 1 failed, 3 unreadable\n", "syntax.yaml:1: did not find expected node content\nunknown.yaml:5:1: unknown field"},
		{[]string{"test", "syntax.yaml"}, 2, "0 passed, 0 failed, 1 unreadable\n", "syntax.yaml:1: "},
		{[]string{"test", "nothing.yaml"}, 3, "0 passed, 0 failed, 1 unreadable\n", "pawl: nothing.yaml: no such file or directory\n"},
		{[]string{"test", "nothing"}, 3, "0 passed, 0 failed, 1 unreadable\n", "pawl: nothing: no such file or directory\n"},
		{[]string{"test", "good.yaml", "nothing"}, 2, "ok   good.yaml:1: good\n1 passed, 0 failed, 1 unreadable\n", "nothing: no such file or directory\npawl: some files"},
		{[]string{"test", "--json", "syntax.yaml"}, 2, "{\"passed\":0,\"failed\":0,\"unreadable\":1}\n", "syntax.yaml:1: "},
		{[]string{"test", "--run", "nomatch", "both.yaml"}, 1, "0 passed, 0 failed\n", `pawl: --run: no scenario has a name that matches "nomatch"`},
		{[]string{"test", "--run", "(", "good.yaml"}, 2, "", "--run"},
		{[]string{"test"}, 2, "", "<file-or-folder>"},
		{[]string{"tset"}, 2, "", "tset"},
	}
	for _, tt := range tests {
		var out, errs strings.Builder
		c := exec.Command(pawl, tt.args...)
		c.Dir, c.Stdout, c.Stderr = folder, &out, &errs
		status := exitStatus(t, c.Run())
		assert.Equal(t, tt.status, status, "%v: %s", tt.args, &errs)
		if end, ok := strings.CutPrefix(tt.out, "..."); ok {
			assert.True(t, strings.HasSuffix(out.String(), end), out.String())
		} else {
			assert.Equal(t, tt.out, out.String(), "%v", tt.args)
		}
		assert.Contains(t, errs.String(), tt.errs)
	}
}

func exitStatus(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// With --json there is an object per line.
func TestCommandJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(t, os.WriteFile(path, []byte(good+"---\n"+bad), 0o600))
	out, err := exec.Command(program(t), "test", "--json", path).Output()
	require.Equal(t, exitNo, exitStatus(t, err))
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, 3)
	var report struct {
		Name     string
		Passed   bool
		Failures []struct{ What, Expected, Got string }
		Trace    []string
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &report))
	assert.Equal(t, "bad", report.Name)
	assert.False(t, report.Passed)
	require.Len(t, report.Failures, 1)
	assert.Equal(t, "expect.path", report.Failures[0].What)
	assert.NotEmpty(t, report.Trace)
	assert.JSONEq(t, `{"passed": 1, "failed": 1}`, lines[2])
}
