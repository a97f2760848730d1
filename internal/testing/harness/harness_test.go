package harness

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Every change of a directory shows in its contents.
func TestContents(t *testing.T) {
	dir := Workspace(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.MkdirAll(at("a/b"), 0o700))
	require.NoError(t, os.WriteFile(at("a/file"), []byte("one"), 0o600))
	require.NoError(t, os.Symlink("file", at("a/link")))
	before := Contents(t, dir)
	require.Len(t, before, 4)
	require.Equal(t, before, Contents(t, dir))
	for name, change := range map[string]func() (undo func() error, err error){
		"bytes": func() (func() error, error) {
			return func() error { return os.WriteFile(at("a/file"), []byte("one"), 0o600) }, os.WriteFile(at("a/file"), []byte("two"), 0o600)
		},
		"a new directory": func() (func() error, error) {
			return func() error { return os.Remove(at("c")) }, os.Mkdir(at("c"), 0o700)
		},
		"another kind": func() (func() error, error) {
			back := func() error { return errors.Join(os.Remove(at("a/link")), os.Symlink("file", at("a/link"))) }
			return back, errors.Join(os.Remove(at("a/link")), os.Mkdir(at("a/link"), 0o700))
		},
		"another name": func() (func() error, error) {
			return func() error { return os.Rename(at("b"), at("a/b")) }, os.Rename(at("a/b"), at("b"))
		},
	} {
		undo, err := change()
		require.NoError(t, err, name)
		require.NotEqual(t, before, Contents(t, dir), name)
		require.NoError(t, undo(), name)
		require.Equal(t, before, Contents(t, dir), name)
	}
}

// A copy of a directory in which files come and go has each as it is, or not at all.
func TestCopyLive(t *testing.T) {
	from, to := Workspace(t), filepath.Join(t.TempDir(), "copy")
	require.Error(t, CopyLive(to, filepath.Join(from, "none")))
	require.NoError(t, os.MkdirAll(filepath.Join(from, "tmp"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(from, "stays"), []byte("all of it"), 0o600))
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		at := filepath.Join(from, "tmp", "moves")
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				if err := errors.Join(os.WriteFile(at, nil, 0o600), os.Rename(at, filepath.Join(from, "moved"))); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	for range 200 {
		require.NoError(t, CopyLive(to, from))
	}
	close(stop)
	require.NoError(t, <-stopped)
	require.NoError(t, os.RemoveAll(filepath.Join(from, "tmp")))
	require.NoError(t, os.RemoveAll(to))
	require.NoError(t, CopyLive(to, from))
	require.Equal(t, Contents(t, from), Contents(t, to))
}

// The variable sets the level, without it the tests are quick, and a name of no level
// is refused.
func TestLevels(t *testing.T) {
	gate := Gate
	if Raced {
		gate = Quick
	}
	for name, want := range map[string]Level{"": Quick, "quick": Quick, "gate": gate, "release": Release} {
		t.Setenv(levelVariable, name)
		require.Equal(t, want, CurrentLevel(), name)
		require.Equal(t, []int{1, 10, 100}[want], Figure(1, 10, 100), name)
	}
	for _, name := range []string{"fast", "Quick", "quick,gate"} {
		t.Setenv(levelVariable, name)
		require.PanicsWithError(t, `PAWL_TEST is "`+name+`": it must be quick, gate or release`, func() { CurrentLevel() })
	}
}

// Each case has its day in a quick run; the other levels have all of them.
func TestToday(t *testing.T) {
	defer func(was func() int) { today = was }(today)
	cases := []string{"a", "b", "c", "d", "e"}
	timesOf := func(level string) map[string]int {
		t.Setenv(levelVariable, level)
		seen := map[string]int{}
		for day := range 4 {
			today = func() int { return 20_000 + day }
			for _, c := range Today(t, 4, cases) {
				seen[c]++
			}
		}
		return seen
	}
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, timesOf("quick"))
	require.Equal(t, map[string]int{"a": 4, "b": 4, "c": 4, "d": 4, "e": 4}, timesOf("release"))
}

// A skipped test knows whether it was skipped.
type skipped struct {
	testing.TB
	name string
	is   bool
}

func (s *skipped) Name() string         { return s.name }
func (s *skipped) Skipf(string, ...any) { s.is = true }

// A test has one day in n in quick runs, which is not that of every other test, and every day at the other levels.
func TestInTurn(t *testing.T) {
	defer func(was func() int) { today = was }(today)
	turns := func(name string) (days []int) {
		for day := range 12 {
			today = func() int { return 20_000 + day }
			test := &skipped{TB: t, name: name}
			if InTurn(test, 4); !test.is {
				days = append(days, day)
			}
		}
		return days
	}
	t.Setenv(levelVariable, "quick")
	first := map[int]bool{}
	for i := range 40 {
		days := turns("Test" + strconv.Itoa(i))
		require.Len(t, days, 3)
		require.Equal(t, []int{days[0], days[0] + 4, days[0] + 8}, days)
		first[days[0]] = true
	}
	require.Len(t, first, 4)
	t.Setenv(levelVariable, "release")
	require.Len(t, turns("TestA"), 12)
}

// A test that needs a level is skipped below it.
func TestRequireLevel(t *testing.T) {
	t.Setenv(levelVariable, "quick")
	reached := map[Level]bool{}
	for l := Quick; l <= Release; l++ {
		t.Run(l.String(), func(t *testing.T) {
			RequireLevel(t, l, "a test of the harness")
			reached[l] = true
		})
	}
	t.Run("time", func(t *testing.T) {
		MeasuresTime(t)
		t.Error("it measures time in the quick run")
	})
	t.Run("memory", func(t *testing.T) {
		MeasuresMemory(t)
		t.Error("it measures memory in the quick run")
	})
	require.Equal(t, map[Level]bool{Quick: true}, reached)
}

// A child knows what it is told, the level, and nothing of ours besides.
func TestEnvironment(t *testing.T) {
	t.Setenv("PAWL_OTHER", "1")
	t.Setenv(levelVariable, "gate")
	t.Setenv("OTHER", "2")
	got := Environment("PAWL_CHILD=3")
	require.Contains(t, got, "OTHER=2")
	require.Contains(t, got, "PAWL_CHILD=3")
	require.Contains(t, got, "PAWL_TEST=gate")
	require.NotContains(t, got, "PAWL_OTHER=1")
}

func TestKilled(t *testing.T) {
	require.True(t, Killed(exec.Command("sh", "-c", "kill -9 $$").Run()))
	require.False(t, Killed(exec.Command("sh", "-c", "kill -15 $$").Run()))
	require.False(t, Killed(exec.Command("sh", "-c", "exit 9").Run()))
	require.False(t, Killed(nil))
}

// Goroutines outside of the bubble do not count.
func TestCountBubbled(t *testing.T) {
	ends := make(chan bool)
	defer close(ends)
	go func() { <-ends }()
	require.Zero(t, CountBubbled())
	synctest.Test(t, func(t *testing.T) {
		before := CountBubbled()
		ends := make(chan bool)
		go func() { <-ends }()
		synctest.Wait()
		require.Equal(t, before+1, CountBubbled())
		close(ends)
		synctest.Wait()
		require.Equal(t, before, CountBubbled())
	})
}
