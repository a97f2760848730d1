package worker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// three is a definition with three tasks of type work at once.
var three = &workflow.Definition{
	Name: "three", Start: "each",
	Nodes: []workflow.Node{
		{ID: "each"},
		{ID: "work", Task: "work", Retry: &workflow.RetrySpec{MaxAttempts: 3}},
		{ID: "sum", Output: map[string]string{"output.results": "state.results"}},
	},
	Transitions: []workflow.Transition{
		{From: "each", To: "work", SpawnCount: 3, SiblingGroup: "all"},
		{From: "work", To: "sum", Synchronization: &workflow.Synchronization{SiblingGroup: "all", Merge: &workflow.Merge{Target: "state.results", Strategy: "collect"}}},
	},
}

// onEngine has a pool with an engine of its own, in virtual time.
func onEngine(t *testing.T, test func(t *testing.T, p *Pool, e *pawl.Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := mustNew(Options{NoToken: true})
		e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: p, Durability: pawl.ProcessCrash})
		require.NoError(t, err)
		p.Attach(e)
		t.Cleanup(func() {
			require.NoError(t, p.Close(context.Background()))
			require.NoError(t, e.Close(context.Background()))
		})
		test(t, p, e)
	})
}

// held returns a task of three that a worker has polled.
func held(t *testing.T, c *Client) pawl.Task {
	t.Helper()
	_, err := c.Register(t.Context(), "work")
	require.NoError(t, err)
	polled, err := c.Poll(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Len(t, polled.Tasks, 1)
	return polled.Tasks[0]
}

// Once is the same in this process and in others: of all that ask under a key, one makes
// the effect, and an attempt that comes again makes none.
func TestOnceInEveryProcess(t *testing.T) {
	onEngine(t, func(t *testing.T, p *Pool, e *pawl.Engine) {
		var shared, own atomic.Int64
		handlers := pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
			outcome, err := task.Once(ctx, "order/1", func(context.Context) (any, error) {
				pass(2 * time.Minute) // longer than a lease and than a poll
				return map[string]any{"receipt": shared.Add(1)}, nil
			})
			if err != nil {
				return nil, err
			}
			if _, err := task.Once(ctx, "", func(context.Context) (any, error) { return own.Add(1), nil }); err != nil {
				return nil, err
			}
			if task.Attempt == 1 {
				return nil, errors.New("once more")
			}
			return outcome, nil
		}}
		require.NoError(t, p.Start(Registration{ID: "here"}, handlers))
		ann, bob := running(t, client(p, "ann", 1), handlers), running(t, client(p, "bob", 1), handlers)
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: three}, nil)
		require.NoError(t, err)
		receipt := map[string]any{"receipt": int64(1)}
		require.Equal(t, map[string]any{"results": []any{receipt, receipt, receipt}}, out.Output)
		require.EqualValues(t, 1, shared.Load())
		require.EqualValues(t, 3, own.Load(), "once for each task")
		require.NoError(t, ann())
		require.NoError(t, bob())
		synctest.Wait()
		p.mu.Lock()
		require.Zero(t, p.turns.CountTasks())
		p.mu.Unlock()
		kept, err := e.Once(t.Context(), "order/1", nil)
		require.NoError(t, err)
		require.Equal(t, receipt, kept)
	})
}

// A worker that is not heard of any more loses its turn with its lease. If it made the effect
// all the same it says so in vain, and the outcome of who came after it is kept.
func TestATurnEndsWithTheLease(t *testing.T) {
	onEngine(t, func(t *testing.T, p *Pool, e *pawl.Engine) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: three}, nil))
		ann, bob := client(p, "ann", 1), client(p, "bob", 1)
		hers, his := held(t, ann), held(t, bob)
		began, hang := time.Now(), make(chan struct{})
		lost := make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			_, err := hers.Once(context.Background(), "order/1", func(context.Context) (any, error) {
				close(begun)
				<-hang
				return "hers", nil
			})
			lost <- err
		}()
		<-begun
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				pass(20 * time.Second)
				_ = his.Heartbeat(context.Background(), nil)
			}
		}()
		kept, err := his.Once(t.Context(), "order/1", func(context.Context) (any, error) { return "his", nil })
		require.NoError(t, err)
		require.Equal(t, "his", kept)
		require.Equal(t, p.options.Lease, time.Since(began))
		held(t, client(p, "cy", 1)) // another has her task, ...
		held(t, client(p, "dee", 1))
		close(hang)
		require.ErrorIs(t, <-lost, pawl.ErrStale)
		stop()
		pass(time.Minute)
	})
}

// The pool is opened again while a worker makes an effect: its outcome is kept.
func TestOnceOutlivesThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s switched
		dir := replays.Dir(t)
		open := func() (*Pool, *pawl.Engine) {
			p := mustNew(Options{NoToken: true})
			e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: p, Durability: pawl.ProcessCrash})
			require.NoError(t, err)
			p.Attach(e)
			s.to.Store(p)
			return p, e
		}
		shut := func(p *Pool, e *pawl.Engine) {
			s.to.Store(nil)
			require.NoError(t, p.Close(context.Background()))
			require.NoError(t, e.Close(context.Background()))
		}
		p, e := open()
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: three}, nil))
		var calls atomic.Int64
		stop := running(t, &Client{URL: "http://localhost", ID: "ann", HTTP: &http.Client{Transport: &s}}, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
			return task.Once(ctx, "order/1", func(context.Context) (any, error) {
				pass(time.Minute)
				return calls.Add(1), nil
			})
		}})
		pass(30 * time.Second)
		shut(p, e)
		pass(time.Minute)
		p, e = open()
		out, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"results": []any{int64(1), int64(1), int64(1)}}, out.Output)
		require.EqualValues(t, 1, calls.Load())
		require.NoError(t, stop())
		shut(p, e)
	})
}

// A failed effect is not kept, and the turn goes to others.
func TestOnceKeepsNoFailure(t *testing.T) {
	onEngine(t, func(t *testing.T, p *Pool, e *pawl.Engine) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: three}, nil))
		task := held(t, client(p, "ann", 1))
		once := func(key string, out any, err error) (any, error) {
			return task.Once(t.Context(), key, func(context.Context) (any, error) { return out, err })
		}
		failed := errors.New("no")
		_, err := once("k", nil, failed)
		require.ErrorIs(t, err, failed)
		_, err = task.Once(t.Context(), "k", nil)
		require.ErrorIs(t, err, pawl.ErrInvalid)
		_, err = once("k", make(chan int), nil)
		require.ErrorIs(t, err, pawl.ErrInvalid)
		_, err = once("k", strings.Repeat("x", 1<<20), nil)
		require.ErrorIs(t, err, &Error{Code: remote.CodeTooLarge})
		for _, key := range []string{"pawl:mine", strings.Repeat("k", 256), "\xff"} {
			_, err = once(key, 1, nil)
			require.ErrorIs(t, err, pawl.ErrInvalid, "%.10s", key)
		}
		require.Panics(t, func() {
			_, _ = task.Once(t.Context(), "k", func(context.Context) (any, error) { panic("boom") })
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = task.Once(ctx, "k", func(ctx context.Context) (any, error) {
			_, err := task.Once(ctx, "k", nil) // waits for itself
			return nil, err
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		kept, err := once("k", nil, nil)
		require.NoError(t, err)
		require.Nil(t, kept, "null is an outcome")
		kept, err = once("k", 2, nil)
		require.NoError(t, err)
		require.Nil(t, kept)
		synctest.Wait() // for the ends of turns that were given up
		require.Zero(t, p.turns.CountTasks())
		require.NoError(t, e.Cancel(t.Context(), "r", "enough"))
		require.ErrorIs(t, task.Heartbeat(t.Context(), nil), pawl.ErrStale)
		_, err = once("other", 1, nil)
		require.ErrorIs(t, err, pawl.ErrStale)
	})
}

// A worker that does not want to wait hears of a kept outcome and of a free turn all the same.
func TestOnceLooksBeforeItWaits(t *testing.T) {
	onEngine(t, func(t *testing.T, p *Pool, e *pawl.Engine) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: three}, nil))
		task := held(t, client(p, "ann", 1))
		once := func(turn, key string) remote.OnceReply {
			t.Helper()
			began := time.Now()
			q := onceRequest{Worker: "ann", OnceMessage: remote.OnceMessage{Key: task.Key, Turn: turn, Once: key, Wait: "0s"}}
			a, err := client(p, "ann", 1).askOnce(t.Context(), q)
			require.NoError(t, err)
			if a.Status != remote.OnceWait {
				require.Zero(t, time.Since(began), "at once")
			}
			return a
		}
		_, err := e.Once(t.Context(), "kept", func(context.Context) (any, error) { return 7, nil })
		require.NoError(t, err)
		for i := range 50 {
			turn := strconv.Itoa(i)
			require.Equal(t, remote.OnceReply{Status: remote.OnceKept, Outcome: json.RawMessage("7")}, once(turn, "kept"))
			require.Equal(t, remote.OnceYours, once(turn, "free/"+turn).Status)
			require.Equal(t, remote.OnceYours, once(turn, "free/"+turn).Status, "still")
		}
		require.Equal(t, remote.OnceWait, once("another", "free/0").Status)
	})
}

func TestOnceMessagesAreChecked(t *testing.T) {
	onEngine(t, func(t *testing.T, p *Pool, e *pawl.Engine) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: three}, nil))
		task := held(t, client(p, "ann", 1))
		own := `{"worker": "ann", "key": "` + string(task.Key) + `"`
		for body, want := range map[string]string{
			own + `}`:                                                           "turn is missing",
			own + `, "turn": "1", "wait": "soon"}`:                              `wait is "soon"`,
			own + `, "turn": "1", "version": "2.0"}`:                            "version",
			own + `, "turn": "1", "failed": true, "outcome": 1}`:                "send one of them",
			`{"worker": "bob", "key": "` + string(task.Key) + `", "turn": "1"}`: "another worker holds",
		} {
			_, err := ask(p, http.MethodPost, "/v1/once", body)
			require.ErrorContains(t, err, want, body)
		}
		p.mu.Lock() // the other two tasks may be on their way into the queue
		mine := p.queue.items[task.Key].task
		p.mu.Unlock()
		held := func() error { return nil }
		gone, leave := context.WithCancel(t.Context())
		leave() // so that nothing waits
		for i := range remote.MaxTurns {
			_, err := p.turns.AskTurn(gone, mine, remote.OnceMessage{Key: task.Key, Turn: string(rune('a' + i)), Once: "k"}, 0, held)
			require.NoError(t, err)
		}
		_, err := onceAnswer(p.turns.AskTurn(t.Context(), mine, remote.OnceMessage{Key: task.Key, Turn: "one more"}, 0, held))
		require.ErrorIs(t, err, &Error{Code: remote.CodeBusy})
	})
}

// A request of Once that was let in before Close begins no turn behind it: Close may have nothing left to wait for.
func TestNoTurnBeginsAfterClose(t *testing.T) {
	p, _ := newPool(t, Options{})
	require.NoError(t, p.Close(t.Context()))
	services := onceServices{began: make(chan bool, 1)}
	asked := pawl.Task{Key: "k1"}.WithServices(services)
	_, err := p.turns.AskTurn(t.Context(), asked, remote.OnceMessage{Key: "k1", Turn: "t"}, 0, func() error { return p.checkHolder("ann", "k1") })
	require.Equal(t, errClosed, onceError(err))
	p.group.Wait()
	require.Empty(t, services.began)
}

// onceServices are told of a call of Once.
type onceServices struct {
	pawl.TaskServices
	began chan bool
}

func (s onceServices) Once(context.Context, pawl.Task, string, func(context.Context) (any, error)) (any, error) {
	s.began <- true
	return nil, errClosed
}
