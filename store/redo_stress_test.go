package store

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// TestFilesBesideTheRedoLog: whatever runs commit, and is moved, while their files are written, and whichever region of the redo
// log has it, all that reads sees the same, also after a crash; after a loss of power each run is what it once was.
func TestFilesBesideTheRedoLog(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	steps := harness.Figure(16, 40, 40)
	if harness.Raced {
		steps = 12
	}
	for seed := range uint64(harness.Figure(1, 4, 1000)) {
		for _, durability := range []Durability{PowerLoss, ProcessCrash} {
			s := newRedoStress(t, seed, durability)
			for step := range steps {
				s.step()
				s.check(s.dir)
				if step%4 == 3 {
					s.crash()
				}
			}
			require.NoError(t, s.dir.Close())
		}
	}
}

// A redoStress does what chance wants to three runs of a directory.
type redoStress struct {
	t      *testing.T
	r      *rand.Rand
	dir    *Dir
	owners []*owner
	synced []byte // the redo log as it was synced last
}

func newRedoStress(t *testing.T, seed uint64, durability Durability) *redoStress {
	t.Logf("seed %d, %v", seed, durability)
	s := &redoStress{t: t, r: rand.New(rand.NewPCG(seed, 7)), dir: openWith(t, t.TempDir(), Options{Durability: durability, CountTenants: true})}
	s.dir.hook.SetTrimRecords(3)
	for _, id := range []workflow.RunID{"r1", "r2", "r3"} {
		o := startFor(t, s.dir, id, "a")
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		s.owners = append(s.owners, o)
	}
	return s
}

// step does one thing.
func (s *redoStress) step() {
	o := s.owners[s.r.IntN(len(s.owners))]
	if s.r.IntN(4) > 0 {
		require.NoError(s.t, s.act(o))
		return
	}
	fileBehind(s.t, s.dir, o, func() error {
		for range s.r.IntN(4) {
			if err := s.act(o); err != nil {
				return err
			}
		}
		return nil
	})
}

// act does one thing that may also happen while a file is written: it is called by the flusher then.
func (s *redoStress) act(o *owner) (err error) {
	l := &s.dir.redo
	switch s.r.IntN(10) {
	case 0, 1, 2, 3:
		return o.beats(1 + s.r.IntN(7))
	case 4, 5:
		return s.toggle(o)
	case 6:
		s.locked(func() {
			if l.file.IsFree() {
				l.file.Switch() // as if the region were full
			}
			err = s.sync()
		})
	case 7:
		s.locked(func() {
			if err = s.sync(); err == nil {
				_, err = s.dir.moveRuns([]int64{o.run.row.Num}, 1+s.r.IntN(4), nil)
			}
		})
	case 8:
		free := false
		s.locked(func() { free, err = l.file.IsFree(), s.sync() })
		if err == nil && !free {
			s.dir.recycleRegion()
		}
		s.locked(func() { err = s.sync() })
	case 9:
		s.locked(func() { l.paused++ }) // the commit goes into pawl.db
		if err = o.beats(1); s.r.IntN(2) == 0 && err == nil {
			err = s.toggle(o)
		}
		s.locked(func() { l.paused-- })
	}
	return err
}

func (s *redoStress) locked(f func()) {
	s.dir.mu.Lock()
	defer s.dir.mu.Unlock()
	f()
}

// sync makes the redo log durable, and keeps what it has.
func (s *redoStress) sync() (err error) {
	if err = s.dir.syncRedo(); err == nil {
		s.synced, err = os.ReadFile(s.dir.pathOf(redoFile))
	}
	return err
}

// toggle pauses a run, or resumes it.
func (s *redoStress) toggle(o *owner) error {
	if o.run.Head().Status == workflow.RunPaused {
		return o.try(state.Resume{}, decision.ResumeRun{})
	}
	return o.try(state.Pause{}, decision.PauseRun{})
}

// check compares what a directory says with what the owners know.
func (s *redoStress) check(d *Dir) {
	want, got := map[workflow.RunStatus]int{}, map[workflow.RunStatus]int{}
	for _, o := range s.owners {
		o.same(d)
		h, err := d.Head(o.run.Head().Run)
		require.NoError(s.t, err)
		require.Equal(s.t, o.run.Head().Status, h.Status)
		want[h.Status]++
	}
	counts, err := d.Counts(context.Background())
	require.NoError(s.t, err)
	for _, c := range counts {
		got[c.Status] += int(c.Runs)
	}
	require.Equal(s.t, want, got)
	requireStanding(s.t, d, counts)
}

// crash checks what the next engine finds after a crash, and after a loss of power.
func (s *redoStress) crash() {
	again := openWith(s.t, crashed(s.t, s.dir.path), Options{CountTenants: true})
	s.check(again)
	require.InDelta(s.t, again.TenantBytes("a"), s.dir.TenantBytes("a"), 700, "but for how large values are packed")
	require.NoError(s.t, again.Close())
	if s.dir.options.Durability == PowerLoss || s.synced == nil {
		return
	}
	full, err := os.ReadFile(s.dir.pathOf(redoFile))
	require.NoError(s.t, err)
	first := 0 // byte that was not synced
	for first < min(len(full), len(s.synced)) && full[first] == s.synced[first] {
		first++
	}
	for range 3 {
		lost := append([]byte(nil), full[:first+s.r.IntN(len(full)-first+1)]...)
		if len(lost) < len(s.synced) {
			lost = append(lost, s.synced[len(lost):]...)
		}
		path := crashed(s.t, s.dir.path)
		require.NoError(s.t, os.WriteFile(filepath.Join(path, redoFile), lost, 0o600))
		again := open(s.t, path)
		for _, o := range s.owners {
			h, err := again.Head(o.run.Head().Run)
			require.NoError(s.t, err)
			require.Len(s.t, all(s.t, again.History(h.Run)), int(h.Seq))
			found, err := again.State(h.Run)
			require.NoError(s.t, err)
			require.Equal(s.t, found.Status, h.Status)
		}
		require.NoError(s.t, again.Close())
	}
}
