package inspector_test

import (
	"context"
	"html"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
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
	require.NotContains(t, list, "goes @1", "of which there is a choice of its workflow alone")
}

// A join that can no longer be met is among what needs people, with the run that goes on nevertheless.
func TestTheFirstPageTellsOfUnmetJoins(t *testing.T) {
	s := openShop(t)
	require.Contains(t, textOf(t, s.see("")), "every join can be met")
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
	require.Contains(t, text, "1 unmet joins can no longer be met, in runs that go on")
	require.NotContains(t, text, "every join can be met")
	require.Contains(t, text, "its join lacks b->both")
	link := regexp.MustCompile(`href="(runs\?[^"]*join_unmet[^"]*)"`).FindStringSubmatch(home)
	require.Len(t, link, 2)
	require.Contains(t, textOf(t, s.see(html.UnescapeString(link[1]))), "stuck @1")
	require.Contains(t, textOf(t, s.see("run/stuck")), "which nothing can bring any more")
}
