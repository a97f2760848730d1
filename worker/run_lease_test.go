package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/serving"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A function that does not heed its context keeps its lease until it returns, and its result counts.
func TestRunRenewsTheLeasesOfFunctionsThatIgnoreTheirContext(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		stop := running(t, client(p, "ann", 1), pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) {
			pass(10 * time.Minute)
			return "done", nil
		}})
		f.dispatch("a", "k1")
		pass(time.Minute)
		require.NoError(t, stop())
		require.Zero(t, p.Status().Expired)
		require.Equal(t, "done", f.result("k1"))
	})
}

// A function that does not heed that its task is over takes a place until it returns, and does not keep its worker from waiting for others.
func TestRunWaitsBesideFunctionsThatIgnoreTheirContext(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		to, c := &counted{pool: p}, client(p, "ann", 2)
		c.HTTP.Transport = to
		stop := running(t, c, pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) {
			pass(10 * time.Minute)
			return "done", nil
		}, "b": func(context.Context, pawl.Task) (any, error) { return "done", nil }})
		f.dispatch("a", "k1")
		pass(time.Second)
		f.end("k1")
		pass(5 * time.Minute)
		require.Less(t, to.polls.Load(), int64(20))
		f.dispatch("b", "k2")
		synctest.Wait()
		require.Equal(t, "done", f.result("k2"))
		require.NoError(t, stop())
		require.Nil(t, f.result("k1"))
	})
}

// A worker that the pool refuses finishes what it holds, says why at once, and takes nothing more.
func TestRunFinishesWhatItHoldsWhenItIsRefused(t *testing.T) {
	var types atomic.Pointer[[]string]
	types.Store(&[]string{"a"})
	o := Options{Identify: func(*http.Request) (Caller, error) { return Caller{Worker: "ann", Types: *types.Load()}, nil }}
	bubble(t, o, func(t *testing.T, p *Pool, f *fake) {
		var log logged
		c := client(p, "ann", 2)
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ended := make(chan error, 1)
		go func() {
			ended <- c.Run(t.Context(), pawl.Handlers{"a": func(ctx context.Context, _ pawl.Task) (any, error) {
				pass(10 * time.Minute)
				return "done", ctx.Err()
			}})
		}()
		f.dispatch("a", "k1")
		pass(time.Second)
		types.Store(&[]string{})
		pass(5 * time.Minute)
		synctest.Wait()
		require.Contains(t, log.String(), "the pool refuses this worker")
		require.Empty(t, ended)
		require.ErrorIs(t, <-ended, &Error{Code: remote.CodeForbidden})
		require.Zero(t, p.Status().Expired)
		require.Equal(t, "done", f.result("k1"))
	})
}

// The leases of tasks whose keys are more than go into one message are renewed in several.
func TestRunRenewsTheLeasesOfManyLongKeys(t *testing.T) {
	if harness.Raced {
		t.Skip("megabytes of keys take minutes with it")
	}
	const tasks = 8000
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		for i := range tasks { // before the worker comes, which gets no more once it holds so many
			f.dispatch("a", pawl.Key(fmt.Sprintf("%s%d", strings.Repeat("k", 300), i)))
		}
		stop := running(t, client(p, "ann", maxCapacity), pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) {
			pass(2 * time.Minute)
			return nil, nil
		}})
		pass(3 * time.Minute)
		s := p.Status()
		require.Zero(t, s.Expired)
		require.EqualValues(t, tasks, s.Processed)
		require.NoError(t, stop())
	})
}

func TestFirstKeysAreAsManyAsGoIntoOneMessage(t *testing.T) {
	long := pawl.Key(strings.Repeat("k", maxKeyBytes))
	require.Empty(t, firstKeys(nil))
	require.Equal(t, []pawl.Key{long}, firstKeys([]pawl.Key{long, "a"}), "one at least")
	require.Equal(t, []pawl.Key{"a"}, firstKeys([]pawl.Key{"a", long}))
	require.Equal(t, []pawl.Key{"a", "b"}, firstKeys([]pawl.Key{"a", "b"}))
}

// A page is a transport to a pool behind a proxy that answers some calls with a page of its own.
type page struct {
	to     http.RoundTripper
	status int
	path   string // that it answers
	times  atomic.Int64
}

func (g *page) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == g.path && g.times.Add(-1) >= 0 {
		return &http.Response{StatusCode: g.status, Status: http.StatusText(g.status), Body: io.NopCloser(strings.NewReader("<html>"))}, nil
	}
	return g.to.RoundTrip(r)
}

// The page of a proxy that does not find its pool for a while loses neither a result nor the worker.
func TestRunOutlivesThePagesOfAProxy(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusRequestTimeout, http.StatusBadGateway} {
		for _, path := range []string{"/v1/poll", "/v1/complete", "/v1/heartbeat"} {
			bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
				calls, proxy := 0, &page{to: direct{p}, status: status, path: path}
				c := client(p, "ann", 1)
				c.HTTP.Transport = proxy
				stop := running(t, c, pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) {
					calls++
					pass(time.Minute)
					return calls, nil
				}})
				synctest.Wait()
				proxy.times.Store(2)
				f.dispatch("a", "k1")
				pass(5 * time.Minute)
				require.EqualValues(t, 1, f.result("k1"), "%d %s", status, path)
				f.dispatch("a", "k2")
				pass(5 * time.Minute)
				require.EqualValues(t, 2, f.result("k2"), "%d %s", status, path)
				require.NoError(t, stop())
			})
		}
	}
}

// Before the first registration a page that is not found says that the address is wrong.
func TestRunEndsAtAnAddressWithoutAPool(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	c := &Client{URL: server.URL, ID: "ann", HTTP: server.Client()}
	require.ErrorContains(t, c.Run(t.Context(), pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) { return nil, nil }}), "not one of a pool")
}

// The reason why a worker cannot register at first is logged.
func TestRunSaysWhyItCannotBegin(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, _ *fake) {
		var log logged
		away := &switched{}
		c := client(p, "ann", 1)
		c.HTTP.Transport, c.Logger = away, slog.New(slog.NewTextHandler(&log, nil))
		stop := running(t, c, pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) { return nil, nil }})
		pass(time.Second)
		require.NoError(t, stop())
		require.Contains(t, log.String(), "connection refused")
	})
}

// A heeding is an engine that takes nothing in a context that has ended.
type heeding struct{ *fake }

func (h heeding) Complete(ctx context.Context, k pawl.Key, output any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.fake.Complete(ctx, k, output)
}

// A function of this process that succeeds while the pool closes has not worked in vain.
func TestCloseTakesTheResultsThatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := mustNew(Options{NoToken: true})
		f := newFake(p)
		p.attachEngine(heeding{f})
		begun := make(chan bool)
		require.NoError(t, p.Start(Registration{ID: "here"}, pawl.Handlers{"a": func(ctx context.Context, _ pawl.Task) (any, error) {
			close(begun)
			<-ctx.Done()
			return "done", nil
		}}))
		f.dispatch("a", "k1")
		<-begun
		require.NoError(t, p.Close(t.Context()))
		require.Equal(t, "done", f.result("k1"))
	})
}

// A listener is an engine that notes who performs a task.
type listener struct {
	serving.Host
	worker string
}

func (l *listener) ReportWorker(_, name string)  { l.worker = name }
func (l *listener) TenantConcurrency(string) int { return 0 }

// A doubtful engine cannot always tell whether it has its log.
type doubtful struct {
	listener
	err error
}

func (d *doubtful) ConfirmLog(context.Context) error { return d.err }

// A pool whose engine may have lost its log does not know who holds a task now: it refuses nobody by what it remembers.
func TestAPoolRefusesNobodyWhileItsLogIsInDoubt(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann, bob, engine := joined(t, p, "ann", 1, "a"), joined(t, p, "bob", 1, "b"), &doubtful{err: pawl.ErrFenced}
		f.know("k1")
		_, err := p.Execute(serving.With(t.Context(), engine), pawl.Task{Key: "k1", Type: "a"})
		require.ErrorIs(t, err, pawl.ErrPending)
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, ann))
		for _, err := range []error{pawl.ErrFenced, nil} {
			engine.err = err
			drop, beat := bob.Heartbeat(t.Context(), "k1")
			require.NoError(t, beat)
			result := bob.Complete(t.Context(), pawl.Task{Key: "k1"}, "bob's", nil)
			_, put := bob.Put(t.Context(), pawl.Task{Key: "k1"}, strings.NewReader("x"), "")
			if err != nil {
				require.Empty(t, drop)
				require.True(t, isRetriable(result))
				require.True(t, isRetriable(put))
			} else {
				require.Equal(t, []pawl.Key{"k1"}, drop)
				require.ErrorIs(t, result, ErrNotHolder)
				require.ErrorIs(t, put, ErrNotHolder)
			}
		}
		done(t, ann, "k1", "ann's")
	})
}

// An engine that was opened again hears who holds the task that it dispatches again.
func TestADispatchTellsTheEngineWhoHoldsTheTask(t *testing.T) {
	q, now, engine := newQueue(time.Minute, time.Hour, nil), time.Now(), &listener{}
	q.claimKey("ann", "k1", now)
	q.addTask(engine, pawl.Task{Key: "k1", Type: "a"}, 1, now)
	require.Equal(t, "ann", engine.worker)
}

// Details count like inputs: answers stay below what a worker reads.
func TestLargeDetailsComeInSeveralAnswers(t *testing.T) {
	tasks := make([]pawl.Task, 3)
	for i := range tasks {
		tasks[i] = pawl.Task{Key: keysOf(3)[i], Details: strings.Repeat("x", maxTasks/2)}
	}
	require.Len(t, taskMessagesOf(tasks, time.Minute), 1)
}

// A closer is a reader that notes when it is closed.
type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }

// Task.Put leaves the reader to the handler, as it does in the process of the engine.
func TestPutDoesNotCloseTheReader(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"$blob": "sha256:0123456789012345678901234567890123456789012345678901234567890123", "size": 4}`)
	}))
	defer server.Close()
	c, r := &Client{URL: server.URL, ID: "ann", HTTP: server.Client()}, &closer{Reader: strings.NewReader("text")}
	_, err := c.putBlob(t.Context(), pawl.Task{Key: "k"}, r, "")
	require.NoError(t, err)
	require.False(t, r.closed)
}

// A caller that may not have every key gets outcomes under those that it is given, and of its own tasks.
func TestOutcomesOfOthersAreOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := mustNew(Options{Identify: func(*http.Request) (Caller, error) {
			return Caller{Worker: "ann", Types: []string{every}, Once: []string{"order/"}}, nil
		}})
		e, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Executor: p, Durability: pawl.ProcessCrash})
		require.NoError(t, err)
		p.Attach(e)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: three}, nil))
		task := held(t, client(p, "ann", 1))
		effect := func(context.Context) (any, error) { return "hers", nil }
		for _, key := range []string{"", "order/1"} {
			kept, err := task.Once(t.Context(), key, effect)
			require.NoError(t, err)
			require.Equal(t, "hers", kept)
		}
		_, err = task.Once(t.Context(), "charge/1", effect)
		require.ErrorIs(t, err, &Error{Code: remote.CodeForbidden})
		kept, err := e.Once(t.Context(), "charge/1", func(context.Context) (any, error) { return "the owner's", nil })
		require.NoError(t, err)
		require.Equal(t, "the owner's", kept)
		require.NoError(t, errors.Join(p.Close(t.Context()), e.Close(t.Context())))
	})
}
