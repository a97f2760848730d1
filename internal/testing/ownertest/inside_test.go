//go:build unix

package ownertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// Other code of the host that opens and closes the engine's files drops the locks
// that SQLite holds on them: POSIX gives them to the process, not to a
// descriptor. The lock file's is of another kind and keeps others out, and what
// is acknowledged is there. The gate runs it every second day.
func TestHostReadsTheFiles(t *testing.T) {
	harness.TurnOfDay(t, harness.Figure(1, 2, 1))
	dir := filepath.Join(harness.Workspace(t), "engine")
	other := begin(t, "other")
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"*": echo}, IdleAfter: time.Millisecond})
	require.NoError(t, err)
	rounds, reads := harness.Figure(10, 100, 1000), 0
	for i := range rounds {
		for _, name := range []string{"pawl.db", "pawl.db-wal", "LOCK"} {
			f, err := os.OpenFile(filepath.Join(dir, name), []int{os.O_RDONLY, os.O_RDWR}[i%2], 0)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			reads++
		}
		_, err := pawl.Open(t.Context(), dir, pawl.Options{LockWait: -1})
		require.ErrorIs(t, err, pawl.ErrLocked)
		_, err = rescue.Verify(t.Context(), dir, rescue.Options{})
		require.ErrorIs(t, err, pawl.ErrLocked)
		other.must("locked", command{Do: "open", Dir: dir})
		out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: work}, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	require.NoError(t, e.Close(t.Context()))
	report, err := rescue.Verify(t.Context(), dir, rescue.Options{})
	require.NoError(t, err)
	require.Zero(t, report.Damage, report.String())
	e = open(t, dir, pawl.Options{})
	for i := range rounds {
		out, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("r", i)))
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	t.Logf("%d files opened and closed, %d runs, %d openers refused, violations: 0", reads, rounds, 3*rounds)
}

// A program that a task runs has none of the engine's files open, and one that
// outlives the engine does not keep its lock, also when programs are started all
// the time while the lock is given back.
func TestProgramsInheritNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: what a program has open is listed in /proc/self/fd, on Linux")
	}
	dir := filepath.Join(harness.Workspace(t), "engine")
	lives := harness.Figure(4, 40, 1000)
	options := pawl.Options{Executor: pawl.Handlers{"*": handler.Exec(handler.ExecOptions{Programs: []string{"sh"}, Env: []string{"PATH"}})}}
	d := witness.MustParse(`name: exec
start: a
nodes: [{id: a, task: exec, input: {argv: input.argv, text: "true"}, output: {output.text: result.stdout}}]`)
	var left []int
	defer func() {
		for _, pid := range left {
			if isSleep(pid) { // else it has ended, and the number may be another's
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}()
	stop, forks := make(chan struct{}), atomic.Int64{}
	var forking sync.WaitGroup
	for range 2 {
		forking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
				if err == nil {
					_, err = p.Wait()
				}
				if err != nil {
					t.Error(err)
					return
				}
				forks.Add(1)
			}
		})
	}
	open := 0
	for i := range lives {
		e, err := pawl.Open(t.Context(), dir, options)
		require.NoError(t, err, "life %d", i)
		// The shell lists what it has open, and leaves a process behind in a session
		// of its own. Its number is said from within that, when it is in the group of the shell no more, which is killed with the shell.
		script := `ls -l /proc/self/fd; setsid sh -c 'sleep 300 3>&- & echo pid $! >&3' 3>&1 >/dev/null 2>&1 </dev/null; exit $?`
		run := workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: d}
		out, err := e.Run(t.Context(), run, map[string]any{"argv": []string{"sh", "-c", script}})
		require.NoError(t, err)
		require.NoError(t, out.Err())
		text := out.Output["text"].(string)
		require.NotContains(t, text, dir)
		open += strings.Count(text, "->")
		var pid int
		_, err = fmt.Sscanf(text[strings.LastIndex(text, "pid "):], "pid %d", &pid)
		require.NoError(t, err)
		left = append(left, pid)
		require.NoError(t, e.Close(t.Context()))
		require.Eventually(t, func() bool { return isSleep(pid) }, patience, 2*time.Millisecond, "no program outlives life %d", i)
	}
	close(stop)
	forking.Wait()
	require.Positive(t, forks.Load())
	require.Positive(t, open, "no descriptor was listed")
	t.Logf("%d lives of an engine, each of which left a program behind; %d forks meanwhile; %d descriptors of programs, none of the engine's; violations: 0", lives, forks.Load(), open)
}

// isSleep says whether a process has become the program sleep, and has not ended.
func isSleep(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && string(line) == "sleep\x00300\x00"
}

// TestRacesInAProcess has goroutines open one directory at the same instant, with
// engines of one process, and ask for runs that are asleep, whose actors leave as
// soon as they may: one engine has the directory, one actor the run. With two
// actors, one would find its commit refused, and no commit is. The gate opens directories every second day.
func TestRacesInAProcess(t *testing.T) {
	t.Run("for a directory", func(t *testing.T) {
		harness.TurnOfDay(t, harness.Figure(1, 2, 1))
		opens := harness.Figure(4, 500, 20_000)
		t.Logf("%d races for a directory, %d refused; violations: 0", opens, raceOpens(t, opens))
	})
	t.Run("for a run", func(t *testing.T) {
		asks := harness.Figure(60, 9500, 980_000)
		t.Logf("%d races for a run, %d activations; violations: 0", asks, raceActors(t, asks))
	})
}

func raceOpens(t *testing.T, races int) (refused int) {
	const perDir = 50
	options := pawl.Options{Executor: pawl.Handlers{"*": echo}, Durability: pawl.ProcessCrash, LockWait: -1}
	dir := ""
	for i := range races {
		if i%perDir == 0 {
			dir = filepath.Join(harness.Workspace(t), "engine")
		}
		got, wrong := make([]*pawl.Engine, 3), make([]error, 3)
		race(len(got), func(k int) { got[k], wrong[k] = pawl.Open(context.Background(), dir, options) })
		var winner *pawl.Engine
		for k, e := range got {
			if e == nil {
				require.ErrorIs(t, wrong[k], pawl.ErrLocked)
				refused++
				continue
			}
			require.Nil(t, winner, "two engines have the directory")
			winner = e
		}
		require.NotNil(t, winner)
		id := workflow.RunID(fmt.Sprint("r", i%perDir))
		out, err := winner.Run(t.Context(), workflow.Run{ID: id, Definition: work}, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.NoError(t, winner.Close(t.Context()))
	}
	return refused
}

func raceActors(t *testing.T, races int) (activations int64) {
	const atOnce, perRun, askers, news = 8, 50, 3, 10
	runs := races / perRun
	loads := atomic.Int64{}
	hook := &testhook.Hook{}
	hook.OnHit(func(name string) {
		if name == "actor.active" {
			loads.Add(1)
		}
	})
	var faults faultLog
	e := openWith(t, hook, filepath.Join(harness.Workspace(t), "engine"), pawl.Options{
		Durability: pawl.ProcessCrash, IdleAfter: time.Microsecond, Logger: faults.logger(),
	})
	d := witness.MustParse("name: sleeper\nstart: a\nnodes: [{id: a, wait: {event: never}}]\n")
	// Every tenth race is for the first of three signals, the others repeat them, so
	// that most activations change nothing.
	gate := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for i := range runs {
		group.Go(func() {
			id := workflow.RunID(fmt.Sprint("s", i))
			if err := e.Start(context.Background(), workflow.Run{ID: id, Definition: d}, nil); err != nil {
				t.Error(err)
			}
			for n := range perRun {
				gate <- struct{}{}
				race(askers, func(k int) {
					s := workflow.Signal{Name: "other", Early: true, ID: fmt.Sprint(n/news, k)}
					if err := e.Signal(context.Background(), id, s); err != nil {
						t.Error(err)
					}
				})
				<-gate
			}
		})
	}
	group.Wait()
	for i := range runs {
		seen, seq := map[string]bool{}, int64(0)
		for r, err := range e.Journal(t.Context(), workflow.RunID(fmt.Sprint("s", i)), pawl.EventsOptions{}) {
			require.NoError(t, err)
			seq++
			require.Equal(t, seq, r.Seq)
			if s, ok := r.Message.(state.Signal); ok {
				require.False(t, seen[s.ID], "signal %s was taken twice", s.ID)
				seen[s.ID] = true
			}
		}
		require.Len(t, seen, perRun/news*askers)
	}
	require.Empty(t, faults.lines(), "an actor's commit was refused")
	return loads.Load()
}
