//go:build linux

package ownertest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// stops are the failpoints at which an engine is stopped.
var stops = []string{
	"start.ask", "start.answer", "commit.begin", "commit.row", "commit.inside", "commit.done",
	"release.begin", "release.dispatch", "release.end", "end.tell", "task.begin", "task.result", "task.delivered",
	"actor.passivate", "file.begin", "file.fill", "disk.write", "file.built", "file.renamed", "file.synced",
	"file.trim", "file.trimmed", "file.end",
}

// A takeOver is what an operator does to a directory whose engine does not
// answer, so that another may have it.
type takeOver struct {
	name string
	// do takes the directory from the engine that is stopped.
	do func(t *testing.T, dir string)
	// drops says that the engine's host has read pawl.db before, which drops the
	// locks that SQLite holds.
	drops bool
	// held says that SQLite's locks keep the directory until the engine is gone.
	held bool
}

func removeLock(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "LOCK"))) }

func replaceLock(t *testing.T, dir string) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o600))
	require.NoError(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "LOCK")))
}

func moveAway(t *testing.T, dir string) {
	require.NoError(t, os.Rename(dir, dir+".old"))
	require.NoError(t, os.CopyFS(dir, os.DirFS(dir+".old")))
}

var takeOvers = []takeOver{
	{name: "nothing", do: func(*testing.T, string) {}, held: true},
	{name: "nothing, SQLite's locks dropped", do: func(*testing.T, string) {}, drops: true, held: true},
	{name: "moved away, a copy in its place", do: moveAway},
	{name: "moved away and copied, SQLite's locks dropped", do: moveAway, drops: true},
	{name: "lock file removed", do: removeLock, held: true},
	{name: "lock file replaced", do: replaceLock, held: true},
	{name: "lock file removed, SQLite's locks dropped", do: removeLock, drops: true},
	{name: "lock file replaced, SQLite's locks dropped", do: replaceLock, drops: true},
}

// TestStoppedOwners stops an engine in the middle of its work with SIGSTOP, has
// another try to open the directory, takes the directory from the first in every
// way that there is, and lets it go on with SIGCONT. It must find out before it
// acknowledges anything more. Nothing that it was told before is lost, what it
// commits after that does not appear, and nothing that the other one is told is
// harmed.
func TestStoppedOwners(t *testing.T) {
	harness.InTurn(t, 4)
	r := rand.New(rand.NewPCG(*seed, 140))
	n := harness.Figure(len(takeOvers), 20, 200)
	died, acks := 0, 0
	ways, points := map[string]int{}, map[string]int{}
	for i := range n {
		way := takeOvers[i%len(takeOvers)]
		point, hit := stops[(i*7+int(*seed))%len(stops)], 1+r.IntN(9)
		if !way.held && i%2 == 0 { // where it matters most
			point, hit = []string{"commit.begin", "commit.row", "commit.inside"}[r.IntN(3)], 1+r.IntN(20)
		}
		ways[way.name]++
		points[point]++
		t.Run(fmt.Sprintf("%d %s at %s %d", i, way.name, point, hit), func(t *testing.T) {
			fenced, told := stopOne(t, way, point, hit)
			acks += told
			if fenced {
				died++
			}
		})
	}
	require.Positive(t, died)
	t.Logf("%d take-overs, by way: %v; stopped at %d failpoints: %v; %d owners found out at their next commit, %d acks, violations: 0",
		n, ways, len(points), slices.Sorted(maps.Keys(points)), died, acks)
}

func stopOne(t *testing.T, way takeOver, point string, hit int) (fenced bool, acks int) {
	dir := filepath.Join(harness.Workspace(t), "engine")
	first, second := begin(t, "first"), begin(t, "second")
	open := command{Do: "open", Dir: dir}
	first.must("opened", open)
	first.must("worked", command{Do: "work", Count: 2})
	if way.drops {
		first.must("read", command{Do: "read", Dir: dir})
	}
	first.send(command{Do: "stream", Point: point, Count: hit})
	first.awaitStop()

	before := contents(t, dir)
	second.must("locked", open)
	require.Equal(t, before, contents(t, dir), "the second opener has changed the directory")
	known := runsOfACopy(t, dir)

	way.do(t, dir)
	if way.held {
		before = contents(t, dir)
		r := second.must("locked", open)
		require.NotEmpty(t, r.Error)
		require.Equal(t, before, contents(t, dir), "the second opener has changed the directory")
	} else {
		second.must("opened", open)
		second.must("worked", command{Do: "work", Count: 3})
	}
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGCONT))
	r := first.next() // the answer to stream
	if way.name == "nothing" || way.name == takeOvers[1].name {
		require.Equal(t, "worked", r.Said, r.Error)
		second.must("locked", open)
		first.must("closed", command{Do: "close"})
		second.must("opened", open)
		known = nil
	} else {
		require.Equal(t, "died", r.Said)
		require.True(t, r.Fence, "it did not find out but: %s", r.Error)
		fenced = true
		if way.held {
			known = nil // what it committed before it found out is there
			first.send(command{Do: "close"})
			require.Equal(t, "closed", first.next().Said)
			second.must("opened", open)
		} else {
			second.must("worked", command{Do: "work", Count: 2})
			first.send(command{Do: "close"})
			require.Equal(t, "closed", first.next().Said)
		}
	}
	second.must("worked", command{Do: "work", Count: 2})
	second.must("closed", command{Do: "close"})
	if known != nil {
		told, err := readLedger(dir)
		require.NoError(t, err)
		for _, id := range told["ended"] {
			if bytes.HasPrefix([]byte(id), []byte("first")) {
				require.True(t, known[id], "the end of %s was acknowledged after the directory was lost", id)
			}
		}
		for id := range known {
			known[id] = true
		}
		for _, id := range told["asks"] {
			if bytes.HasPrefix([]byte(id), []byte("second")) {
				known[id] = true
			}
		}
	}
	return fenced, settled(t, dir, known)
}

// awaitStop waits until every thread of the process has stopped. The first one
// stops as soon as it may, while another may still be within a write: the kernel
// stops a thread on its way out of a call. Once one has stopped, none is begun.
func (p *process) awaitStop() {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		if p.stopped(p.cmd.Process.Pid) && p.allStopped() {
			return
		}
		select {
		case r := <-p.replies:
			p.t.Fatalf("%s did not stop: %+v %s", p.name, r, p.says.String())
		case <-tick.C:
		}
	}
	p.t.Fatalf("%s did not stop", p.name)
}

func (p *process) allStopped() bool {
	p.t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	return !slices.ContainsFunc(threads, func(e os.DirEntry) bool {
		id, err := strconv.Atoi(e.Name())
		require.NoError(p.t, err)
		return !p.stopped(id)
	})
}

// stopped says whether a thread of the process has stopped, or is gone.
func (p *process) stopped(thread int) bool {
	p.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", p.cmd.Process.Pid, thread))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	require.NoError(p.t, err)
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(rest, []byte("T"))
}

// runsOfACopy returns the runs that a copy of a directory holds, and whether they
// have ended.
func runsOfACopy(t *testing.T, dir string) map[workflow.RunID]bool {
	t.Helper()
	copied := filepath.Join(harness.Workspace(t), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	d, err := store.Open(copied, store.Options{})
	require.NoError(t, err)
	out := map[workflow.RunID]bool{}
	for h, err := range d.AllHeads(store.RunFilter{}) {
		require.NoError(t, err)
		out[h.Run] = h.Status.Final()
	}
	require.NoError(t, d.Close())
	return out
}
