package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

var errCrash = errors.New("crash")

// A disk is the durable side of one run, in memory. It fails commits as it is
// told to, before or after they took effect.
type disk struct {
	mu        sync.Mutex
	graph     *compiled.Graph
	records   []decision.Record
	fault     func() string // "", "before" or "after"
	unflushed int
	flushes   int
	flushed   []decision.Event
	fileError error

	recordBytes int64 // that each record takes
}

func (d *disk) Load() (*state.State, int64, []decision.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := state.NewState("r", d.graph)
	var events []decision.Event
	for _, r := range d.records {
		for _, x := range r.Decisions {
			events = append(events, decision.Apply(s, x, &r)...)
		}
	}
	return s, int64(len(d.records)), events, nil
}

func (d *disk) Commit(_ *state.State, records []decision.Record, _ []decision.Blob, _ []decision.Told) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	fault := d.fault()
	if fault == "before" {
		return errCrash
	}
	for _, r := range records {
		if r.Seq != int64(len(d.records))+1 {
			panic(fmt.Sprintf("record %d after %d", r.Seq, len(d.records)))
		}
		if _, err := r.Encode(); err != nil {
			return err
		}
		d.records = append(d.records, r)
		d.unflushed++
	}
	if fault == "after" {
		return errCrash
	}
	return nil
}

func (d *disk) Flush(_ state.Changes, told [][]decision.Told, done func(error)) {
	d.mu.Lock()
	if d.flushes++; d.fileError == nil {
		d.unflushed, d.flushed = 0, append(d.flushed, decision.EventsOf(slices.Concat(told...))...)
	}
	d.mu.Unlock()
	done(d.fileError)
}

func (d *disk) Unflushed() (int, int64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unflushed, int64(d.unflushed), false
}

func (d *disk) Bytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recordBytes * int64(len(d.records))
}

func (d *disk) Close() error { return nil }

// counts returns how many records were committed, and how often they were flushed.
func (d *disk) counts() (records, flushes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.records), d.flushes
}

// An office is the outbox: it performs each task after a delay, unless it is
// withdrawn, and lets the actor leave when nobody sends.
type office struct {
	mu        sync.Mutex
	perform   func(actor.Dispatch)
	withdrawn []workflow.TokenID
	outcome   workflow.Outcome
	stays     bool
	ended     []workflow.RunStatus // told to the parent
}

func (o *office) Dispatch(d actor.Dispatch) { o.perform(d) }
func (o *office) Withdraw(_ workflow.RunID, t workflow.TokenID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.withdrawn = append(o.withdrawn, t)
}

func (o *office) Committed(out workflow.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcome = out
}
func (o *office) Leave(*actor.Actor) bool    { return !o.stays }
func (o *office) StartChild(actor.Child)     {}
func (o *office) CancelChild(workflow.RunID) {}

func (o *office) ChildEnded(_ workflow.RunID, _ workflow.Parent, m state.ChildEnded) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, m.Status)
}
func (o *office) ChildAsks(workflow.RunID, workflow.Parent) {}

func options() actor.Options {
	return actor.Options{
		Epoch: 7, Mailbox: 16, Batch: 8, Idle: time.Hour, FlushRecords: 4, FlushBytes: 1 << 20,
		Fault: func(actor.Place, error) {},
	}
}

func graph(t require.TestingT, text string) *compiled.Graph {
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	return g
}

const fanout = `
name: fan
start: split
nodes: [{id: split}, {id: work, task: work, retry: {maxAttempts: 9}}, {id: nap, wait: {for: 300ms}}, {id: join, task: join, input: {all: result}}]
output: {mapping: {all: state.all}}
transitions:
  - {from: split, to: work, spawnCount: 4, siblingGroup: g, maxConcurrency: 3}
  - {from: work, to: nap}
  - {from: nap, to: join, synchronization: {siblingGroup: g, strategy: all, merge: {source: branch.index, target: state.all, strategy: collect}}}
`

// A run ends with the same result however often its commits fail, before or
// after they take effect, and however often its actor dies.
func TestCrashesDoNotChangeTheResult(t *testing.T) {
	harness.CheckProperty(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			faults := rapid.SliceOfN(rapid.SampledFrom([]string{"", "", "before", "after"}), 0, 12).Draw(rt, "faults")
			deadly := rapid.Bool().Draw(rt, "deadly")
			d := &disk{graph: graph(rt, fanout)}
			crashed := make(chan struct{}, 64)
			d.fault = func() string {
				if len(faults) == 0 {
					return ""
				}
				f := faults[0]
				faults = faults[1:]
				if f != "" && deadly {
					crashed <- struct{}{}
				}
				return f
			}
			var out workflow.Outcome
			for !out.Status.Final() {
				out = life(rt, d, crashed)
			}
			require.Equal(rt, workflow.RunCompleted, out.Status)
			require.Equal(rt, map[string]any{"all": []any{int64(0), int64(1), int64(2), int64(3)}}, out.Output)
		})
	})
}

// life runs an actor until the run has ended or a crash kills it, and returns
// how the run stands then.
func life(t *rapid.T, d *disk, crashed chan struct{}) workflow.Outcome {
	ctx, die := context.WithCancel(context.Background())
	defer die()
	var tasks sync.WaitGroup
	o := &office{}
	a := actor.New("r", d, o, options())
	o.perform = func(x actor.Dispatch) {
		delay := time.Duration(rapid.IntRange(0, 500).Draw(t, "delay")) * time.Millisecond
		tell := a.Ask
		if rapid.Bool().Draw(t, "in the caller's goroutine") {
			tell = deliverTo(a)
		}
		tasks.Go(func() {
			select {
			case <-time.After(delay):
			case <-ctx.Done():
				return
			}
			m := state.TaskCompleted{Token: x.Token, Attempt: x.Attempt, Epoch: x.Epoch, Output: "done"}
			for errors.Is(tell(ctx, m), actor.ErrUnknown) {
				continue
			}
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	tasks.Go(func() {
		for errors.Is(a.Ask(ctx, state.Start{}), actor.ErrUnknown) {
			continue
		}
	})
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-crashed:
		die()
		<-ended
	}
	die()
	tasks.Wait()
	s, _, _, err := d.Load()
	require.NoError(t, err)
	return decision.Outcome(s)
}

// A failed commit sends nothing: neither effects nor the answer that all is
// well.
func TestNothingLeavesBeforeTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		d := &disk{graph: graph(t, fanout), fault: func() string {
			if fail {
				return "before"
			}
			return ""
		}}
		var sent []workflow.TokenID
		o := &office{perform: func(x actor.Dispatch) { sent = append(sent, x.Token) }, stays: true}
		a := actor.New("r", d, o, options())
		ctx, stop := context.WithCancel(t.Context())
		go a.Run(ctx)
		require.ErrorIs(t, a.Ask(ctx, state.Start{}), actor.ErrUnknown)
		require.Empty(t, sent)
		require.Equal(t, workflow.Outcome{}, o.outcome)
		fail = false
		require.NoError(t, a.Ask(ctx, state.Start{}), "it may be repeated")
		require.Len(t, sent, 3)
		stop()
		<-a.Done()
	})
}

// A commit that failed and took effect all the same is told to everybody whom it
// concerns: who waits, the parent, and the tasks that are not wanted any more.
func TestAFailedCommitThatTookEffectIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := false
		d := &disk{graph: graph(t, fanout), fault: func() string {
			if after {
				return "after"
			}
			return ""
		}}
		o := &office{perform: func(actor.Dispatch) {}, stays: true}
		a := actor.New("r", d, o, options())
		ctx, stop := context.WithCancel(t.Context())
		go a.Run(ctx)
		require.NoError(t, a.Ask(ctx, state.Start{Parent: &workflow.Parent{Run: "p", Token: 3, Attempt: 1, Root: "p", Depth: 1}}))
		after = true
		require.ErrorIs(t, a.Ask(ctx, state.Cancel{}), actor.ErrUnknown)
		synctest.Wait()
		o.mu.Lock()
		require.Equal(t, workflow.RunCancelled, o.outcome.Status)
		require.Equal(t, []workflow.RunStatus{workflow.RunCancelled}, o.ended)
		require.Equal(t, []workflow.TokenID{2, 3, 4}, o.withdrawn)
		o.mu.Unlock()
		stop()
		<-a.Done()
	})
}

// Where such a commit ended an attempt and began the next, that one is wanted.
func TestTheNextAttemptIsNotWithdrawn(t *testing.T) {
	const parked = `{"name": "x", "start": "a", "nodes": [{"id": "a", "task": "t", "retry": {"maxAttempts": 1, "exhausted": "park"}}]}`
	synctest.Test(t, func(t *testing.T) {
		faults := make(chan string, 3)
		d := &disk{graph: graph(t, parked), fault: func() string { return <-faults }}
		var sent []actor.Dispatch
		o := &office{perform: func(x actor.Dispatch) { sent = append(sent, x) }, stays: true}
		a := actor.New("r", d, o, options())
		ctx, stop := context.WithCancel(t.Context())
		go a.Run(ctx)
		faults <- ""
		require.NoError(t, a.Ask(ctx, state.Start{}))
		require.Len(t, sent, 1)
		first := sent[0]

		var answers [3]error
		var asks sync.WaitGroup
		for i, m := range []state.Message{
			state.Signal{Name: "s", ID: "1", Early: true}, // while it is committed, the others wait for one batch
			state.TaskFailed{Token: first.Token, Attempt: 1, Epoch: first.Epoch, Failure: workflow.Failure{Code: "c"}},
			state.Retry{Token: first.Token},
		} {
			asks.Go(func() { answers[i] = a.Ask(ctx, m) })
			synctest.Wait()
		}
		faults <- ""
		faults <- "after"
		asks.Wait()
		require.NoError(t, answers[0])
		require.ErrorIs(t, answers[1], actor.ErrUnknown)
		require.ErrorIs(t, answers[2], actor.ErrUnknown)
		synctest.Wait() // the answer comes first, the next attempt leaves after it
		require.Len(t, sent, 2)
		require.Equal(t, 2, sent[1].Attempt)
		o.mu.Lock()
		require.Empty(t, o.withdrawn)
		o.mu.Unlock()
		stop()
		<-a.Done()
	})
}

// An alarm that has rung rings again if the clock is set back before it is planned,
// after whichever of its readings, also if what comes meanwhile decides nothing.
func TestAnAlarmRingsAgainIfTheClockIsSetBack(t *testing.T) {
	for after := range 5 {
		synctest.Test(t, func(t *testing.T) {
			d := &disk{graph: graph(t, "name: w\nstart: a\nnodes: [{id: a, wait: {for: 40s}}]\n"), fault: func() string { return "" }}
			opt, hook := options(), &testhook.Hook{}
			opt.Hook = hook
			a := actor.New("r", d, &office{perform: func(actor.Dispatch) {}}, opt)
			began, readings := time.Now(), 0
			due := began.Add(40 * time.Second)
			hook.OnNow(func() time.Time {
				now := time.Now()
				if now.Before(due) {
					return now
				}
				if readings++; readings <= after {
					return now
				}
				return now.Add(-30 * time.Second)
			})
			hook.OnHit(func(name string) {
				if name == "actor.alarm" { // it has rung: now a message comes
					go func() { _ = a.Ask(t.Context(), nil) }()
					synctest.Wait()
				}
			})
			go func() { _ = a.Ask(t.Context(), state.Start{}) }()
			require.NoError(t, a.Run(t.Context()))
			require.LessOrEqual(t, time.Since(began), 70*time.Second, "set back after %d readings", after)
			s, _, _, err := d.Load()
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, s.Status)
		})
	}
}

// An alarm rings when it is due, also in a later life of the actor.
func TestAlarmsAreOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, "name: w\nstart: a\nnodes: [{id: a, wait: {for: 40s}}]\n"), fault: func() string { return "" }}
		began := time.Now()
		for _, stays := range []time.Duration{15 * time.Second, time.Hour} {
			o := &office{perform: func(actor.Dispatch) {}}
			a := actor.New("r", d, o, options())
			ctx, stop := context.WithTimeout(t.Context(), stays)
			go func() { _ = a.Ask(ctx, state.Start{}) }() // the second time it is refused
			require.NoError(t, a.Run(ctx))
			stop()
		}
		require.Equal(t, 40*time.Second, time.Since(began))
		s, _, _, err := d.Load()
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, s.Status)
	})
}

// Everybody who waits is answered when an actor ends.
func TestAnActorAnswersOnItsWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, fanout), fault: func() string { return "" }}
		o := &office{perform: func(actor.Dispatch) {}, stays: true}
		a := actor.New("r", d, o, options())
		answers := make(chan error, 40)
		for range 40 {
			go func() { answers <- a.Ask(context.Background(), state.Retry{Node: "nobody"}) }()
		}
		synctest.Wait() // 16 wait in the mailbox, the others for a place there
		ctx, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, a.Run(ctx))
		for range 40 {
			require.Error(t, <-answers)
		}
	})
}

// A full mailbox holds callers back, and says so when they give up.
func TestAFullMailboxHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := actor.New("r", &disk{}, &office{}, options())
		for range 16 {
			go a.Ask(t.Context(), state.Resume{})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, a.Ask(ctx, state.Resume{}), actor.ErrBusy)
		stopped, stop := context.WithCancel(t.Context())
		stop()
		go a.Run(stopped)
		<-a.Done()
	})
}

// A planner that breaks an invariant suspends its run, with the cause kept; the
// message is refused, and after Resume it is taken.
func TestAPanicSuspendsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := graph(t, fanout)
		d := &disk{graph: g, fault: func() string { return "" }}
		var keys []actor.Dispatch
		o := &office{perform: func(x actor.Dispatch) { keys = append(keys, x) }, stays: true}
		a := actor.New("r", d, o, options())
		ctx, stop := context.WithCancel(t.Context())
		go a.Run(ctx)
		require.NoError(t, a.Ask(ctx, state.Start{}))
		nap := g.Nodes["nap"]
		delete(g.Nodes, "nap") // what a bug of the planner would do
		result := state.TaskCompleted{Token: keys[0].Token, Attempt: 1, Epoch: keys[0].Epoch}
		require.ErrorIs(t, a.Ask(ctx, result), state.ErrSuspended)
		require.Equal(t, workflow.RunSuspended, o.outcome.Status)
		require.Equal(t, workflow.CodeInternal, o.outcome.Failure.Code)
		require.Contains(t, o.outcome.Failure.Message, "panicked")
		require.ErrorIs(t, a.Ask(ctx, result), state.ErrSuspended, "until it is resumed")

		g.Nodes["nap"] = nap
		keys = nil
		require.NoError(t, a.Ask(ctx, state.Resume{}))
		require.Len(t, keys, 3, "what it waits for is sent again")
		require.NoError(t, a.Ask(ctx, result))
		stop()
		<-a.Done()
	})
}

// A record that cannot be written down suspends its run instead of being tried again
// and again.
func TestWhatCannotBeWrittenSuspendsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, fanout), fault: func() string { return "" }}
		var keys []actor.Dispatch
		o := &office{perform: func(x actor.Dispatch) { keys = append(keys, x) }, stays: true}
		a := actor.New("r", d, o, options())
		ctx, stop := context.WithCancel(t.Context())
		go a.Run(ctx)
		require.NoError(t, a.Ask(ctx, state.Start{}))
		result := state.TaskFailed{
			Token: keys[0].Token, Attempt: 1, Epoch: keys[0].Epoch,
			Failure: workflow.Failure{Code: "odd", Message: "\xff", Permanent: true}, // the engine would have mended it
		}
		err := a.Ask(ctx, result)
		require.ErrorIs(t, err, state.ErrSuspended)
		require.ErrorContains(t, err, "UTF-8")
		require.Equal(t, workflow.RunSuspended, o.outcome.Status)
		require.NoError(t, a.Ask(ctx, state.Resume{}))
		result.Failure.Message = "plain"
		require.NoError(t, a.Ask(ctx, result))
		stop()
		<-a.Done()
	})
}

// A run that takes more bytes than it may fails after the turn that exceeds them, whose
// caller has its answer; if that cannot be committed, the next life fails the run.
func TestARunThatGrowsBeyondItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = "name: x\nstart: a\nlimits: {runBytes: 250}\nnodes: [{id: a, wait: {event: e}}]"
		fails := map[int]string{}
		d := &disk{graph: graph(t, text), recordBytes: 100}
		d.fault = func() string { return fails[len(d.records)+1] }
		o := &office{stays: true}
		life := func() (ask func(state.Message) error, end func()) {
			a := actor.New("r", d, o, options())
			ctx, stop := context.WithCancel(t.Context())
			go a.Run(ctx)
			synctest.Wait()
			return func(m state.Message) error { return a.Ask(t.Context(), m) }, func() { stop(); <-a.Done() }
		}
		ask, end := life()
		require.NoError(t, ask(state.Start{}))
		require.NoError(t, ask(state.Signal{Name: "e", ID: "1", Transient: true, Payload: int64(1)}))
		end()
		require.Equal(t, workflow.RunCompleted, o.outcome.Status, "it has ended within its bytes")

		*d = disk{graph: d.graph, recordBytes: 130, fault: d.fault}
		ask, end = life()
		require.NoError(t, ask(state.Start{}))
		require.NoError(t, ask(state.Pause{}), "it is taken, and exceeds the limit")
		require.ErrorIs(t, ask(state.Signal{Name: "e"}), state.ErrEnded)
		end()
		require.Equal(t, workflow.RunFailed, o.outcome.Status)
		require.Equal(t, workflow.CodeLimit, o.outcome.Failure.Code)
		require.Contains(t, o.outcome.Failure.Message, "runBytes: the run takes 260 bytes on the disk, at most 250")

		*d = disk{graph: d.graph, recordBytes: 130, fault: d.fault}
		fails[3] = "before"
		ask, end = life()
		require.NoError(t, ask(state.Start{}))
		require.NoError(t, ask(state.Pause{}))
		end()
		require.Equal(t, workflow.RunPaused, o.outcome.Status)
		delete(fails, 3)
		ask, end = life()
		require.ErrorIs(t, ask(state.Resume{}), state.ErrEnded)
		end()
		require.Equal(t, workflow.RunFailed, o.outcome.Status)
	})
}

// A run that never rests has its file written also after that has failed: with twice as many records, and then as usual.
func TestAFileIsWrittenAfterOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, fanout), fault: func() string { return "" }, fileError: errCrash}
		o := &office{perform: func(actor.Dispatch) {}, stays: true}
		a := actor.New("r", d, o, options())
		ctx, stop := context.WithCancel(t.Context())
		go a.Run(ctx)
		require.NoError(t, a.Ask(ctx, state.Start{}))
		flushesAfter := func(records int) int {
			for range records / 2 {
				require.NoError(t, a.Ask(ctx, state.Pause{}))
				require.NoError(t, a.Ask(ctx, state.Resume{}))
			}
			synctest.Wait()
			_, flushes := d.counts()
			return flushes
		}
		require.Equal(t, 1, flushesAfter(6))
		require.Equal(t, 2, flushesAfter(4))
		d.mu.Lock()
		d.fileError = nil
		d.mu.Unlock()
		require.Equal(t, 3, flushesAfter(8))
		require.Equal(t, 4, flushesAfter(20))
		stop()
		<-a.Done()
	})
}

// A file that cannot be written costs the run nothing: it goes on from the log.
func TestAFileThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, fanout), fault: func() string { return "" }, fileError: errCrash}
		var faults int
		var told actor.Place
		opts := options()
		opts.FlushRecords, opts.Fault = 1, func(at actor.Place, _ error) {
			faults++
			told = at
		}
		o := &office{}
		a := actor.New("r", d, o, opts)
		o.perform = func(x actor.Dispatch) {
			go a.Ask(context.Background(), state.TaskCompleted{Token: x.Token, Attempt: x.Attempt, Epoch: x.Epoch})
		}
		go a.Run(t.Context())
		require.NoError(t, a.Ask(t.Context(), state.Start{}))
		<-a.Done()
		require.Equal(t, workflow.RunCompleted, o.outcome.Status)
		require.Equal(t, d.flushes, faults)
		require.Less(t, d.flushes, 8, "each with twice as much, and one at the end")
		require.Equal(t, "r", string(told.Run))
		require.Equal(t, d.graph.Definition.Name, told.Workflow)
		require.NotZero(t, told.Seq)
		require.LessOrEqual(t, told.Seq, int64(len(d.records)))
	})
}

// A broken invariant anywhere else ends the actor, not the host, and everybody
// is answered.
func TestAPanicOutsideThePlannerEndsTheActor(t *testing.T) {
	for _, where := range []string{"commit", "release"} {
		t.Run(where, func(t *testing.T) {
			d := &disk{graph: graph(t, fanout), fault: func() string { return "" }}
			o := &office{perform: func(actor.Dispatch) { panic("no room") }, stays: true}
			if where == "commit" {
				d.fault = func() string { d.fault = func() string { return "" }; panic("no room") }
				o.perform = func(actor.Dispatch) {}
			}
			a := actor.New("r", d, o, options())
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			require.ErrorIs(t, a.Ask(ctx, state.Start{}), actor.ErrUnknown)
			if where == "commit" {
				require.NoError(t, a.Ask(ctx, state.Start{}), "it was loaded again")
				stop()
				require.NoError(t, <-ended)
				return
			}
			require.ErrorContains(t, <-ended, "no room")
			stop()
		})
	}
}

// An alarm whose commit fails comes again after a pause that grows. Once a commit has
// succeeded, alarms are on time again.
func TestAnAlarmOnAFullDiskDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, faults := false, 0
		d := &disk{graph: graph(t, `
name: naps
start: nap
nodes: [{id: nap, wait: {for: 1s}}, {id: again, wait: {for: 1s}}]
transitions: [{from: nap, to: again}]
`)}
		d.fault = func() string {
			if full {
				return "before"
			}
			return ""
		}
		opt := options()
		opt.Fault = func(actor.Place, error) { faults++ }
		o := &office{perform: func(actor.Dispatch) {}}
		a := actor.New("r", d, o, opt)
		go a.Run(t.Context())
		require.NoError(t, a.Ask(t.Context(), state.Start{}))
		d.mu.Lock()
		full = true
		d.mu.Unlock()
		<-time.After(time.Minute)
		synctest.Wait()
		require.Less(t, faults, 20)
		d.mu.Lock()
		full = false
		d.mu.Unlock()
		<-a.Done()
		require.Equal(t, workflow.RunCompleted, o.outcome.Status)
		require.Len(t, d.records, 3)
		require.Equal(t, time.Second, d.records[2].At.Sub(d.records[1].At))
	})
}

// An alarm that is due while messages wait is taken in their batch, behind them,
// whichever of the two the actor notices first.
func TestADueAlarmComesBehindTheMessages(t *testing.T) {
	for range 20 { // which one is noticed first is drawn by the scheduler
		synctest.Test(t, func(t *testing.T) {
			commits := 0
			d := &disk{graph: graph(t, `{name: nap, start: nap, nodes: [{id: nap, wait: {for: 1s}}]}`)}
			d.fault = func() string { commits++; return "" }
			opt, hook := options(), &testhook.Hook{}
			opt.Hook = hook
			a := actor.New("r", d, &office{perform: func(actor.Dispatch) {}}, opt)
			gate, held := make(chan struct{}), false
			hook.OnTurn(func(string) {
				if held {
					<-gate
				}
			})
			go a.Run(t.Context())
			require.NoError(t, a.Ask(t.Context(), state.Start{}))
			held = true
			for _, name := range []string{"one", "two"} {
				go func() { _ = a.Ask(t.Context(), state.Signal{Name: name, Early: true}) }()
				synctest.Wait()
			}
			<-time.After(time.Minute)
			close(gate)
			<-a.Done()
			require.Equal(t, 2, commits)
			require.Len(t, d.records, 4)
			require.IsType(t, state.AlarmFired{}, d.records[3].Message)
		})
	}
}

// Records that were committed in an earlier life and not flushed are flushed with
// their events.
func TestEventsOfAnEarlierLifeAreFiled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := graph(t, `{name: w, start: a, nodes: [{id: a, wait: {event: e}}]}`)
		d := &disk{graph: g, fault: func() string { return "" }}
		for _, m := range []state.Message{state.Start{}, state.Signal{Name: "other", Early: true}, state.Signal{Name: "e"}} {
			d.unflushed = len(d.records) // nobody has flushed them
			d.flushed = nil
			a := actor.New("r", d, &office{}, options())
			ctx, stop := context.WithCancel(t.Context())
			go a.Run(ctx)
			require.NoError(t, a.Ask(ctx, m))
			stop()
			<-a.Done()
			_, _, all, err := d.Load()
			require.NoError(t, err)
			require.Equal(t, all, d.flushed)
		}
		require.Len(t, d.records, 3)
	})
}

// A nursery is an office that notes which children are asked for.
type nursery struct {
	office
	asked []string
}

func (n *nursery) StartChild(c actor.Child) { n.asked = append(n.asked, string(c.ID)) }

// A task that one batch sends and takes back again never leaves: only the attempt
// that is out in the end does.
func TestWhatABatchTakesBackIsNotSent(t *testing.T) {
	again := &workflow.Failure{Code: "again"}
	for name, test := range map[string]struct {
		node string
		ends state.Message
		sent string
	}{
		"task":  {`task: t`, state.TaskFailed{Token: 1, Attempt: 1, Epoch: 7, Failure: *again}, "t1, attempt 2"},
		"child": {`subworkflow: {name: c}`, state.ChildEnded{Token: 1, Attempt: 1, Status: workflow.RunFailed, Failure: again}, "r/1.2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{graph: graph(t, `{name: w, start: a, nodes: [{id: a, retry: {maxAttempts: 3}, `+test.node+`}]}`)}
				d.fault = func() string { return "" }
				o := &nursery{}
				o.perform = func(x actor.Dispatch) {
					o.asked = append(o.asked, fmt.Sprintf("%v, attempt %d", x.Token, x.Attempt))
				}
				a := actor.New("r", d, o, options())
				start := state.Start{Pins: state.Pins{{Name: "c", Hash: "h"}}}
				for _, m := range []state.Message{start, test.ends, state.Retry{Token: 1}} {
					go func() { _ = a.Ask(t.Context(), m) }()
					synctest.Wait() // they wait in this order
				}
				ctx, stop := context.WithCancel(t.Context())
				go a.Run(ctx)
				synctest.Wait()
				stop()
				<-a.Done()
				require.Len(t, d.records, 3)
				require.Equal(t, []string{test.sent}, o.asked)
			})
		})
	}
}

// An actor that has been held up for longer than it may be idle is not idle while a
// message waits: it takes that first, and flushes nothing.
func TestAMessageThatWaitsIsNoIdleness(t *testing.T) {
	for range 20 { // which one is noticed first is drawn by the scheduler
		synctest.Test(t, func(t *testing.T) {
			d := &disk{graph: graph(t, `{name: nap, start: nap, nodes: [{id: nap, wait: {for: 10h}}]}`), fault: func() string { return "" }}
			ctx, stop := context.WithCancel(t.Context())
			opt := options()
			opt.Idle = time.Second
			opt.Hook = &testhook.Hook{}
			o := &office{perform: func(actor.Dispatch) {}, stays: true}
			a := actor.New("r", d, o, opt)
			go a.Run(ctx)
			require.NoError(t, a.Ask(t.Context(), state.Start{}))
			stop()
			<-a.Done()
			d.unflushed, d.flushes = 1, 0 // as a crash leaves it

			gate := make(chan struct{})
			opt.Hook.OnTurn(func(string) { <-gate })
			ctx, stop = context.WithCancel(t.Context())
			defer stop()
			again := actor.New("r", d, o, opt)
			go again.Run(ctx)
			go func() { _ = again.Ask(t.Context(), state.Signal{Name: "one", Early: true}) }()
			<-time.After(time.Minute)
			close(gate)
			synctest.Wait()
			records, flushes := d.counts()
			require.Equal(t, 2, records)
			require.Zero(t, flushes)
			<-time.After(2 * time.Second)
			_, flushes = d.counts()
			require.Equal(t, 1, flushes, "it is idle now")
			stop()
			<-again.Done()
		})
	}
}

// A run leaves memory when it has been idle for as long as it may be, and its file is
// written: not after as long again.
func TestAnIdleRunLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{graph: graph(t, `{name: nap, start: nap, nodes: [{id: nap, wait: {for: 10h}}]}`), fault: func() string { return "" }}
		opt := options()
		opt.Idle = time.Minute
		a := actor.New("r", d, &office{perform: func(actor.Dispatch) {}}, opt)
		go a.Run(t.Context())
		require.NoError(t, a.Ask(t.Context(), state.Start{}))
		began := time.Now()
		<-a.Done()
		require.Equal(t, time.Minute, time.Since(began))
		_, flushes := d.counts()
		require.Equal(t, 1, flushes)
	})
}
