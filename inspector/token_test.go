package inspector_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// The page of a token tells of each attempt when it was dispatched and when somebody began to perform it.
func TestTokenSaysWhenAttemptsBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := func(context.Context, pawl.Task) (any, error) {
			<-time.After(90 * time.Second)
			return nil, nil
		}
		engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{"work": work}})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(context.Background())) }()
		handler := inspector.Handler(engine, inspector.Options{Name: "test"})
		def := parse(t, "name: w\nstart: s\nnodes: [{id: s}, {id: a, task: work}, {id: b, task: work}]\ntransitions: [{from: s, to: a}, {from: s, to: b}]\n")
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
		see := func(token string) string {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "http://localhost/run/r?view=token&token="+token, nil)
			r.RemoteAddr = "127.0.0.1:7"
			handler.ServeHTTP(w, r)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			return textOf(t, w.Body.String())
		}
		<-time.After(2 * time.Minute)
		require.Regexp(t, `Dispatched Began Took Failure 1 done 2 min ago 2 min ago 1 min 30 s`, see("2"))
		require.Regexp(t, `Dispatched Began Took Failure 1 running 2 min ago 30 s ago`, see("3"))
		_, err = engine.Wait(t.Context(), "r")
		require.NoError(t, err)
		require.Regexp(t, `Dispatched Began Took Failure 1 done 3 min ago 1 min 30 s ago 1 min 30 s`, see("3"))
	})
}

// The page of a token, and the list of them, say who performs its task, or for what it is queued.
func TestTokenSaysWhatItIsQueuedFor(t *testing.T) { synctest.Test(t, testTokenQueued) }

func testTokenQueued(t *testing.T) {
	work := func(ctx context.Context, _ pawl.Task) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{"work": work}})
	require.NoError(t, err)
	defer func() { require.NoError(t, engine.Close(context.Background())) }()
	handler := inspector.Handler(engine, inspector.Options{Name: "test"})
	see := func(view string) string {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/run/r?view="+view, nil)
		r.RemoteAddr = "127.0.0.1:7"
		handler.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		return textOf(t, w.Body.String())
	}
	def := parse(t, "name: w\nstart: s\nnodes: [{id: s}, {id: a, task: work}]\ntransitions: [{from: s, to: a, spawnCount: 3}]\n")
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
	synctest.Wait()
	queued, running := 0, 0
	for token, err := range engine.Tokens(t.Context(), "r", pawl.TokenFilter{Status: []workflow.TokenStatus{workflow.Dispatched}}) {
		require.NoError(t, err)
		page := see("token&token=" + token.ID.String()[1:])
		if token.Executing {
			running++
			require.Contains(t, page, "performed, since now")
			require.Contains(t, page, "1 running")
			continue
		}
		queued++
		require.Regexp(t, `queued for a slot of the engine, [12] of 2 in line, since now`, page)
		require.Contains(t, page, "1 queued", "its attempt")
		require.Regexp(t, `a t[0-9]+ queued for a slot`, page)
	}
	require.Equal(t, []int{1, 2}, []int{running, queued})
	list := see("tokens")
	require.Contains(t, list, "queued for a slot of the engine, 1 of 2 in line, since now")
	require.Contains(t, list, "queued for a slot of the engine, 2 of 2 in line, since now")
	require.Contains(t, list, "performed, since now")
}

// The answer why a run waits does not say of a task that it is queued when somebody has begun to perform it, which no record tells. The node has
// brackets in its id, as places have.
func TestWhyIsNotQueuedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		work := func(ctx context.Context, task pawl.Task) (any, error) {
			if task.Run == "r" {
				<-ctx.Done()
			}
			<-free
			return nil, ctx.Err()
		}
		engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{"work": work}})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(context.Background())) }()
		def := parse(t, "name: w\nstart: 'a[x]'\nnodes: [{id: 'a[x]', task: work}]\n")
		for _, id := range []workflow.RunID{"holds", "r"} {
			require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
			synctest.Wait()
		}
		handler := inspector.Handler(engine, inspector.Options{Name: "test"})
		see := func() string {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "http://localhost/run/r", nil)
			r.RemoteAddr = "127.0.0.1:7"
			handler.ServeHTTP(w, r)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			return textOf(t, w.Body.String())
		}
		queued := see()
		require.Contains(t, queued, "the result of task work, attempt 1: queued for a slot of the engine")
		require.Contains(t, queued, "1 running 1 of them queued")
		close(free)
		<-time.After(time.Second)
		runs := see()
		require.Contains(t, runs, "the result of task work, attempt 1: runs since")
		require.NotContains(t, runs, "of them queued")
	})
}

// Each attempt on the page of a thread has an end: also one that no message has ended, and one that asks to be called again.
func TestAttemptsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Executor: pawl.Handlers{
			"slow":   func(ctx context.Context, _ pawl.Task) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
			"snooze": func(context.Context, pawl.Task) (any, error) { return nil, pawl.Snooze(time.Hour) },
		}})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(context.Background())) }()
		for id, node := range map[workflow.RunID]string{
			"late":   "task: slow, timeout: 50ms, retry: {maxAttempts: 3, initialInterval: 1ms}",
			"parked": "task: slow, timeout: 50ms, retry: {maxAttempts: 1, exhausted: park}",
			"ended":  "task: slow",
			"snooze": "task: snooze",
		} {
			require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: id, Definition: parse(t, "name: w\nstart: a\nnodes: [{id: a, "+node+"}]\n")}, nil))
		}
		<-time.After(time.Minute)
		require.NoError(t, engine.Cancel(t.Context(), "ended", "no more"))
		<-time.After(time.Second)
		handler := inspector.Handler(engine, inspector.Options{Name: "test"})
		for id, want := range map[string]string{
			"late":   `Failure 1 timed out .* 50 ms .* 2 timed out .* 50 ms .* 3 timed out .* 50 ms`,
			"parked": `Failure 1 timed out .* 50 ms`,
			"ended":  `Failure 1 cancelled`,
			"snooze": `Failure 1 snoozed`,
		} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "http://localhost/run/"+id+"?view=token&token=1", nil)
			r.RemoteAddr = "127.0.0.1:7"
			handler.ServeHTTP(w, r)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.Regexp(t, want, textOf(t, w.Body.String()), id)
		}
	})
}

// The page of a thread that a fork has from its original leads to the child of that one; an attempt that the fork sends again is one.
func TestTokensOfAFork(t *testing.T) {
	s := openShop(t)
	_, err := s.engine.Publish(t.Context(), parse(t, "name: kid\nstart: x\nnodes: [{id: x}]"))
	require.NoError(t, err)
	s.start("top", "name: top\nstart: c\nnodes: [{id: c, subworkflow: {name: kid}}, {id: a, task: t}]\ntransitions: [{from: c, to: a}]", nil)
	key := pawl.Key("")
	require.Eventually(t, func() bool {
		for tok := range s.engine.Tokens(t.Context(), "top", pawl.TokenFilter{Node: "a"}) {
			key = tok.Key
		}
		return key != ""
	}, time.Minute, time.Millisecond)
	require.NoError(t, s.engine.Fork(t.Context(), "top", "fork", pawl.ForkOptions{}))
	require.NoError(t, s.engine.Fork(t.Context(), "fork", "again", pawl.ForkOptions{}))
	for _, id := range []string{"top", "fork", "again"} {
		page := s.see("run/" + id + "?view=token&token=1")
		require.Contains(t, page, `href="../run/top/1.1"`, id)
		require.NotContains(t, page, `href="../run/fork/1.1"`, id)
		require.Regexp(t, `Failure 1 running (now|[0-9.]+ s ago)`, textOf(t, s.see("run/"+id+"?view=token&token=2")), id)
	}
}
