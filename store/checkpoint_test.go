package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
)

// A heldCheckpoint is a directory whose checkpoints wait when they are prepared.
type heldCheckpoint struct {
	*Dir
	owner    *owner
	prepared chan struct{} // gets one when a checkpoint is prepared
	release  chan struct{} // takes one for each that may go on
}

func holdCheckpoints(t *testing.T, frames int64, o Options) *heldCheckpoint {
	h := &heldCheckpoint{prepared: make(chan struct{}), release: make(chan struct{})}
	o.Hook = &testhook.Hook{}
	o.Hook.SetLogFrames(frames)
	o.Hook.OnHit(func(point string) {
		if point == "checkpoint.prepared" {
			h.prepared <- struct{}{}
			<-h.release
		}
	})
	h.Dir = withoutRedo(t, openWith(t, t.TempDir(), o))
	h.owner = start(t, h.Dir, "r1")
	h.owner.do(state.Start{}, startRun(nil))
	return h
}

// commitUntil commits until a condition of the checkpoints holds.
func (h *heldCheckpoint) commitUntil(holds func(c *checkpointer) bool) {
	for {
		h.mu.Lock()
		done := holds(&h.checkpoints)
		h.mu.Unlock()
		if done {
			return
		}
		h.owner.do(state.Heartbeat{})
	}
}

// commitUntilPrepared commits until a checkpoint waits for its release.
func (h *heldCheckpoint) commitUntilPrepared() {
	h.commitUntil(func(c *checkpointer) bool { return c.preparing })
	<-h.prepared
}

func (h *heldCheckpoint) frames() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.checkpoints.frames
}

func walSize(t *testing.T, d *Dir) int64 {
	info, err := os.Stat(filepath.Join(d.path, indexWAL))
	require.NoError(t, err)
	return info.Size()
}

// TestCommitsGoOnWhileACheckpointIsPrepared: what was committed meanwhile is moved with the
// rest, and the mark is of all of it.
func TestCommitsGoOnWhileACheckpointIsPrepared(t *testing.T) {
	for _, durability := range []Durability{PowerLoss, ProcessCrash} {
		h := holdCheckpoints(t, 100, Options{Durability: durability})
		for range 3 {
			h.commitUntilPrepared()
			before := h.frames()
			for range 20 {
				h.owner.do(state.Heartbeat{})
			}
			require.Greater(t, h.frames(), before, "no checkpoint was made")
			h.release <- struct{}{}
			h.checkpoints.running.Wait()
			require.Zero(t, h.frames())
			_, marked := sinceMark(t, crashed(t, h.path))
			require.True(t, marked)
			h.owner.do(state.Heartbeat{})
			logged, marked := sinceMark(t, crashed(t, h.path))
			require.True(t, marked)
			require.Less(t, len(logged), 10, "the log has begun anew")
		}
		copied := open(t, crashed(t, h.path))
		head, err := copied.Head("r1")
		require.NoError(t, err)
		require.Equal(t, h.owner.run.Head().Seq, head.Seq)
		require.NoError(t, h.Close())
	}
}

// TestAVeryLongLogIsNotWaitedFor: where the preparation takes too long, commits wait for a
// checkpoint, and nothing is left for the one that was prepared.
func TestAVeryLongLogIsNotWaitedFor(t *testing.T) {
	h := holdCheckpoints(t, 60, Options{})
	h.commitUntilPrepared()
	most := 0
	h.commitUntil(func(c *checkpointer) bool { most = max(most, c.frames); return c.frames < most })
	require.Less(t, most, maxLogs*60+30)
	size := walSize(t, h.Dir)
	h.release <- struct{}{}
	h.checkpoints.running.Wait()
	_, marked := sinceMark(t, crashed(t, h.path))
	require.True(t, marked)
	h.commitUntilPrepared()
	h.release <- struct{}{}
	require.LessOrEqual(t, walSize(t, h.Dir), size, "it grows with every commit")
	require.NoError(t, h.Close())
}

// TestCloseWaitsForACheckpoint: the one that is prepared finds a closed directory otherwise.
func TestCloseWaitsForACheckpoint(t *testing.T) {
	h := holdCheckpoints(t, 100, Options{})
	h.commitUntilPrepared()
	closed := make(chan error)
	go func() { closed <- h.Close() }()
	<-h.closing
	select {
	case <-closed:
		t.Fatal("it has not waited")
	case h.release <- struct{}{}:
	}
	require.NoError(t, <-closed)
	require.NoFileExists(t, filepath.Join(h.path, indexWAL))
}

// TestAnUnpreparedCheckpoint: a log that cannot be read before is summed by nobody, and
// moved all the same.
func TestAnUnpreparedCheckpoint(t *testing.T) {
	h := holdCheckpoints(t, 100, Options{})
	away := filepath.Join(h.path, indexWAL)
	h.commitUntil(func(c *checkpointer) bool { return c.frames > 80 })
	require.NoError(t, os.Rename(away, away+"-away"))
	h.commitUntilPrepared()
	require.NoError(t, os.Rename(away+"-away", away))
	h.release <- struct{}{}
	h.checkpoints.running.Wait()
	require.Zero(t, h.frames())
	require.NoError(t, h.Err())
	require.NoError(t, h.Close())
}

// TestLoneCommitsMoveTheLog: the log does not grow beyond its bound where every commit is
// made by its caller.
func TestLoneCommitsMoveTheLog(t *testing.T) {
	hook := &testhook.Hook{}
	hook.SetLogFrames(40)
	d := withoutRedo(t, openWith(t, t.TempDir(), Options{Hook: hook}))
	for range alone + 1 {
		require.NoError(t, d.updateIndex(func(*sqlite.Conn) error { return nil }))
	}
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	for range 200 {
		o.do(state.Heartbeat{})
	}
	const frame = 2048 + 24
	require.Less(t, walSize(t, d), int64(2*maxLogs*40*frame))
	require.NoError(t, d.Close())
}
