package inspector_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// chainOf returns a definition of so many nodes, one after the other; the first waits.
func chainOf(name string, version, n int, prefix string) *workflow.Definition {
	d := &workflow.Definition{Name: name, Version: version, Start: workflow.NodeID(prefix + "0")}
	for i := range n {
		node := workflow.Node{ID: workflow.NodeID(fmt.Sprint(prefix, i)), Task: "load"}
		if i == 0 {
			node = workflow.Node{ID: node.ID, Wait: &workflow.WaitSpec{Event: "go"}}
		}
		d.Nodes = append(d.Nodes, node)
		if i > 0 {
			d.Transitions = append(d.Transitions, workflow.Transition{From: d.Nodes[i-1].ID, To: node.ID})
		}
	}
	return d
}

// The page of a run with many nodes draws what matters and what is near it, and leads to the rest.
func TestALargeRunIsDrawnInPart(t *testing.T) {
	s := openShop(t)
	require.NoError(t, s.engine.Start(t.Context(), workflow.Run{ID: "long", Definition: chainOf("long", 1, 1000, "t")}, nil))
	require.NoError(t, s.engine.Signal(t.Context(), "long", workflow.Signal{Name: "go"}))
	for i := 1; i < 50; i++ {
		require.NoError(t, s.engine.Complete(t.Context(), s.key("long", workflow.NodeID(fmt.Sprint("t", i))), nil))
	}
	page := s.see("run/long")
	require.Less(t, len(page), 100<<10)
	require.Contains(t, page, `data-node="t50"`, "where it stands")
	require.NotContains(t, page, `data-node="t102"`)
	require.Equal(t, 200, strings.Count(page, "data-node="), "of the picture, and of the table beside it")
	require.Contains(t, textOf(t, page), "100 of 1,000 nodes are drawn")
	require.Contains(t, page, "1 more →", "of the nodes at the edge")

	around := s.see("run/long?node=t999")
	require.Contains(t, around, `data-node="t900"`)
	require.NotContains(t, around, `data-node="t50"`)
	require.Contains(t, textOf(t, s.see("run/long?node=nobody")), "There is no node nobody.")
	past := s.see("run/long?at=10&node=t300")
	require.Contains(t, past, `data-node="t300"`)
	require.Contains(t, past, `<input type="hidden" name="at" value="10">`)

	listed := s.see("run/long?nodes=900&node=t7")
	require.Contains(t, textOf(t, listed), "901 to 1,000 of 1,000. Those before")
	require.Contains(t, listed, `<tr data-node="t999"`)
	require.NotContains(t, listed, "The next ones")
	require.Contains(t, listed, "node=t7&amp;nodes=800", "the picture stays")
	require.Less(t, len(s.see("definitions?workflow=long")), 400<<10)
}

// Two definitions that have no node in common are compared within bounds, with counts and a way to the rest.
func TestALargeDifferenceIsShownInParts(t *testing.T) {
	s := openShop(t)
	for v, prefix := range []string{"old", "new"} {
		_, err := s.engine.Publish(t.Context(), chainOf("stock", v+1, 1000, prefix))
		require.NoError(t, err)
	}
	page := s.see("definitions?workflow=stock&version=2")
	require.Less(t, len(page), 300<<10)
	text := textOf(t, page)
	require.Contains(t, text, "100 of 2,000 nodes are drawn")
	require.Contains(t, text, "1,999 added 1,999 removed 1 changed")
	require.Contains(t, text, "1 to 100 of 3,999. The next ones")
	require.Contains(t, page, `href="?changes=100&amp;version=2&amp;workflow=stock"`)
	require.NotContains(t, s.see("definitions?workflow=stock&version=2&told=once"), "told=once&amp;", "what was done is told once")
	last := textOf(t, s.see("definitions?workflow=stock&version=2&changes=3900"))
	require.Contains(t, last, "3,901 to 3,999 of 3,999. Those before")
	require.NotContains(t, last, "The next ones")
	around := s.see("definitions?workflow=stock&version=2&node=old7")
	require.Contains(t, textOf(t, around), "old6")
	require.Contains(t, around, `<input type="hidden" name="version" value="2">`)

	small := s.see("definitions?workflow=stock&version=1")
	require.Less(t, len(small), 300<<10)
	require.Contains(t, textOf(t, small), "100 of 1,000 nodes are drawn")
}

// The changes that a patch would make to a large definition are shown within bounds as well.
func TestALargePatchIsShownInPart(t *testing.T) {
	s := openShop(t)
	require.NoError(t, s.engine.Start(t.Context(), workflow.Run{ID: "long", Definition: chainOf("long", 1, 600, "t")}, nil))
	var ops []string
	for i := 1; i < 400; i++ {
		ops = append(ops, fmt.Sprintf(`{"op": "add", "path": "/nodes/t%d/timeout", "value": "%ds"}`, i, i))
	}
	query := url.Values{"do": {"patch"}, "target": {"0 long"}, "at": {"1"}, "value": {"[" + strings.Join(ops, ",") + "]"}}
	shown := s.serve(as("ann", api.All)).see("act?" + query.Encode())
	text := textOf(t, shown)
	require.Contains(t, text, "100 of 600 nodes are drawn")
	require.Contains(t, text, "399 changed")
	require.Contains(t, text, "1 to 100 of 399.")
	require.NotContains(t, text, "The next ones")
	require.NotContains(t, text, "Draw around")
}
