package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
)

// switched is a transport to a pool that can be exchanged, or unreachable.
type switched struct{ to atomic.Pointer[Pool] }

func (s *switched) RoundTrip(r *http.Request) (*http.Response, error) {
	p := s.to.Load()
	if p == nil {
		return nil, errors.New("connection refused")
	}
	return direct{p}.RoundTrip(r)
}

// running runs a client and returns a function that ends it.
func running(t *testing.T, c *Client, h pawl.Handlers) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, h) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// A function that ignores that its task was dropped takes its place until it returns.
func TestRunPerformsNoMoreThanItsCapacity(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		var now, most atomic.Int64
		stop := running(t, client(p, "ann", 2), pawl.Handlers{"a": func(_ context.Context, task pawl.Task) (any, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if task.Key == "k1" {
				pass(time.Hour)
			}
			pass(3 * time.Minute)
			return "done", nil
		}})
		synctest.Wait()
		f.dispatch("a", "k1", "k2")
		pass(time.Second)
		f.end("k1")
		f.dispatch("a", "k3", "k4", "k5")
		pass(20 * time.Minute)
		for _, k := range keysOf(5)[1:] {
			require.Equal(t, "done", f.result(k))
		}
		require.EqualValues(t, 2, most.Load())
		pass(time.Hour)
		require.NoError(t, stop())
	})
}

func TestRunRenewsLeasesByItself(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		stop := running(t, client(p, "ann", 2), pawl.Handlers{"a": func(_ context.Context, t pawl.Task) (any, error) {
			pass(10 * time.Minute)
			return "done " + string(t.Key), t.Heartbeat(context.Background(), nil)
		}})
		f.dispatch("a", keysOf(3)...)
		pass(25 * time.Minute)
		synctest.Wait()
		require.Equal(t, "done k3", f.result("k3"))
		s := p.Status()
		require.EqualValues(t, 3, s.Processed)
		require.Zero(t, s.Expired)
		require.NoError(t, stop())
		require.Empty(t, p.Status().Workers, "it says goodbye")
	})
}

func TestRunOutlivesThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s switched
		c := &Client{URL: "http://localhost", ID: "ann", HTTP: &http.Client{Transport: &s}}
		begun, finish := make(chan pawl.Key, 1), make(chan bool)
		stop := running(t, c, pawl.Handlers{"a": func(_ context.Context, t pawl.Task) (any, error) {
			begun <- t.Key
			<-finish
			return 1, nil
		}})
		pass(time.Minute) // nobody is there yet
		first := mustNew(Options{NoToken: true})
		f := newFake(first)
		f.dispatch("a", "k1")
		s.to.Store(first)
		require.Equal(t, pawl.Key("k1"), <-begun)
		s.to.Store(nil)
		require.NoError(t, first.Close(t.Context()))
		pass(time.Hour)

		second := mustNew(Options{NoToken: true}) // the host was restarted
		f = newFake(second)
		s.to.Store(second)
		pass(time.Minute) // a heartbeat comes before the dispatch, or after
		f.know("k1")
		pass(time.Minute)
		f.dispatch("a", "k1", "k2")
		finish <- true
		require.Equal(t, pawl.Key("k2"), <-begun, "it has registered again, and did not get k1 twice")
		finish <- true
		synctest.Wait()
		require.Equal(t, map[pawl.Key]any{"k1": int64(1), "k2": int64(1)}, f.results)
		require.NoError(t, stop())
		require.NoError(t, second.Close(t.Context()))
	})
}

func TestRunDropsWhatIsNotWanted(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		causes := make(chan error)
		stop := running(t, client(p, "ann", 2), pawl.Handlers{every: func(ctx context.Context, _ pawl.Task) (any, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		}})
		f.dispatch("a", "k1")
		synctest.Wait()
		f.end("k1")
		require.ErrorIs(t, <-causes, errDropped, "at the next heartbeat")
		f.dispatch("a", "k2")
		synctest.Wait()
		ended := make(chan error)
		go func() { ended <- stop() }()
		require.ErrorIs(t, <-causes, context.Canceled)
		require.NoError(t, <-ended)
		require.Equal(t, 1, p.Status().Queued, "what was interrupted goes back")
		require.Empty(t, f.results)
	})
}

func TestRunEndsWhenDrained(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		begun, finish, ended := make(chan bool, 1), make(chan bool), make(chan error)
		go func() {
			ended <- client(p, "ann", 2).Run(t.Context(), pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) {
				begun <- true
				<-finish
				return 1, nil
			}})
		}()
		synctest.Wait()
		f.dispatch("a", "k1")
		<-begun
		drained := make(chan error)
		go func() { drained <- p.Drain(t.Context(), "ann") }()
		synctest.Wait()
		f.dispatch("a", "k2")
		finish <- true
		require.NoError(t, <-drained)
		require.NoError(t, <-ended)
		require.Equal(t, int64(1), f.result("k1"))
		require.Nil(t, f.result("k2"))
	})
}

func TestRunSaysWhatHandlersReturn(t *testing.T) {
	bubble(t, Options{MaxBody: 10_000}, func(t *testing.T, p *Pool, f *fake) {
		handlers := pawl.Handlers{
			"panic": func(context.Context, pawl.Task) (any, error) { panic("boom") },
			"code": func(context.Context, pawl.Task) (any, error) {
				return nil, pawl.TaskError{Code: "mine", Retryable: true, RetryAfter: 90 * time.Second}
			},
			"snooze": func(context.Context, pawl.Task) (any, error) {
				return nil, fmt.Errorf("soon: %w", pawl.Snooze(90*time.Second))
			},
			"plain":     func(context.Context, pawl.Task) (any, error) { return nil, errors.New("plain") },
			"permanent": func(context.Context, pawl.Task) (any, error) { return nil, pawl.Permanent(errors.New("for good")) },
			"not json":  func(context.Context, pawl.Task) (any, error) { return make(chan int), nil },
			"bad meta": func(context.Context, pawl.Task) (any, error) {
				return pawl.Result{Metadata: map[string]any{"a": make(chan int)}}, nil
			},
			"large": func(context.Context, pawl.Task) (any, error) { return string(make([]byte, 10_000)), nil },
			"result": func(context.Context, pawl.Task) (any, error) {
				return pawl.Result{Output: 1, Metadata: map[string]any{"tokens": 7}}, nil
			},
		}
		stop := running(t, client(p, "ann", 9), handlers)
		for k := range handlers {
			f.dispatch(k, pawl.Key(k))
		}
		pass(time.Second)
		for k, want := range map[pawl.Key]any{
			"panic":     pawl.TaskError{Code: "panic", Message: "boom"},
			"code":      pawl.TaskError{Code: "mine", Retryable: true, RetryAfter: 90 * time.Second},
			"snooze":    pawl.SnoozeError{After: 90 * time.Second},
			"plain":     pawl.TaskError{Code: "error", Message: "plain", Retryable: true},
			"permanent": pawl.TaskError{Code: "error", Message: "for good"},
			"result":    pawl.Result{Output: int64(1), Metadata: map[string]any{"tokens": int64(7)}},
		} {
			require.Equal(t, want, f.result(k))
		}
		for k, code := range map[pawl.Key]string{"not json": "invalid_result", "bad meta": "invalid_result", "large": "result_too_large"} {
			require.Equal(t, code, f.result(k).(pawl.TaskError).Code)
			require.False(t, f.result(k).(pawl.TaskError).Retryable)
		}
		require.NoError(t, stop())
	})
}

// A result that the pool refuses fails the task, with the reason: it is not tried
// for ever.
func TestRunReportsResultsThatAreRefused(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		calls := map[string]int{}
		handlers := pawl.Handlers{
			"artifact": func(context.Context, pawl.Task) (any, error) {
				return pawl.Result{Output: 1, Artifacts: []pawl.Artifact{{Name: "a"}}}, nil
			},
			"metadata": func(context.Context, pawl.Task) (any, error) {
				return pawl.Result{Metadata: map[string]any{"x": string(make([]byte, 3<<20))}}, nil
			},
			"error": func(context.Context, pawl.Task) (any, error) { return nil, errors.New(strings.Repeat("x", 3<<20)) },
			"code": func(context.Context, pawl.Task) (any, error) {
				return nil, pawl.TaskError{Code: strings.Repeat("x", 3<<20)}
			},
		}
		counted := pawl.Handlers{"*": func(ctx context.Context, t pawl.Task) (any, error) {
			calls[t.Type]++
			return handlers[t.Type](ctx, t)
		}}
		stop := running(t, client(p, "ann", 1), counted)
		for k := range handlers {
			f.dispatch(k, pawl.Key(k))
		}
		pass(time.Minute)
		require.NoError(t, stop())
		require.Equal(t, map[string]int{"artifact": 1, "metadata": 1, "error": 1, "code": 1}, calls)
		for k, code := range map[pawl.Key]string{"artifact": "invalid_result", "metadata": "result_too_large", "code": "result_too_large", "error": "error"} {
			failure, failed := f.result(k).(pawl.TaskError)
			require.True(t, failed, "%s", k)
			require.Equal(t, code, failure.Code)
		}
		require.Contains(t, f.result("artifact").(pawl.TaskError).Message, `the artifact "a"`)
		require.Len(t, f.result("error").(pawl.TaskError).Message, remote.MaxMessage)
	})
}

func TestRunRefusesWhatIsNotValid(t *testing.T) {
	p, _ := newPool(t, Options{})
	require.ErrorContains(t, client(p, "", 1).Run(t.Context(), pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) { return nil, nil }}), "the id of a worker is missing")
	require.ErrorContains(t, client(p, "ann", 1).Run(t.Context(), nil), "names no types")
}

// A text that is not an address is an error at once, and not a pool that is away.
func TestAClientNeedsAnAddress(t *testing.T) {
	for _, address := range []string{"", "/v1", "127.0.0.1:80", "ftp://127.0.0.1", "http://", "http://127.0.0.1:x"} {
		c := Client{URL: address, ID: "w"}
		err := c.Run(t.Context(), pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) { return nil, nil }})
		require.ErrorIs(t, err, pawl.ErrInvalid, address)
		require.ErrorContains(t, err, "it must be the address of the pool, such as http://127.0.0.1:8080")
		_, err = c.Once(t.Context(), pawl.Task{Key: "k"}, "key", func(context.Context) (any, error) { return nil, nil })
		require.ErrorIs(t, err, pawl.ErrInvalid, address)
	}
}

// A handler of pawl.Typed works for a pool as in the engine's process; types that JSON cannot say let no worker begin.
func TestTypedHandlersInAWorker(t *testing.T) {
	type in struct{ N int }
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		stop := running(t, client(p, "ann", 2), pawl.Handlers{"a": pawl.Typed(func(ctx context.Context, _ any) (string, error) {
			task := pawl.TaskFrom(ctx)
			return "done " + string(task.Key), task.Heartbeat(ctx, nil)
		})})
		f.dispatch("a", keysOf(1)...)
		pass(time.Minute)
		synctest.Wait()
		require.Equal(t, "done k1", f.result("k1"))
		require.NoError(t, stop())
		bad := pawl.Handlers{"a": pawl.Typed(func(context.Context, chan in) (string, error) { return "", nil })}
		require.ErrorIs(t, client(p, "bob", 1).Run(t.Context(), bad), pawl.ErrInvalid)
		require.ErrorIs(t, p.Start(Registration{ID: "here"}, bad), pawl.ErrInvalid)
		require.Empty(t, p.Status().Workers)
	})
}

// A spoiling transport makes inputs of "spoilt" ones that no worker can read: a key stands there twice.
type spoiling struct{ direct }

func (s spoiling) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := s.direct.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(a.Body)
	a.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(text), `"input":"spoilt"`, `"input":{"a":1,"a":2}`)))
	return a, err
}

// A task that a worker cannot read fails, and keeps no other from it.
func TestRunFailsWhatItCannotRead(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		f.send(pawl.Task{Key: "k1", Type: "a", Input: "spoilt"})
		f.send(pawl.Task{Key: "k2", Type: "a"})
		c := client(p, "ann", 2)
		c.HTTP = &http.Client{Transport: spoiling{direct{p}}}
		stop := running(t, c, pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) { return "done", nil }})
		synctest.Wait()
		require.Equal(t, "done", f.result("k2"))
		failed, _ := f.result("k1").(error)
		require.ErrorContains(t, failed, "the worker cannot read it: input of task")
		require.False(t, pawl.IsPermanent(failed), "another worker may read it")
		require.NoError(t, stop())
	})
}

// A recording transport fails, and remembers the types of what it was to send.
type recording map[string]string

func (s recording) RoundTrip(r *http.Request) (*http.Response, error) {
	s[r.URL.Path] = r.Header.Get("Content-Type")
	return nil, errors.New("connection refused")
}

// Only messages are sent as JSON.
func TestBlobsAreSentAsBytes(t *testing.T) {
	sent := recording{}
	c := &Client{URL: "http://127.0.0.1", ID: "ann", HTTP: &http.Client{Transport: sent}}
	_, _ = c.putBlob(t.Context(), pawl.Task{Key: "k"}, strings.NewReader("a,b"), "text/csv")
	_ = c.leavePool(t.Context())
	require.Equal(t, recording{"/v1/blobs": "application/octet-stream", "/v1/leave": "application/json"}, sent)
}
