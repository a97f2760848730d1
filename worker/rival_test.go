package worker

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
)

// A counted is a transport to a pool that counts polls. forgets leaves out which process asks, as clients did that could not say it.
type counted struct {
	pool    *Pool
	polls   atomic.Int64
	forgets bool
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/v1/poll" && c.polls.Add(1) > 10_000 {
		return nil, errors.New("too many polls") // a client that spins would keep the time of its bubble
	}
	if c.forgets {
		r = r.Clone(r.Context())
		r.Header.Del(instanceHeader)
	}
	return direct{c.pool}.RoundTrip(r)
}

// rivals runs two workers under the id ann, each of which takes a minute for a task of type a.
func rivals(t *testing.T, to *counted, log *logged, begun map[pawl.Key]*atomic.Int64) (first, second func() error) {
	run := func() func() error {
		c := client(to.pool, "ann", 4)
		c.HTTP.Transport, c.Logger = to, slog.New(slog.NewTextHandler(log, nil))
		stop := running(t, c, pawl.Handlers{"a": func(ctx context.Context, task pawl.Task) (any, error) {
			begun[task.Key].Add(1)
			select {
			case <-time.After(time.Minute):
				return "done", nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}})
		synctest.Wait()
		return stop
	}
	return run(), run()
}

func begunOf(keys []pawl.Key) map[pawl.Key]*atomic.Int64 {
	begun := map[pawl.Key]*atomic.Int64{}
	for _, k := range keys {
		begun[k] = new(atomic.Int64)
	}
	return begun
}

// Where two processes have one id, the one that registered last works. The other waits until that one is gone, and both logs say so once.
func TestTwoProcessesWithOneID(t *testing.T) {
	var ofPool, ofClients logged
	bubble(t, Options{Logger: slog.New(slog.NewTextHandler(&ofPool, nil))}, func(t *testing.T, p *Pool, f *fake) {
		to, begun := &counted{pool: p}, begunOf(keysOf(9))
		first, second := rivals(t, to, &ofClients, begun)
		pass(time.Hour)
		require.Less(t, to.polls.Load(), int64(1000), "one in 5 s of the one, and one in 30 s of the other")
		f.dispatch("a", keysOf(8)...)
		pass(3 * time.Minute)
		for _, k := range keysOf(8) {
			require.Equal(t, "done", f.result(k))
			require.EqualValues(t, 1, begun[k].Load(), "%s is begun once", k)
		}
		require.Equal(t, 1, strings.Count(ofPool.String(), "two processes have one id"), ofPool.String())
		require.Equal(t, 1, strings.Count(ofClients.String(), "another process works for the pool under this id"), ofClients.String())
		require.Equal(t, 1, strings.Count(ofClients.String(), "\n"), ofClients.String())

		require.NoError(t, second())
		pass(10 * time.Second)
		f.dispatch("a", "k9")
		pass(2 * time.Minute)
		require.Equal(t, "done", f.result("k9"), "the first one works again")
		require.NoError(t, first())
	})
}

// The goodbye of a process that was replaced takes no tasks from the one in its place.
func TestAProcessThatWasReplacedLeaves(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		begun := begunOf(keysOf(1))
		first, second := rivals(t, &counted{pool: p}, new(logged), begun)
		f.dispatch("a", "k1")
		synctest.Wait()
		require.NoError(t, first())
		require.Len(t, p.Status().Active, 1)
		pass(2 * time.Minute)
		require.Equal(t, "done", f.result("k1"))
		require.EqualValues(t, 1, begun["k1"].Load())
		require.NoError(t, second())
		require.Empty(t, p.Status().Workers)
	})
}

// A process that was replaced works again once the pool has not heard of the other one for a lease, also while it has a task itself. The tasks
// that were lost with the other one are given to it.
func TestAProcessWorksAgainOnceTheOtherIsGone(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		begun := begunOf([]pawl.Key{"long", "lost", "k1"})
		stop := running(t, client(p, "ann", 4), pawl.Handlers{"a": func(ctx context.Context, task pawl.Task) (any, error) {
			begun[task.Key].Add(1)
			takes := time.Minute
			if task.Key == "long" {
				takes = 10 * time.Hour
			}
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			return "done", ctx.Err()
		}})
		synctest.Wait()
		f.dispatch("a", "long")
		pass(time.Second)
		other := client(p, "ann", 4)
		other.instance = "other"
		_, err := other.Register(t.Context(), "a", "b")
		require.NoError(t, err)
		f.dispatch("a", "lost")
		_, err = other.Poll(t.Context(), time.Minute, "long")
		require.NoError(t, err)
		for range 10 { // it holds what it has got, and does not poll
			pass(p.options.Lease / 2)
			_, err = other.Heartbeat(t.Context(), "lost")
			require.NoError(t, err)
		}
		f.dispatch("a", "k1")
		pass(p.options.Lease)
		require.Zero(t, begun["k1"].Load(), "the other one may come back")
		pass(4 * time.Minute) // it was killed
		for _, k := range []pawl.Key{"lost", "k1"} {
			require.EqualValues(t, 1, begun[k].Load())
			require.Equal(t, "done", f.result(k))
		}
		_, err = other.Poll(t.Context(), 0)
		require.ErrorIs(t, err, errReplaced)
		require.Equal(t, []string{"a"}, p.Status().Workers[0].Types, "those that it has a handler for")
		pass(10 * time.Hour)
		require.EqualValues(t, 1, begun["long"].Load())
		require.NoError(t, stop())
	})
}

// A poll that is open is a contact, however short a lease is.
func TestAProcessThatPollsIsThere(t *testing.T) {
	bubble(t, Options{Lease: time.Second}, func(t *testing.T, p *Pool, f *fake) {
		begun := begunOf(keysOf(1))
		first, second := rivals(t, &counted{pool: p}, new(logged), begun)
		pass(20 * time.Minute)
		f.dispatch("a", "k1")
		pass(2 * time.Minute)
		require.Equal(t, "done", f.result("k1"))
		require.EqualValues(t, 1, begun["k1"].Load())
		require.NoError(t, first())
		require.Len(t, p.Status().Workers, 1, "the first one was still replaced")
		require.NoError(t, second())
		require.Empty(t, p.Status().Workers)
	})
}

// Nor do two processes spin at a pool that cannot tell them apart, since it is of a version before, say.
func TestTwoProcessesThatThePoolCannotTellApart(t *testing.T) {
	var log logged
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		to, begun := &counted{pool: p, forgets: true}, begunOf(keysOf(8))
		first, second := rivals(t, to, &log, begun)
		pass(time.Hour)
		require.Less(t, to.polls.Load(), int64(2000))
		require.Equal(t, 2, strings.Count(log.String(), "another process works for the pool under this id"), "each says it once")
		f.dispatch("a", keysOf(8)...)
		pass(10 * time.Minute)
		for _, k := range keysOf(8) {
			require.Equal(t, "done", f.result(k))
		}
		require.NoError(t, first())
		require.NoError(t, second())
	})
}

// A process whose connection broke takes over its own poll at once, and one that is started again under its id that of the one before.
func TestAProcessTakesOverItsOwnPoll(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		ann := client(p, "ann", 1)
		ann.instance = "one"
		_, err := ann.Register(t.Context(), "a")
		require.NoError(t, err)
		ended := make(chan error)
		wait := func() {
			_, err := ann.Poll(context.Background(), time.Minute)
			ended <- err
		}
		go wait()
		synctest.Wait()
		go wait()
		require.NoError(t, <-ended)
		synctest.Wait()
		again := client(p, "ann", 1)
		again.instance = "two"
		_, err = again.Register(t.Context(), "a")
		require.NoError(t, err)
		require.ErrorIs(t, <-ended, errReplaced)
		f.dispatch("a", "k1")
		_, err = ann.Poll(t.Context(), time.Minute)
		require.ErrorIs(t, err, errReplaced)
		require.Equal(t, []pawl.Key{"k1"}, poll1(t, again))
		done(t, ann, "k1", "of the first") // the task is the same
		require.Equal(t, "of the first", f.result("k1"))
	})
}

// A host that changes the types of a worker that runs does not take its place.
func TestAHostRegistersAWorkerThatRuns(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, p *Pool, f *fake) {
		begun := []pawl.Key{}
		c := client(p, "ann", 1)
		stop := running(t, c, pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
			begun = append(begun, task.Key)
			return nil, nil
		}})
		synctest.Wait()
		_, err := c.Register(t.Context(), "b")
		require.NoError(t, err)
		f.dispatch("a", "k1")
		f.dispatch("b", "k2")
		pass(time.Second)
		require.NoError(t, stop())
		require.Equal(t, []pawl.Key{"k2"}, begun)
	})
}

func TestTheNameOfAProcessIsChecked(t *testing.T) {
	p, _ := newPool(t, Options{})
	status, err := ask(p, http.MethodPost, "/v1/poll", `{"worker": "ann"}`, instanceHeader, strings.Repeat("x", 256))
	require.Equal(t, http.StatusBadRequest, status)
	require.ErrorContains(t, err, "the header Pawl-Instance has 256 bytes")
}
