package inspector_test

import (
	"context"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
)

// The link beside a number of the first page leads to the runs that were counted.
func TestTheLinkOfFailedRunsLeadsToThem(t *testing.T) {
	s := openShop(t)
	s.start("late", "name: late\ntimeout: 50ms\nstart: a\nnodes: [{id: a, task: t}]\n", nil)
	s.start("broken", "name: broken\nstart: a\nnodes: [{id: a, task: t}]\n", nil)
	s.start("goes", "name: goes\nstart: a\nnodes: [{id: a, task: t}]\n", nil)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("broken", "a"), pawl.TaskError{Code: "no"}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := s.engine.Wait(ctx, "late")
	require.NoError(t, err)
	_, err = s.engine.Wait(ctx, "broken")
	require.NoError(t, err)
	home := s.see("")
	require.Contains(t, textOf(t, home), "2 failed runs within the last 24 hours")
	link := regexp.MustCompile(`href="(runs\?[^"]*timed_out[^"]*)"`).FindStringSubmatch(home)
	require.Len(t, link, 2)
	list := textOf(t, s.see(html.UnescapeString(link[1])))
	require.Contains(t, list, "late @1")
	require.Contains(t, list, "broken @1")
	acting := s.serve(as("ann", api.All))
	require.NotContains(t, acting.see(html.UnescapeString(link[1])), "act?all=1", "nothing can be done to what has ended")
	require.Contains(t, acting.see("runs"), "act?all=1")
	require.NotContains(t, list, "goes @1", "of which there is a choice of its workflow alone")
}

// A join that can no longer be met is among what needs people, with the run that goes on nevertheless.
func TestTheFirstPageTellsOfUnmetJoins(t *testing.T) {
	s := openShop(t)
	require.Contains(t, textOf(t, s.see("")), "no run is blocked")
	s.start("stuck", `
name: stuck
start: begin
nodes:
  - {id: begin}
  - {id: a}
  - {id: b}
  - {id: both, task: t, join: all}
  - {id: away}
  - {id: other, wait: {event: done}}
transitions:
  - {from: begin, to: a}
  - {from: begin, to: b}
  - {from: begin, to: other}
  - {from: a, to: both}
  - {from: b, to: both, condition: "false"}
  - {from: b, to: away, priority: 1}
`, nil)
	home := s.see("")
	text := textOf(t, home)
	require.Contains(t, text, "1 blocked run waiting for branches that cannot come any more")
	require.NotContains(t, text, "no run is blocked")
	require.Contains(t, text, `join_unmet at node "both": its join lacks b->both`, "no token is named: several may wait there")
	for address, listed := range map[string]bool{"inbox": true, "inbox?where=workflow+%3D%3D+%22stuck%22": true, "inbox?where=false": false, "inbox?of=letters": false} {
		inbox := s.see(address)
		require.Equal(t, listed, strings.Contains(textOf(t, inbox), "Blocked runs 1 They wait for branches that cannot come any more"), address)
		require.Equal(t, listed, strings.Contains(inbox, `href="run/stuck"`), address)
	}
	link := regexp.MustCompile(`href="(runs\?[^"]*join_unmet[^"]*)"`).FindStringSubmatch(home)
	require.Len(t, link, 2)
	require.Contains(t, textOf(t, s.see(html.UnescapeString(link[1]))), "stuck @1")
	require.Contains(t, textOf(t, s.see("run/stuck")), "which nothing can bring any more")
}

// The page of a run that failed for its child runs names what failed first, down there.
func TestThePageNamesTheFirstFailure(t *testing.T) {
	s := openShop(t)
	for _, text := range []string{"name: grandkid\nstart: pay\nnodes: [{id: pay, task: work}]", "name: kid\nstart: order\nnodes: [{id: order, subworkflow: {name: grandkid}}]"} {
		_, err := s.engine.Publish(t.Context(), parse(t, text))
		require.NoError(t, err)
	}
	s.start("top", "name: top\nstart: call\nnodes: [{id: call, subworkflow: {name: kid}}]", nil)
	require.Eventually(t, func() bool { // children begin on their own
		ov, err := s.engine.Overview(t.Context(), "top/1.1/1.1")
		return err == nil && ov.Seq == 1
	}, time.Minute, time.Millisecond)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("top/1.1/1.1", "pay"), pawl.TaskError{Code: "declined", Message: "the card was declined"}))
	_, err := s.engine.Wait(t.Context(), "top")
	require.NoError(t, err)
	page := s.see("run/top")
	require.Contains(t, textOf(t, page), `In top/1.1/1.1 , pay : declined at node "pay" (t1): the card was declined`)
	require.Contains(t, page, `href="../run/top/1.1/1.1?token=1&amp;view=token"`)
}
