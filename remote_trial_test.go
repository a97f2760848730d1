package pawl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/harness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// Whatever the log does, whichever directories are lost, and whoever takes over from whom: what was acknowledged is there for
// good, and all directories become the same.
func TestRemoteThroughFaults(t *testing.T) {
	for seed := range harness.Figure[uint64](4, 60, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newRemoteTrial(t, seed).play() })
		})
	}
}

// A remoteTrial is a directory that moves between machines.
type remoteTrial struct {
	*sharedPlace
	t     *testing.T
	r     *rand.Rand
	dirs  []string
	open  map[int]*pawl.Engine // by machine
	owner int
	def   *workflow.Definition
	acked map[workflow.RunID][]string // journals of runs that were acknowledged
	ended map[workflow.RunID]bool
	n     int
}

func newRemoteTrial(t *testing.T, seed uint64) *remoteTrial {
	x := &remoteTrial{sharedPlace: newSharedPlace(t), t: t, r: rand.New(rand.NewPCG(seed, 3)), open: map[int]*pawl.Engine{}, acked: map[workflow.RunID][]string{}, ended: map[workflow.RunID]bool{}}
	for i := range 3 {
		x.dirs = append(x.dirs, filepath.Join(t.TempDir(), fmt.Sprint("machine-", i)))
	}
	x.def = define(t, chainOf)
	return x
}

// openAt opens the engine on a machine, which takes the log from whoever has it.
func (x *remoteTrial) openAt(machine int) {
	x.closeAt(machine)
	faults := rand.New(rand.NewPCG(x.r.Uint64(), 4))
	large := strings.Repeat("x", 600<<10)
	h := pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		if task.Node == "b" && len(task.Key)%3 == 0 {
			return large, nil // its record is spilled
		}
		return int64(1), nil
	}}
	e, err := pawl.Open(x.t.Context(), x.dirs[machine], x.options(h, func(string) logtest.Fault {
		if faults.IntN(4) > 0 {
			return logtest.None
		}
		return logtest.Fault(faults.IntN(int(logtest.Hangs)))
	}))
	require.NoError(x.t, err)
	x.open[machine], x.owner = e, machine
}

func (x *remoteTrial) play() {
	x.openAt(0)
	for range 12 + x.r.IntN(20) {
		switch x.r.IntN(8) {
		case 0: // another machine takes over; the owner does not know
			x.openAt((x.owner + 1) % 3)
		case 1: // its machine is lost
			x.closeAt(x.owner)
			require.NoError(x.t, os.RemoveAll(x.dirs[x.owner]))
			x.openAt(x.r.IntN(3))
		case 2: // it is closed and opened
			x.openAt(x.owner)
		case 3:
			for id := range x.ended {
				if x.open[x.owner].Purge(x.t.Context(), id) == nil {
					delete(x.acked, id)
				}
				delete(x.ended, id)
				break
			}
		case 4:
			<-time.After(time.Duration(x.r.IntN(120)) * time.Second)
		default:
			x.runOnce()
		}
		x.check(x.open[x.owner])
	}
	x.compare()
}

// runOnce lets the owner, or one that thinks so, execute a run.
func (x *remoteTrial) runOnce() {
	for machine, e := range x.open {
		x.n++
		id := workflow.RunID(fmt.Sprintf("run-%d", x.n))
		_, err := e.Run(x.t.Context(), workflow.Run{ID: id, Definition: x.def}, map[string]any{"rounds": int64(x.r.IntN(3))})
		if machine != x.owner {
			require.Error(x.t, err, "it has lost the log")
			continue
		}
		require.NoError(x.t, err)
		x.acked[id], x.ended[id] = journalOf(x.t, e, id), true
	}
}

func (x *remoteTrial) closeAt(machine int) {
	if e := x.open[machine]; e != nil {
		if err := e.Close(x.t.Context()); err != nil {
			require.ErrorIs(x.t, err, pawl.ErrFailed)
		}
		delete(x.open, machine)
	}
}

// check checks that an engine has everything that was acknowledged.
func (x *remoteTrial) check(e *pawl.Engine) {
	found := map[workflow.RunID]bool{}
	for _, id := range idsOf(x.t, e) {
		found[id] = true
	}
	for id, was := range x.acked {
		require.True(x.t, found[id], "%s is lost", id)
		require.Equal(x.t, was, journalOf(x.t, e, id))
	}
	require.Len(x.t, found, len(x.acked))
}

// compare opens the directory on every machine in turn, and compares what they have.
func (x *remoteTrial) compare() {
	var rows any
	for machine := range x.dirs {
		x.closeAt(machine)
	}
	for machine, dir := range x.dirs {
		e, err := pawl.Open(x.t.Context(), dir, x.options(nil, nil))
		require.NoError(x.t, err)
		x.check(e)
		require.NoError(x.t, e.Close(x.t.Context()))
		report, err := rescue.Verify(dir)
		require.NoError(x.t, err)
		require.Empty(x.t, report.Findings)
		if rows == nil {
			rows = rowsOf(x.t, dir)
		}
		require.Equal(x.t, rows, rowsOf(x.t, dir), "machine %d", machine)
	}
	into := filepath.Join(x.t.TempDir(), "restored")
	info, err := pawl.Restore(x.t.Context(), into, pawl.RestoreOptions{Log: x.log.Writer(nil), Bases: x.bases})
	require.NoError(x.t, err)
	require.Empty(x.t, info.Damaged)
	require.Equal(x.t, rows, rowsOf(x.t, into))
}
