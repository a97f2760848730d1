package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/serving"
)

// bubble runs a test in virtual time, with a pool whose engine is a fake.
func bubble(t *testing.T, o Options, test func(t *testing.T, p *Pool, f *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.NoToken = o.Token == "" && o.Identify == nil
		p := mustNew(o)
		f := newFake(p)
		test(t, p, f)
		require.NoError(t, p.Close(context.Background()))
	})
}

func TestWorkIsHandedOutAtRegistrationAndAtEveryCompletionUpToCapacity(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		f.dispatch("a", keysOf(5)...)
		ann := joined(t, p, "ann", 2, "a")
		require.Equal(t, []pawl.Key{"k1", "k2"}, poll1(t, ann))
		require.Empty(t, poll1(t, ann, "k1", "k2"), "no more than its capacity")
		done(t, ann, "k1", 1)
		require.Equal(t, []pawl.Key{"k3"}, poll1(t, ann, "k2"))

		begun := make(chan pawl.Key)
		finish := make(chan bool)
		require.NoError(t, p.Start(Registration{ID: "here"}, pawl.Handlers{"a": func(_ context.Context, t pawl.Task) (any, error) {
			begun <- t.Key
			<-finish
			return "here", nil
		}}))
		require.Equal(t, pawl.Key("k4"), <-begun)
		finish <- true
		require.Equal(t, pawl.Key("k5"), <-begun)
		finish <- true
		synctest.Wait()
		require.Equal(t, "here", f.result("k5"))
		require.EqualValues(t, 1, f.result("k1"))
	})
}

func TestPriorityThenFirstComeFirstServed(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		for i, priority := range []int{1, 0, 1, 0} {
			f.send(pawl.Task{Key: keysOf(4)[i], Type: "a", Priority: priority})
		}
		require.Equal(t, []pawl.Key{"k2", "k4", "k1", "k3"}, poll1(t, joined(t, p, "ann", 9, "*")))
	})
}

func TestWorkersGetTheTypesThatTheyTake(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		f.dispatch("a", "a1", "a2")
		f.dispatch("b", "b1")
		f.dispatch("c", "c1")
		require.Equal(t, []pawl.Key{"b1"}, poll1(t, joined(t, p, "bob", 9, "b")))
		require.Equal(t, []pawl.Key{"a1", "a2"}, poll1(t, joined(t, p, "ab", 9, "b", "a")))
		require.Equal(t, []pawl.Key{"c1"}, poll1(t, joined(t, p, "any", 9, "*")))
	})
}

func TestWhoWaitsLongestIsFirst(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		got := make(chan string, 3)
		for _, w := range []string{"1 a", "2 *", "3 a"} {
			c := joined(t, p, w, 1, w[2:])
			go func() {
				polled, err := c.Poll(t.Context(), time.Minute)
				require.NoError(t, err)
				require.Len(t, polled.Tasks, 1)
				got <- w
			}()
			synctest.Wait()
		}
		for _, want := range []string{"1 a", "2 *", "3 a"} {
			f.dispatch("a", pawl.Key(want))
			require.Equal(t, want, <-got)
		}
	})
}

func TestAnExpiredLeaseRequeuesAtTheHead(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann, bob := joined(t, p, "ann", 1, "a"), joined(t, p, "bob", 3, "a")
		f.dispatch("a", keysOf(3)...)
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, ann))
		pass(59 * time.Second)
		drop, err := ann.Heartbeat(t.Context(), "k1")
		require.NoError(t, err)
		require.Empty(t, drop)
		pass(59 * time.Second)
		require.Equal(t, 1, p.Status().Workers[0].Active, "a heartbeat renews the lease")
		require.Equal(t, 1, f.beats["k1"], "and the engine knows")

		pass(2 * time.Second)
		require.Equal(t, []pawl.Key{"k1", "k2", "k3"}, poll1(t, bob), "the same key, at the head")
		require.ErrorIs(t, ann.Complete(t.Context(), pawl.Task{Key: "k1"}, "late", nil), ErrNotHolder)
		drop, err = ann.Heartbeat(t.Context(), "k1")
		require.NoError(t, err)
		require.Equal(t, []pawl.Key{"k1"}, drop)
		done(t, bob, "k1", "bob's")
		done(t, bob, "k1", "again")
		require.ErrorIs(t, ann.Complete(t.Context(), pawl.Task{Key: "k1"}, "later", nil), ErrNotHolder)
		require.Equal(t, "bob's", f.result("k1"), "a duplicate changes nothing")
		s := p.Status()
		require.EqualValues(t, 1, s.Processed)
		require.EqualValues(t, 1, s.Expired)
	})
}

func TestAWorkerThatRegistersAgainWhileBusyGetsNothingNew(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		f.dispatch("a", keysOf(3)...)
		ann := joined(t, p, "ann", 1, "a")
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, ann))
		joined(t, p, "ann", 1, "a")
		require.Empty(t, poll1(t, ann, "k1"))
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, ann), "what it does not know of it is given again, and nothing else")
		joined(t, p, "ann", 2, "a")
		require.Equal(t, []pawl.Key{"k2"}, poll1(t, ann, "k1"))
	})
}

// A task is not lost between assignment and delivery.
func TestAPollThatIsBrokenOffGivesItsTaskBack(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann, bob := joined(t, p, "ann", 1, "a"), joined(t, p, "bob", 1, "a")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := ann.Poll(ctx, time.Minute)
			ended <- err
		}()
		synctest.Wait()
		p.mu.Lock() // the task is handed out while the connection breaks
		cancel()
		p.queue.addTask(serving.Of(context.Background()), pawl.Task{Key: "k1", Type: "a"}, 1, time.Now())
		p.deliverTasks()
		p.mu.Unlock()
		require.ErrorIs(t, <-ended, context.Canceled)
		synctest.Wait()
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, bob))
	})
}

// A task that goes back while the answer with it is made goes to one worker.
func TestAWorkerThatLeavesDuringAPollGetsNothing(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann, bob := joined(t, p, "ann", 1, "a"), joined(t, p, "bob", 1, "a")
		ended := make(chan Polled)
		go func() {
			polled, err := ann.Poll(t.Context(), time.Minute)
			require.NoError(t, err)
			ended <- polled
		}()
		synctest.Wait()
		p.mu.Lock()
		p.queue.addTask(serving.Of(context.Background()), pawl.Task{Key: "k1", Type: "a"}, 1, time.Now())
		p.deliverTasks()
		p.removeWorker(p.queue.workers["ann"])
		p.mu.Unlock()
		require.Empty(t, (<-ended).Tasks)
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, bob))
	})
}

func TestASecondPollTakesOver(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann := joined(t, p, "ann", 1, "a")
		first, second := make(chan Polled, 1), make(chan Polled, 1)
		for _, to := range []chan Polled{first, second} {
			go func() {
				polled, err := ann.Poll(t.Context(), time.Minute)
				require.NoError(t, err)
				to <- polled
			}()
			synctest.Wait()
		}
		require.Empty(t, (<-first).Tasks)
		f.dispatch("a", "k1")
		require.Len(t, (<-second).Tasks, 1)
	})
}

// After a restart the queue is made of what the engine dispatches again, and who
// still works on a key is its holder, registered or not.
func TestTheHolderFromBeforeARestart(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		f.know("early")
		ann := client(p, "ann", 1)
		drop, err := ann.Heartbeat(t.Context(), "early", "never")
		require.NoError(t, err)
		require.Equal(t, []pawl.Key{"never"}, drop, "the engine knows which keys are open")

		f.dispatch("a", "early", "k1", "k2", "k3")
		_, err = ann.Heartbeat(t.Context(), "k2")
		require.NoError(t, err)
		done(t, ann, "k3", "mine")
		bob := joined(t, p, "bob", 9, "a")
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, bob))
		for _, k := range []pawl.Key{"early", "k2", "k3"} {
			require.ErrorIs(t, bob.Complete(t.Context(), pawl.Task{Key: k}, "bob's", nil), ErrNotHolder)
		}
		done(t, ann, "early", 1)
		done(t, ann, "k2", 2)
		_, err = ann.Poll(t.Context(), 0)
		require.ErrorIs(t, err, ErrUnknownWorker, "new work is for who registers")
	})
}

// The result may come before the engine has dispatched the task again.
func TestAResultBeforeTheDispatch(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		f.know("k1")
		ann := client(p, "ann", 1)
		done(t, ann, "k1", "early")
		done(t, ann, "k1", "again")
		require.Equal(t, "early", f.result("k1"))
		require.ErrorIs(t, client(p, "bob", 1).Complete(t.Context(), pawl.Task{Key: "k1"}, 1, nil), ErrNotHolder)
		require.ErrorIs(t, ann.Complete(t.Context(), pawl.Task{Key: "never"}, 1, nil), errStale)
		require.EqualValues(t, 1, p.Status().Processed)
	})
}

// Nobody is handed a task whose result was taken while the engine dispatched it, or one that was over before.
func TestADispatchBesideItsResult(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		f.refuses = func() error {
			_, err := p.Execute(t.Context(), pawl.Task{Key: "k1", Type: "a"})
			require.ErrorIs(t, err, pawl.ErrPending)
			return nil
		}
		done(t, client(p, "ann", 1), "k1", "early")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := p.Execute(over, pawl.Task{Key: "k2", Type: "a"})
		require.ErrorIs(t, err, pawl.ErrPending)
		require.Zero(t, p.Status().Queued)
		require.EqualValues(t, 1, p.Status().Processed)
	})
}

// A claim on a key that the engine never dispatches runs out.
func TestAClaimRunsOut(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		f.know("k1")
		_, err := client(p, "ann", 1).Heartbeat(t.Context(), "k1")
		require.NoError(t, err)
		require.Len(t, p.Status().Active, 1)
		pass(time.Minute)
		require.Empty(t, p.Status().Active)
	})
}

func TestATaskThatIsOverLeavesTheQueueAndItsHolderIsTold(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann := joined(t, p, "ann", 2, "a")
		f.dispatch("a", keysOf(4)...)
		require.Equal(t, []pawl.Key{"k1", "k2"}, poll1(t, ann))
		for _, k := range []pawl.Key{"k1", "k2", "k3"} {
			f.end(k)
		}
		synctest.Wait()
		s := p.Status()
		require.Equal(t, 1, s.Queued)
		require.Len(t, s.Active, 2, "they take their places until the worker knows")
		polled, err := ann.Poll(t.Context(), time.Minute, "k1", "k2")
		require.NoError(t, err)
		require.Equal(t, []pawl.Key{"k1", "k2"}, polled.Drop)
		require.Equal(t, pawl.Key("k4"), polled.Tasks[0].Key)
		require.ErrorIs(t, ann.Complete(t.Context(), pawl.Task{Key: "k1"}, 1, nil), errStale)
	})
}

func TestAnInProcessTaskThatIsOverIsCancelled(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		causes := make(chan error)
		require.NoError(t, p.Start(Registration{ID: "here"}, pawl.Handlers{"*": func(ctx context.Context, t pawl.Task) (any, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		}}))
		f.dispatch("a", "k1")
		f.end("k1")
		require.ErrorIs(t, <-causes, errOver)
		synctest.Wait()
		require.Nil(t, f.result("k1"))
		require.Zero(t, p.Status().Queued)

		f.dispatch("a", "k2")
		require.NoError(t, p.Leave("here"))
		require.Zero(t, p.Status().Queued, "a key is not executed beside itself: it goes back when the function has returned")
		require.ErrorIs(t, <-causes, errLeft)
		synctest.Wait()
		require.Equal(t, 1, p.Status().Queued)
		require.Empty(t, p.Status().Workers)
		require.Empty(t, p.locals)
		require.ErrorIs(t, p.Leave("here"), ErrUnknownWorker)
	})
}

// The same pool serves an engine that is closed and opened again: a key that is
// dispatched again keeps its holder.
func TestAnEngineThatIsOpenedAgain(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann := joined(t, p, "ann", 1, "a")
		f.dispatch("a", keysOf(2)...)
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, ann))
		f.end("k1")
		f.end("k2")
		synctest.Wait()
		f = newFake(p)
		f.dispatch("a", keysOf(2)...)
		require.Empty(t, poll1(t, ann, "k1"))
		done(t, ann, "k1", 1)
		require.Equal(t, []pawl.Key{"k2"}, poll1(t, ann))
	})
}

func TestLeaveGivesBackAtOnce(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann, bob := joined(t, p, "ann", 2, "a"), joined(t, p, "bob", 3, "a")
		f.dispatch("a", keysOf(3)...)
		require.Equal(t, []pawl.Key{"k1", "k2"}, poll1(t, ann))
		require.NoError(t, ann.Leave(t.Context()))
		require.NoError(t, ann.Leave(t.Context()), "twice is no error")
		require.Equal(t, []pawl.Key{"k1", "k2", "k3"}, poll1(t, bob))
	})
}

func TestDrain(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann, bob := joined(t, p, "ann", 2, "a"), joined(t, p, "bob", 1, "a")
		f.dispatch("a", keysOf(4)...)
		require.Len(t, poll1(t, ann), 2)
		drained := make(chan error)
		go func() { drained <- p.Drain(t.Context(), "ann") }()
		synctest.Wait()
		done(t, ann, "k1", 1)
		polled, err := ann.Poll(t.Context(), time.Minute, "k2")
		require.NoError(t, err)
		require.Equal(t, Polled{Draining: true}, polled)
		select {
		case <-drained:
			t.Error("it holds a task")
		default:
		}
		done(t, ann, "k2", 2)
		require.NoError(t, <-drained)
		require.ErrorIs(t, p.Drain(t.Context(), "bob", "nobody"), ErrUnknownWorker)

		require.Equal(t, []pawl.Key{"k3"}, poll1(t, bob), "the others go on")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, p.Drain(ctx), context.DeadlineExceeded)
		done(t, bob, "k3", 3)
		require.NoError(t, p.Drain(t.Context()))
		joined(t, p, "cy", 1, "a")
		require.Empty(t, poll1(t, client(p, "cy", 1)), "nothing is handed out any more")
		require.True(t, p.Status().Draining)
	})
}

func TestLimits(t *testing.T) {
	limits := map[string]pawl.TypeLimit{"a": {Concurrency: 1}, "b": {Rate: 0.1, Burst: 2}, every: {Concurrency: 2}}
	bubble(t, Options{Types: limits}, func(t *testing.T, p *Pool, f *fake) {
		f.dispatch("a", "a1", "a2")
		f.dispatch("b", "b1", "b2", "b3")
		f.dispatch("c", "c1", "c2", "c3")
		ann := joined(t, p, "ann", 9, every)
		held := poll1(t, ann)
		require.Equal(t, []pawl.Key{"a1", "b1", "b2", "c1", "c2"}, held)
		done(t, ann, "a1", 1)
		require.Equal(t, []pawl.Key{"a2"}, poll1(t, ann, held...))
		held = append(held[1:], "a2")
		begin := time.Now()
		polled, err := ann.Poll(t.Context(), time.Minute, held...)
		require.NoError(t, err)
		require.Equal(t, pawl.Key("b3"), polled.Tasks[0].Key)
		require.Equal(t, 10*time.Second, time.Since(begin), "one in ten seconds")
	})
}

func TestStatus(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		require.NoError(t, p.Start(Registration{ID: "here", Types: []string{"x"}}, nil))
		ann := joined(t, p, "ann", 1, "a", "b")
		f.dispatch("a", keysOf(3)...)
		poll1(t, ann)
		done(t, ann, "k1", 1)
		pass(time.Second)
		poll1(t, ann)
		pass(2 * time.Second)
		require.Equal(t, Status{
			Workers: []WorkerStatus{
				{ID: "ann", Types: []string{"a", "b"}, Capacity: 1, Active: 1, Registered: true, Age: 3 * time.Second, Silent: 2 * time.Second, Processed: 1},
				{ID: "here", Types: []string{"x"}, Capacity: 1, InProcess: true, Registered: true, Waiting: true, Age: 3 * time.Second, Silent: 3 * time.Second},
			},
			Queued: 1, OldestQueued: 3 * time.Second,
			Types:     []TypeStatus{{Type: "a", Queued: 1, OldestQueued: 3 * time.Second, Active: 1, Workers: 1}},
			Active:    []ActiveStatus{{Key: "k2", Run: "run", Node: "node", Type: "a", Worker: "ann", Age: 2 * time.Second, Lease: 58 * time.Second}},
			Processed: 1,
		}, p.Status())
		pass(10 * time.Minute)
		require.Len(t, p.Status().Workers, 1, "who is not heard of is forgotten")
		require.Equal(t, 0, p.Status().Types[0].Workers)
		all := joined(t, p, "all", 1, every)
		require.Equal(t, 1, p.Status().Types[0].Workers)
		poll1(t, all)
	})
}

func TestInProcessFaults(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		require.NoError(t, p.Start(Registration{ID: "here", Types: []string{every}, Capacity: 9}, pawl.Handlers{
			"panic":   func(context.Context, pawl.Task) (any, error) { panic("boom") },
			"code":    func(context.Context, pawl.Task) (any, error) { return nil, pawl.TaskError{Code: "mine"} },
			"pending": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
		}))
		for _, k := range []string{"panic", "code", "pending", "other"} {
			f.dispatch(k, pawl.Key(k))
		}
		synctest.Wait()
		require.ErrorContains(t, f.result("panic").(error), "panic: boom")
		require.True(t, pawl.IsPermanent(f.result("panic").(error)))
		require.Equal(t, pawl.TaskError{Code: "mine"}, f.result("code"))
		require.ErrorContains(t, f.result("pending").(error), "may not return ErrPending")
		require.ErrorContains(t, f.result("other").(error), `no handler for task type "other"; there are: code, panic, pending`)
		require.EqualValues(t, 4, p.Status().Failed)
	})
}

// An engine that cannot commit now is asked again, in and out of the process.
func TestResultsWaitForTheEngine(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		f.err = pawl.ErrBusy
		require.NoError(t, p.Start(Registration{ID: "here"}, pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) { return 1, nil }}))
		ann := joined(t, p, "ann", 1, "b")
		f.dispatch("a", "k1")
		f.dispatch("b", "k2")
		poll1(t, ann)
		err := ann.Complete(t.Context(), pawl.Task{Key: "k2"}, 2, nil)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, 503, e.Status)
		require.ErrorContains(t, err, "try again")
		require.Len(t, p.Status().Active, 2, "the lease goes on")
		f.mu.Lock()
		f.err = nil
		f.mu.Unlock()
		done(t, ann, "k2", 2)
		pass(2 * time.Second)
		require.EqualValues(t, 1, f.result("k1"))
	})
}

// A run that takes no results does not keep a worker from the others.
func TestARunThatTakesNoResults(t *testing.T) {
	for _, cause := range []error{pawl.ErrSuspended, pawl.ErrCorrupt, pawl.ErrRunNotFound} {
		var log logged
		bubble(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, p *Pool, f *fake) {
			f.err = fmt.Errorf("deliver: %w", cause)
			begun := make(chan pawl.Key, 2)
			require.NoError(t, p.Start(Registration{ID: "here"}, pawl.Handlers{"a": func(_ context.Context, t pawl.Task) (any, error) {
				begun <- t.Key
				return 1, nil
			}}))
			f.dispatch("a", keysOf(2)...)
			require.Equal(t, pawl.Key("k1"), <-begun)
			require.Equal(t, pawl.Key("k2"), <-begun)
			synctest.Wait()
			require.Empty(t, p.Status().Active)
			require.ErrorIs(t, joined(t, p, "ann", 1, "b").Complete(t.Context(), pawl.Task{Key: "k1"}, 1, nil), errStale)
			require.Contains(t, log.String(), cause.Error())
		})
	}
}

// A task that its run sends again before the refusal of its result is noted waits for a worker again.
func TestATaskComesAgainBesideItsRefusal(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann := joined(t, p, "ann", 1, "a")
		f.dispatch("a", "k1")
		poll1(t, ann)
		f.refuses = func() error {
			f.end("k1")
			f.dispatch("a", "k1")
			return pawl.ErrSuspended
		}
		require.ErrorIs(t, ann.Complete(t.Context(), pawl.Task{Key: "k1"}, 1, nil), errStale)
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, ann))
		done(t, ann, "k1", 2)
		require.EqualValues(t, 2, f.result("k1"))
	})
}

func TestResultsWaitForAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := mustNew(Options{NoToken: true})
		require.NoError(t, p.Start(Registration{ID: "here"}, pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) { return 1, nil }}))
		early := &fake{pool: p, open: map[pawl.Key]context.CancelFunc{}, results: map[pawl.Key]any{}, beats: map[pawl.Key]int{}}
		early.dispatch("a", "k1")
		err := client(p, "ann", 1).Complete(t.Context(), pawl.Task{Key: "x"}, 1, nil)
		require.ErrorContains(t, err, "the host must call Attach")
		require.Nil(t, early.result("k1"))
		p.attachEngine(early)
		synctest.Wait()
		require.EqualValues(t, 1, early.result("k1"))
		require.NoError(t, p.Close(t.Context()))
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := mustNew(Options{NoToken: true})
		f := newFake(p)
		ann := joined(t, p, "ann", 1, "none")
		polled := make(chan error)
		go func() {
			_, err := ann.Poll(t.Context(), time.Minute)
			polled <- err
		}()
		begun := make(chan bool, 1)
		require.NoError(t, p.Start(Registration{ID: "here"}, pawl.Handlers{"a": func(ctx context.Context, _ pawl.Task) (any, error) {
			begun <- true
			<-ctx.Done()
			return nil, ctx.Err()
		}}))
		f.dispatch("a", keysOf(2)...)
		<-begun
		require.NoError(t, p.Close(t.Context()))
		require.ErrorIs(t, <-polled, errClosed)
		require.Nil(t, f.result("k1"), "who is interrupted has not failed")
		_, err := p.Execute(t.Context(), pawl.Task{Key: "late"})
		require.ErrorIs(t, err, pawl.ErrPending)
		require.ErrorIs(t, p.Start(Registration{ID: "b", Types: []string{"a"}}, nil), errClosed)
		_, err = ann.Register(t.Context(), "a")
		require.ErrorIs(t, err, errClosed)
		_, err = p.Listen("127.0.0.1:0")
		require.ErrorIs(t, err, errClosed)
	})
}

func TestCloseLeavesAFunctionThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := mustNew(Options{NoToken: true})
		f := newFake(p)
		free := make(chan bool)
		require.NoError(t, p.Start(Registration{ID: "here"}, pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) {
			<-free
			return 1, nil
		}}))
		f.dispatch("a", "k1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var left *pawl.LeftBehindError
		require.ErrorAs(t, err, &left)
		require.Len(t, left.Tasks, 1)
		require.Equal(t, pawl.Key("k1"), left.Tasks[0].Key)
		require.Equal(t, "a", left.Tasks[0].Task)
		close(free)
		synctest.Wait()
	})
}

func TestRegistrationsAreChecked(t *testing.T) {
	p, _ := newPool(t, Options{MaxWorkers: 2})
	require.NoError(t, p.Start(Registration{ID: "here", Types: []string{"a"}}, nil))
	types := make([]string, maxTypes+1)
	for i := range types {
		types[i] = fmt.Sprint(i)
	}
	for want, r := range map[string]Registration{
		"the id of a worker is missing": {Types: []string{"a"}},
		"names no types":                {ID: "x"},
		"names 257 types; at most 256":  {ID: "x", Types: types},
		"must be from 1 to 10000":       {ID: "x", Types: []string{"a"}, Capacity: 10_001},
		"is -1: it must be":             {ID: "x", Types: []string{"a"}, Capacity: -1},
		"without control characters":    {ID: "x\n", Types: []string{"a"}},
		"must be UTF-8":                 {ID: "x", Types: []string{"\xff"}},
		"a task type is missing":        {ID: "x", Types: []string{""}},
		"the type \"a\" twice":          {ID: "x", Types: []string{"a", "a"}},
		"has 256 bytes; at most 255":    {ID: string(make([]byte, 256)), Types: []string{"a"}},
	} {
		require.ErrorContains(t, p.Start(r, nil), want)
		require.ErrorContains(t, p.registerRemote(r, ""), want)
	}
	require.ErrorContains(t, p.registerRemote(Registration{ID: "here", Types: []string{"a"}}, ""), "is a worker of the engine's process")
	require.NoError(t, p.registerRemote(Registration{ID: "x", Types: []string{"a"}}, ""))
	require.ErrorContains(t, p.Start(Registration{ID: "x", Types: []string{"a"}}, nil), "registered by another process")
	for _, err := range []error{
		p.registerRemote(Registration{ID: "y", Types: []string{"a"}}, ""),
		p.Start(Registration{ID: "y", Types: []string{"a"}}, nil),
		client(p, "y", 1).Complete(t.Context(), pawl.Task{Key: "k"}, 1, nil),
	} {
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, remote.CodeTooMany, e.Code)
	}
}

// Workers that come and go from many goroutines at once, for the race detector.
func TestManyAtOnce(t *testing.T) {
	p, f := newPool(t, Options{})
	var group sync.WaitGroup
	const n = 200
	for w := range 8 {
		group.Go(func() {
			c := client(p, fmt.Sprint("w", w), 2)
			_, err := c.Register(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			for p.Status().Processed < n {
				polled, err := c.Poll(t.Context(), time.Millisecond)
				if err != nil && !errors.Is(err, ErrUnknownWorker) {
					t.Error(err)
					return
				}
				for _, task := range polled.Tasks {
					if err := c.Complete(t.Context(), task, w, nil); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for _, k := range keysOf(n) {
		group.Go(func() { f.dispatch("a", k) })
	}
	group.Wait()
	require.Len(t, f.results, n)
	require.EqualValues(t, n, p.Status().Processed)
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// A poll that was broken off with tasks in hand does not give back what the next
// poll of the same worker has got.
func TestAPollThatTookOverKeepsTheTasks(t *testing.T) {
	p, f := newPool(t, Options{})
	ann := joined(t, p, "ann", 1, "a")
	f.dispatch("a", "k1")
	require.Len(t, poll1(t, ann), 1)
	s := p.queue.workers["ann"]
	broken := &poll{done: make(chan struct{})}
	broken.endPoll(s.held["k1"])
	p.polls[s] = broken
	require.Equal(t, []pawl.Key{"k1"}, poll1(t, ann))
	require.Empty(t, broken.items)
}

// While the engine is closed nobody knows whether an attempt is over: its holder
// keeps it, and delivers when the engine is there again.
func TestAWorkerKeepsItsTaskWhileTheEngineIsClosed(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann := joined(t, p, "ann", 1, "a")
		f.dispatch("a", "k1")
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, ann))
		f.mu.Lock()
		f.err = pawl.ErrClosed
		f.mu.Unlock()
		f.end("k1") // the contexts of attempts end with the engine
		synctest.Wait()
		drop, err := ann.Heartbeat(t.Context(), "k1")
		require.NoError(t, err)
		require.Empty(t, drop)
		var e *Error
		require.ErrorAs(t, ann.Complete(t.Context(), pawl.Task{Key: "k1"}, 1, nil), &e)
		require.Equal(t, remote.CodeBusy, e.Code)
		f = newFake(p)
		f.dispatch("a", "k1")
		require.Zero(t, p.Status().Queued, "it has its holder still")
		done(t, ann, "k1", 1)
		require.Equal(t, int64(1), f.result("k1"))
	})
}
