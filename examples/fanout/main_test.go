package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/shown"
)

const childOf = "FANOUT_CHILD"

// TestMain lets the test binary be the program, so that it can be killed.
func TestMain(m *testing.M) {
	if os.Getenv(childOf) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process runs the program in a process of its own.
func process(t *testing.T, dir string, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-dir", dir}, args...)...)
	cmd.Env = append(os.Environ(), childOf+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	t.Logf("%s\n%s", out.String(), errs.String()[strings.LastIndexByte(errs.String(), '\r')+1:])
	return out.String(), err
}

// find returns the numbers in the line that pattern matches.
func find(t *testing.T, text, pattern string) []int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	require.NotNil(t, m, "%q in\n%s", pattern, text)
	var ns []int
	for _, s := range m[1:] {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		ns = append(ns, n)
	}
	return ns
}

// results returns what must not depend on crashes.
func results(t *testing.T, stdout string) string {
	t.Helper()
	from, to := strings.Index(stdout, "total: "), strings.Index(stdout, "counted by")
	require.True(t, 0 <= from && from < to, stdout)
	return stdout[from:to]
}

const concurrency = 32 // by default

func TestCrashAndResume(t *testing.T) {
	files, err := sources(nil)
	require.NoError(t, err)
	require.Greater(t, len(files), 1000)
	var args []string // the default
	if harness.CurrentLevel() == harness.Quick {
		files = files[:200]
		args = files
	}
	dir, n := t.TempDir(), len(files)

	first, err := process(t, dir, append([]string{"-crash", "0.5"}, args...)...)
	var killed *exec.ExitError
	require.ErrorAs(t, err, &killed)
	require.Contains(t, first, fmt.Sprintf("-1, %d files, new", n))
	require.NotContains(t, first, "total")

	second, err := process(t, dir, args...)
	require.NoError(t, err)
	require.Contains(t, second, fmt.Sprintf("-1, %d files, resumed", n))
	begun := (n + 1) / 2 // by the first process, whose last files were out at the kill
	again := find(t, second, `counted by this process: (\d+) of \d+ files`)[0]
	require.GreaterOrEqual(t, begun+again, n)
	require.LessOrEqual(t, begun+again, n+2*concurrency, "what ran, and what waited to be committed, is repeated")
	compareWithWC(t, second, files)

	third, err := process(t, dir, args...)
	require.NoError(t, err)
	require.Contains(t, third, fmt.Sprintf("-2, %d files, new", n), "a finished run is not resumed")
	require.Equal(t, n, find(t, third, `counted by this process: (\d+) of \d+ files`)[0])
	require.Equal(t, results(t, third), results(t, second))
	shown.Compare(t, "..", "fanout", dir)
}

// compareWithWC compares the totals with those of the real wc. In the locale C
// some versions of it do not count words without ASCII.
func compareWithWC(t *testing.T, stdout string, files []string) {
	t.Helper()
	wc, err := exec.LookPath("wc")
	if err != nil {
		t.Log("there is no wc to compare with")
		return
	}
	cmd := exec.CommandContext(t.Context(), wc, files...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	require.NoError(t, err)
	want := find(t, string(out), `(\d+) +(\d+) +(\d+) total\n$`)
	require.Equal(t, want, find(t, stdout, `total: (\d+) lines, (\d+) words, (\d+) bytes`))
}

func TestRunsWithOtherFilesAreOtherRuns(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	require.NoError(t, os.WriteFile(one, []byte("a b a\n"), 0o644))
	require.NoError(t, os.WriteFile(two, []byte("b b b\nno end"), 0o644))
	for _, c := range []struct {
		files []string
		want  string
	}{
		{[]string{one}, "total: 1 lines, 3 words, 6 bytes"},
		{[]string{one, two}, "total: 2 lines, 8 words, 18 bytes"},
	} {
		var stdout bytes.Buffer
		require.NoError(t, run(t.Context(), append([]string{"-dir", filepath.Join(dir, "engine")}, c.files...), &stdout, t.Output()))
		require.Contains(t, stdout.String(), "-1, ")
		require.Contains(t, stdout.String(), c.want)
	}
}

func TestAFileThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	err := run(t.Context(), []string{"-dir", dir, filepath.Join(dir, "none")}, t.Output(), t.Output())
	require.ErrorContains(t, err, "none: no such file")
}

// A known name in the folder for temporary files is anybody's to take first.
func TestTheStateIsInAFolderOfItsOwn(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.txt", []byte("one two\n"), 0o600))
	require.NoError(t, run(t.Context(), []string{"a.txt"}, t.Output(), t.Output()))
	require.DirExists(t, "fanout-data")
}

func TestTooManyFiles(t *testing.T) {
	_, err := sources(make([]string, maxFiles+1))
	require.ErrorIs(t, err, errTooMany)
}

// The most files give the largest list: it must be within the limit of 1 MiB.
func TestSharesFit(t *testing.T) {
	for _, n := range []int{1, 50, 1000, maxFiles} {
		require.Positive(t, share(n))
		require.LessOrEqual(t, n*(share(n)+overhead), 1<<20)
	}
}
