package planted

import (
	"context"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// A bug is a change of one place in the source, and who catches it.
type bug struct {
	name     string
	file     string // below the root of the module
	was, is  string // was stands in the file exactly once
	pkg, run string // the test that fails with it, perhaps with subtests behind a slash, or a $ where others begin with its name; pkg may be a module of its own
}

var bugs = []bug{
	{
		"a firing begins a run, and does not decide its instant", "internal/scheduling/fire.go",
		"Caller: caller, Keep: rows,", "Caller: caller, Keep: nil,", "./internal/scheduling", "TestKills$",
	},
	{
		"tasks are dispatched before the commit", "actor/turn.go",
		"	if len(t.records) > 0 {\n", "	if len(t.records) > 0 {\n		for _, e := range t.effects {\n			a.sendEffect(e, false)\n		}\n",
		"./actor", "TestNothingLeavesBeforeTheCommit",
	},
	{
		"a result of an older attempt is taken", "planning/complete.go",
		"t.Status != workflow.Dispatched || t.Attempt != k.attempt || t.Epoch != k.epoch", "t.Status != workflow.Dispatched",
		".", "TestForeignKeysAreStale",
	},
	{
		"the epoch is not checked in commits", "store/commit.go",
		"err == nil && found != d.epoch", "err == nil && found == 0",
		"./store", "TestFencedByAnEpoch",
	},
	{
		"an error of a commit is ignored", "actor/turn.go",
		"return a.reloadAfterFailure(batch, t, err)", "_ = err",
		"./actor", "TestNothingLeavesBeforeTheCommit",
	},
	{
		"branches are merged in the order of arrival", "merge/merge.go",
		"	sorted := sortedByIndex(branches)\n", "	sorted := branches\n",
		"./merge", "TestApply",
	},
	{
		"groups are told apart by name, not by origin", "planning/fanout.go",
		"case g.Name != name || origin != 0 && g.Origin != origin:", "case g.Name != name:",
		"./planning", "TestScripts",
	},
	{
		"after a restart an alarm has its full time again", "actor/actor.go",
		"a.alarm.Reset(min(max(wait, a.commitPause), a.hook.MaxNap(timeout.MaxNap)))", "a.alarm.Reset(timeout.MaxNap)",
		"./actor", "TestAlarmsAreOnTime",
	},
	{
		"an alarm sleeps until it is due, whatever the clock does meanwhile", "actor/actor.go",
		"a.alarm.Reset(min(max(wait, a.commitPause), a.hook.MaxNap(timeout.MaxNap)))", "a.alarm.Reset(max(wait, a.commitPause))",
		"./internal/testing/ownertest", "TestClockJumps",
	},
	{
		"an owner does not look again before it acknowledges", "store/commit.go",
		"if err := d.checkOwner(); err != nil {\n		// A new owner", "if err := error(nil); err != nil {\n		// A new owner",
		"./internal/testing/ownertest", "TestStoppedOwners",
	},
	{
		"an owner does not see that its directory was moved away", "store/fence.go",
		"isFileAt(d.lockPath, d.owned)", "func() (bool, error) { now, err := d.root.Lstat(lockName); return err == nil && os.SameFile(now, d.owned), err }()",
		"./internal/testing/ownertest", "TestStoppedOwners",
	},
	{
		"a new owner writes into the files of the old one", "store/create.go",
		"err == nil && log && was.epoch == 0", "err == nil && log && false",
		"./internal/testing/ownertest", "TestStoppedOwners",
	},
	{
		"what is out is not sent again on activation", "actor/actor.go",
		"	a.resendPending()\n", "",
		"./actor", "TestCrashesDoNotChangeTheResult",
	},
	{
		"the planner writes into the state that it is given", "planning/step.go",
		"p := &planner{s: s.Overlay(), now: now, decisions", "p := &planner{s: s, now: now, decisions",
		"./planning", "TestEveryInterleavingEnds",
	},
	{
		"a state that a failed commit has left ahead of the log is flushed", "actor/actor.go",
		"		if a.broken != nil { // the state", "		if false { // the state",
		"./actor", "TestABrokenDeliverFlushesNothing",
	},
	{
		"a chain keeps its processor from others", "internal/dispatch/task.go",
		"return d.running > 1 || d.waiting > 0 || d.single", "return false",
		".", "TestChainsTakeTurns",
	},
	{
		"commits are not synced", "store/checkpoint.go",
		"	err := syncData(d.log.file)\n	d.log.unsynced = d.log.unsynced && err != nil\n", "	err := error(nil)\n",
		"./store", "TestAFailedSyncFailsTheDirectory",
	},
	{
		"frames of the redo log are not synced", "store/redo.go",
		"if l.unsynced = d.options.Durability == ProcessCrash; !l.unsynced {", "if l.unsynced = true; !l.unsynced {",
		"./store", "TestFramesAreSynced",
	},
	{
		"a quorum asks for one branch more", "planning/fanin.go",
		"case g.Closed, quorum > 0 && g.Arrived >= quorum,", "case g.Closed, quorum > 0 && g.Arrived > quorum,",
		"./planning", "TestEveryOrderOfSixBranches",
	},
}

// test returns the name of the test that fails.
func (b bug) test() string {
	name, _, _ := strings.Cut(b.run, "/")
	return strings.TrimSuffix(name, "$")
}

const root = "../../.."

var only = flag.String("planted.bug", "", "plant only bugs whose names this regular expression matches")

// Every bug can be planted: its place is there, once.
func TestBugsCanBePlanted(t *testing.T) {
	require.GreaterOrEqual(t, len(bugs), 10)
	for _, b := range slices.Concat(bugs, copies, holes) {
		text, err := os.ReadFile(filepath.Join(root, b.file))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), b.was), "%s: the place of the bug in %s", b.name, b.file)
		require.NotEqual(t, b.was, b.is, b.name)
	}
}

// Every planted bug is caught by the test that is named for it, which passes
// without it.
func TestPlantedBugsAreCaught(t *testing.T) {
	harness.RequireLevel(t, harness.Release, "it runs the test that catches each of them in a copy")
	dir := t.TempDir()
	require.NoError(t, copyModule(dir))
	chosen := regexp.MustCompile(*only)
	planted, caught := 0, 0
	for _, b := range slices.Concat(bugs, copies, holes) {
		if !chosen.MatchString(b.name) {
			continue
		}
		planted++
		text, err := os.ReadFile(filepath.Join(dir, b.file))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), b.was), "%s: the place of the bug in %s", b.name, b.file)
		out, ok := run(t, dir, b)
		require.True(t, ok, "without the bug %q the test fails:\n%s", b.name, out)
		changed := strings.Replace(string(text), b.was, b.is, 1)
		require.NoError(t, os.WriteFile(filepath.Join(dir, b.file), []byte(changed), 0o600))
		out, ok = run(t, dir, b)
		switch {
		case ok:
			t.Errorf("not caught: %s", b.name)
		case strings.Contains(out, "[build failed]"):
			t.Errorf("it does not compile: %s\n%s", b.name, out)
		case failing(out) != b.test() && failing(out) != hangs && failing(out) != dies:
			t.Errorf("%s: another test than %s has failed:\n%s", b.name, b.test(), out)
		default:
			caught++
			t.Logf("| %s | %s | %s |", b.name, b.pkg, failing(out))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, b.file), text, 0o600))
	}
	t.Logf("%d of %d planted bugs are caught", caught, planted)
}

// run runs the test that is to catch a bug, and returns what it says and whether
// it passed.
func run(t *testing.T, dir string, b bug) (string, bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	module, pkg := dir, b.pkg
	if _, err := os.Stat(filepath.Join(dir, pkg, "go.mod")); err == nil {
		module, pkg = filepath.Join(dir, pkg), "."
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-buildvcs=false", "-count=1", "-timeout=2m", "-run="+b.run, pkg)
	cmd.Dir, cmd.Env = module, harness.Environment("PAWL_TEST=gate")
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// hangs is said of a bug that a test shows by not coming to its end.
const hangs = "a test that hangs"

// dies is said of a bug that ends the process, whatever test it is in.
const dies = "a panic"

// failing returns the name of the first test that failed.
func failing(out string) string {
	if m := failed.FindStringSubmatch(out); m != nil {
		return m[1]
	}
	if strings.Contains(out, "test timed out") {
		return hangs
	}
	return dies
}

// copyModule copies the source of the module.
func copyModule(to string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
}
