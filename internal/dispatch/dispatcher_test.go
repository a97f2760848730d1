package dispatch

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/workflow"
)

// An attempt that is withdrawn at the moment at which it says that its result
// comes later is over twice. Its blobs are let go once: others may have the same.
func TestAnAttemptIsForgottenOnce(t *testing.T) {
	host := &pins{}
	d := New(context.Background(), Options{Host: host, Most: 1})
	task := waitingTask("a")
	d.holdTask(task)
	d.PinBlob(task.Name().Name()+".mac", "hash")
	require.Equal(t, []string{"hash"}, host.pinned)
	d.forgetTask(task)
	d.forgetTask(task)
	require.Equal(t, []string{"hash"}, host.unpinned)
}

// pins are a host that is asked for blobs only.
type pins struct {
	Host
	pinned, unpinned []string
}

// PinBlobs implements Host.
func (p *pins) PinBlobs(hashes ...string) { p.pinned = append(p.pinned, hashes...) }

// UnpinBlobs implements Host.
func (p *pins) UnpinBlobs(hashes ...string) { p.unpinned = append(p.unpinned, hashes...) }

// Whichever attempts are held and forgotten, each is found as long as it is held, and the newest of a token is the one
// that was held last, or none.
func TestAttemptsAreFoundWhileTheyAreHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := New(context.Background(), Options{Host: &pins{}, Most: 1})
		held, newest := map[taskkey.Attempt]*Task{}, map[workflow.TokenID]*Task{}
		var ever []*Task
		for n := range rapid.IntRange(1, 30).Draw(t, "acts") {
			if len(ever) > 0 && rapid.Bool().Draw(t, "forgets") {
				task := rapid.SampledFrom(ever).Draw(t, "task")
				d.forgetTask(task)
				delete(held, AttemptOf(&task.Dispatch))
				if newest[task.Token] == task {
					delete(newest, task.Token)
				}
			} else {
				task := waitingTask("a")
				task.Token, task.Attempt = workflow.TokenID(rapid.IntRange(1, 2).Draw(t, "token")), n+1
				d.holdTask(task)
				ever, held[AttemptOf(&task.Dispatch)], newest[task.Token] = append(ever, task), task, task
			}
			for _, task := range ever {
				require.True(t, held[AttemptOf(&task.Dispatch)] == d.heldAttempt(AttemptOf(&task.Dispatch)))
				require.True(t, newest[task.Token] == d.newestAttempt("a", task.Token))
			}
			require.Len(t, slices.Collect(d.allHeld), len(held))
			require.Equal(t, len(held), d.count)
		}
	})
}

// waitingTask returns an attempt of a run.
func waitingTask(run workflow.RunID) *Task {
	t := &Task{}
	t.Run, t.Node = run, &compiled.Node{Node: &workflow.Node{}}
	return t
}
