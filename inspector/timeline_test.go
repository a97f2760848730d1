package inspector_test

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
)

// An attempt that asked to be called again is not told as one that has failed, as one is that is retried: the next wait has the same status.
func TestATimelineTellsASnoozeFromAFailure(t *testing.T) {
	s := openShop(t)
	s.start("polls", "name: polls\nstart: w\nnodes: [{id: w, task: w}]\n", nil)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("polls", "w"), pawl.Snooze(time.Hour)))
	page := s.see("run/polls?view=timeline")
	require.Contains(t, page, "ran and snoozed, ")
	require.NotContains(t, page, "failed, ")

	s.start("breaks", "name: breaks\nstart: w\nnodes: [{id: w, task: w, retry: {maxAttempts: 3, initialInterval: 1h}}]\n", nil)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("breaks", "w"), pawl.TaskError{Code: "busy"}))
	page = s.see("run/breaks?view=timeline")
	require.Contains(t, page, "ran and failed, ")
	require.NotContains(t, page, "snoozed")
}

// A task that waits for a slot is queued, one that waits for its turn in a fan-out is held back, and one that is performed runs.
func TestATimelineTellsQueuedFromRunning(t *testing.T) {
	begun := make(chan pawl.Key, 42)
	s := openShopWith(t, later{begun})
	s.start("wide", "name: wide\nstart: split\nnodes: [{id: split}, {id: w, task: slow}]\ntransitions: [{from: split, to: w, siblingGroup: g, spawnCount: 43, maxConcurrency: 42}]\n", nil)
	for range cap(begun) {
		<-begun
	}
	page := textOf(t, s.see("run/wide?view=timeline"))
	// One whose handler has begun a millisecond after it was sent out was queued for so long.
	require.Regexp(t, `43 threads, at most at once: 42 running, (\d+ queued, )?1 held back`, page)
	members := s.see("run/wide?view=timeline&node=w")
	require.Contains(t, members, "held back, still, from ")
	require.Contains(t, members, "running, still, from ")
	require.Equal(t, 43, strings.Count(members, `<div class="lane">`))
	require.Contains(t, members, `Show the whole run`)
}

// The timeline of a fork is its own: it begins with the fork, and what had ended in the other run is only counted.
func TestATimelineOfAForkIsItsOwn(t *testing.T) {
	s := openShop(t)
	s.start("one", "name: one\nstart: a\nnodes: [{id: a, task: a}, {id: b, task: b}]\ntransitions: [{from: a, to: b}]\n", nil)
	require.NoError(t, s.engine.Complete(t.Context(), s.key("one", "a"), nil))
	key := s.key("one", "b")
	require.NoError(t, s.engine.Complete(t.Context(), key, nil))
	_, err := s.engine.Wait(t.Context(), "one")
	require.NoError(t, err)
	require.NoError(t, s.engine.Fork(pawl.As(t.Context(), "ann"), "one", "two", pawl.ForkOptions{At: 2}))
	page := s.see("run/two?view=timeline")
	require.Contains(t, textOf(t, page), "1 thread over time")
	require.Contains(t, textOf(t, page), "It begins when the run was forked: 1 thread had ended in one .")
	require.NotContains(t, page, ">a</span>")
	require.Contains(t, textOf(t, s.see("run/one?view=timeline")), "2 threads over time")
}

// The trace of a run can be downloaded: spans of a thread lie within those that enclose them, and instants are microseconds since the run
// began. It has no values, and those who may only look have it too.
func TestATraceCanBeDownloaded(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	link := regexp.MustCompile(`href="\.\./([^"]+)" download>Download trace`).FindStringSubmatch(s.see("run/order-1?view=timeline"))
	require.NotNil(t, link)
	_, text := s.get(html.UnescapeString(link[1]))
	var trace struct {
		TraceEvents []struct {
			Name, Ph string
			Pid, Tid int
			Ts, Dur  int64
			ID       string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &trace))
	open := map[[2]int][]int64{} // the ends of what is open in a thread
	spans := 0
	for _, e := range trace.TraceEvents {
		if e.Ph != "X" {
			continue
		}
		spans++
		at := [2]int{e.Pid, e.Tid}
		for n := len(open[at]); n > 0 && open[at][n-1] <= e.Ts && e.Ts+e.Dur > open[at][n-1]; n-- {
			open[at] = open[at][:n-1]
		}
		require.GreaterOrEqual(t, e.Ts, int64(0))
		require.Less(t, e.Ts+e.Dur, time.Minute.Microseconds())
		if n := len(open[at]); n > 0 {
			require.LessOrEqual(t, e.Ts+e.Dur, open[at][n-1], e.Name)
		}
		open[at] = append(open[at], e.Ts+e.Dur)
	}
	require.Greater(t, spans, 3)
	redacted := s.serve(as("bob", api.View))
	_, same := redacted.get(html.UnescapeString(link[1]))
	require.Equal(t, text, same)
}
