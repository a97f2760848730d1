package dispatch

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/taskqueue"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/replay"
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

// The blobs of details that a run has not taken are kept until it takes them, and are let go once.
func TestDetailsKeepTheirBlobs(t *testing.T) {
	d := New(context.Background(), Options{Host: &pins{}, Most: 1})
	task := waitingTask("a")
	d.holdTask(task)
	var unpinned []string
	beat := func(value any) (merged bool, send Details) {
		return d.MergeHeartbeat(task.Name(), Details{value, func() { unpinned = append(unpinned, fmt.Sprint(value)) }})
	}
	_, send := beat("one")
	d.HeartbeatSent(task.Name(), send, io.EOF)
	require.Empty(t, unpinned)
	merged, send := beat(nil)
	require.False(t, merged)
	require.Equal(t, "one", send.Value)
	require.Equal(t, []string{"<nil>"}, unpinned)
	merged, _ = beat("two")
	require.True(t, merged)
	d.HeartbeatSent(task.Name(), send, io.EOF)
	require.Equal(t, []string{"<nil>", "one"}, unpinned)
	d.forgetTask(task)
	d.forgetTask(task)
	_, send = beat("three")
	d.HeartbeatSent(task.Name(), send, nil)
	require.Equal(t, []string{"<nil>", "one", "two", "three"}, unpinned)
}

// pins are a host that is asked for blobs only.
type pins struct {
	Host
	pinned, unpinned []string
}

// PinBlobs implements Host.
func (p *pins) PinBlobs(hashes ...string) { p.pinned = append(p.pinned, hashes...) }

// IsUnwanted implements Host.
func (*pins) IsUnwanted(workflow.RunID) bool { return false }

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

// An attempt counts once, though its end is told twice: one that parks after it has failed.
func TestAnEndCountsOnce(t *testing.T) {
	d := New(context.Background(), Options{Host: &pins{}, Most: 1, Hook: &testhook.Hook{}})
	task := waitingTask("a")
	task.Token, task.Node.ID, task.Workflow = 1, "a", &workflow.Definition{}
	d.holdTask(task)
	for _, end := range []workflow.EventType{workflow.EventTaskFailed, workflow.EventTaskParked} {
		d.CountEnds(state.NewState("a", &compiled.Graph{Graph: &workflow.Graph{}}), []decision.Record{{}}, decision.TellEvents([]decision.Event{{Type: end, Token: 1}}))
	}
	read := d.o.Timings.Read(t.Context(), history.TimingFilter{}, time.Now())
	require.Len(t, read.Rows, 1)
	require.EqualValues(t, 1, read.Rows[0].Attempts)
}

// Only waits of several tasks are looked for among all attempts, and not while too many are held.
func TestWhichAttemptsAWaitLooksAt(t *testing.T) {
	d := New(t.Context(), Options{Host: &pins{}, Most: 1, Hook: &testhook.Hook{}, TenantLimit: func(string) TenantLimit { return TenantLimit{} }})
	for token := workflow.TokenID(1); token <= 2; token++ {
		of := waitingTask("a").Dispatch
		of.Token, of.Attempt, of.Task = token, 1, "t"
		d.queueTask(of)
		name := AttemptOf(&of)
		d.NoteWorker(name.Name()+".mac", "w")
	}
	mark := func(tasks int) int {
		waits := []replay.Wait{{Token: 1, Count: tasks, Status: workflow.Dispatched}}
		d.MarkWaits("a", waits)
		return waits[0].Running
	}
	require.Equal(t, 2, mark(2))
	d.count += maxPlaces
	require.Equal(t, 0, mark(2))
	require.Equal(t, 1, mark(1))
	d.held = map[outKey]*Task{{"a", 1}: d.held[outKey{"a", 1}], {"a", 3}: {Dispatch: actor.Dispatch{Run: "a"}}} // to look at this one panics
	require.Equal(t, 1, mark(1))
}

// waitingTask returns an attempt of a run.
func waitingTask(run workflow.RunID) *Task {
	t := &Task{}
	t.Run, t.Node = run, &compiled.Node{Node: &workflow.Node{}}
	return t
}

// The load by type that is kept as attempts come and go is that of all attempts that are held, whatever becomes of them.
func TestLoadsAreThoseOfWhatIsHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := New(context.Background(), Options{Host: &later{}, Most: rapid.IntRange(1, 4).Draw(t, "most"), TenantLimit: func(string) TenantLimit { return TenantLimit{} }, Hook: &testhook.Hook{}})
		d.stopped = true // no goroutine begins a task
		now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
		d.o.Hook.OnNow(func() time.Time { return now })
		var all []*Task
		finished := map[*Task]bool{}
		anyTask := func() *Task { return rapid.SampledFrom(all).Draw(t, "task") }
		locked := func(do func()) { d.mu.Lock(); defer d.mu.Unlock(); do() }
		for n := range rapid.IntRange(1, 40).Draw(t, "acts") {
			now = now.Add(time.Duration(rapid.IntRange(-3, 9).Draw(t, "step")) * time.Millisecond) // a clock may be set back
			switch act := rapid.IntRange(0, 6).Draw(t, "act"); {
			case act == 0 || len(all) == 0:
				of := waitingTask("a").Dispatch
				of.Token, of.Attempt, of.Task, of.Workflow = workflow.TokenID(rapid.IntRange(1, 9).Draw(t, "token")), n+1, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "type"), &workflow.Definition{}
				locked(func() { d.queueTask(of) })
				all = append(all, d.heldAttempt(AttemptOf(&of)))
			case act == 1:
				locked(func() { d.stopped = false; d.beginNext(); d.stopped = true })
			case act == 2:
				d.NoteWorker(anyTask().Name().Name()+".mac", rapid.SampledFrom([]string{"", "w1", "w2"}).Draw(t, "worker"))
			case act == 3:
				if one := anyTask(); one.cancel != nil && !one.delivers {
					if rapid.Bool().Draw(t, "later") {
						d.notePending(one)
					}
					d.taskReturned(one)
				}
			case act == 4:
				if one := anyTask(); one.delivers && !finished[one] {
					finished[one] = true
					locked(func() { d.finishTask(one) })
				}
			default:
				one := anyTask()
				d.Withdraw(one.Run, one.Token)
			}
			requireLoadsOfHeld(t, d)
		}
	})
}

// requireLoadsOfHeld compares the loads with a count of all attempts that are held.
func requireLoadsOfHeld(t require.TestingT, d *Dispatcher) {
	loads := map[string]history.TypeLoad{}
	for _, l := range d.Loads() {
		loads[l.Task] = l
	}
	now, want := instantOf(d.o.Hook.Now()), map[string]history.TypeLoad{}
	for task := range d.allHeld {
		l := want[task.Task]
		switch l.Task = task.Task; task.standOf() {
		case waits:
			l.Waiting++
			l.Oldest = max(l.Oldest, task.waited.until(now))
		case performed:
			l.Running++
			l.Longest = max(l.Longest, instant(task.performed.Load()).until(now))
		case elsewhere:
			l.Pending++
		case nowhere, standEnd:
			continue
		}
		want[task.Task] = l
	}
	require.Equal(t, want, loads)
}

// later is a host none of whose runs is wanted no more.
type later struct{ pins }

// IsUnwanted implements Host.
func (*later) IsUnwanted(workflow.RunID) bool { return false }

// Go's collector looks at a header above 512 bytes, and there may be as many attempts as a run has branches.
func TestATaskIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Task{}), uintptr(512))
}

// BenchmarkLoads asks what there is to do while 100,000 tasks wait.
func BenchmarkLoads(b *testing.B) {
	d := New(context.Background(), Options{Host: &later{}, Most: 1, TenantLimit: func(string) TenantLimit { return TenantLimit{} }})
	for i := range 100_000 {
		of := waitingTask("a").Dispatch
		of.Token, of.Attempt, of.Task = workflow.TokenID(i+1), 1, "a"
		d.queueTask(of)
	}
	for b.Loop() {
		d.Loads()
	}
}

// A run that is resumed before the refusal of a result from outside is noted has the attempt performed again: while the handler is at
// work, once it returns, and also beside another result from outside, which fails.
func TestAnAttemptComesAgainBesideItsRefusal(t *testing.T) {
	for _, pending := range []bool{false, true} {
		d := New(context.Background(), Options{Host: &pins{}, Most: 1, Hook: &testhook.Hook{}, TenantLimit: func(string) TenantLimit { return TenantLimit{} }})
		sent := waitingTask("a").Dispatch
		sent.Token, sent.Attempt, sent.Returns = 1, 1, true
		d.Dispatch(sent)
		task := d.beginNext()
		a := AttemptOf(&sent)
		returnPending := func() {
			task.pending = true
			d.taskReturned(task)
			d.running = 1 // no slot is free
		}
		if pending {
			returnPending()
			d.taskFinished(task, false)
		}
		err := d.DeliverFromOutside(a, func() error {
			d.Dispatch(sent)
			require.ErrorIs(t, d.DeliverFromOutside(a, func() error { return io.ErrShortWrite }), io.ErrShortWrite)
			return state.ErrSuspended
		})
		require.ErrorIs(t, err, state.ErrSuspended)
		if !pending {
			returnPending()
			d.taskFinished(task, false)
		}
		require.NotSame(t, task, d.heldAttempt(a))
		require.NotNil(t, d.heldAttempt(a))
		require.Equal(t, 1, d.count)
	}
}

// A task that the rate of its type lets go soon sets no timer while all slots are taken, which would fire again and again from then on. The
// task that frees its slot sets it.
func TestNoTimerRunsWhileAllSlotsAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(t.Context(), Options{
			Host: &pins{}, Most: 1, Hook: &testhook.Hook{}, Types: map[string]taskqueue.Limit{"api": {Rate: 1}},
			TenantLimit: func(string) TenantLimit { return TenantLimit{} },
		})
		begin := func(run workflow.RunID, kind string) *Task {
			of := waitingTask(run).Dispatch
			of.Token, of.Attempt, of.Task, of.Returns = 1, 1, kind, true
			d.Dispatch(of)
			return d.beginNext()
		}
		first := begin("a", "api") // it takes the burst
		require.NotNil(t, first)
		d.taskReturned(first)
		slow := begin("b", "slow")
		require.NotNil(t, slow)
		require.Nil(t, begin("c", "api"))
		d.fillFreeSlots()
		require.False(t, d.timer.Stop())

		slow.pending = true // its result comes later
		d.taskReturned(slow)
		require.True(t, d.timer.Stop())
		<-time.After(time.Second)
		require.NotNil(t, d.beginNext())
	})
}
