package pawl

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/workflow"
)

// A root run with very many messages to its children does not keep the others waiting.
func TestRootsTakeTurns(t *testing.T) {
	c := &childMessenger{queues: map[workflow.RunID]*childQueue{}}
	for i := range 1000 {
		c.enqueueMessage(workflow.RunID(fmt.Sprintf("many/%d.1", i)), childMessage{cancel: true})
	}
	c.enqueueMessage("few/1.1", childMessage{cancel: true})
	c.enqueueMessage("few/1.1/2.1", childMessage{cancel: true})
	var got []workflow.RunID
	for range 5 {
		child, _, ok := c.nextMessage()
		require.True(t, ok)
		got = append(got, child)
	}
	require.Equal(t, []workflow.RunID{"many/0.1", "few/1.1", "many/1.1", "few/1.1/2.1", "many/2.1"}, got)
}

// A message that waits gives way to a newer one of its kind. One that is under way
// does not: the newer one is delivered after it.
func TestAMessageUnderWayIsNotReplaced(t *testing.T) {
	c := &childMessenger{queues: map[workflow.RunID]*childQueue{}}
	begin, pause, resume := &actor.Child{}, &actor.Child{Paused: true}, &actor.Child{}
	c.enqueueMessage("a/1.1", childMessage{want: begin})
	for i, want := range []*actor.Child{begin, resume} {
		child, x, ok := c.nextMessage()
		require.True(t, ok)
		require.Same(t, want, x.want)
		if i == 0 {
			c.enqueueMessage("a/1.1", childMessage{want: pause})
			c.enqueueMessage("a/1.1", childMessage{want: resume})
		}
		c.messageDone(child, nil)
	}
	require.Empty(t, c.queues)
}

// A child whose parent is not there any more is not wanted.
func TestAnOrphanIsCancelled(t *testing.T) {
	e, err := Open(t.Context(), t.TempDir(), Options{})
	require.NoError(t, err)
	d := &workflow.Definition{Name: "w", Start: "a", Nodes: []workflow.Node{{ID: "a", Wait: &workflow.WaitSpec{Event: "e"}}}}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "orphan", Definition: d}, nil))
	require.NoError(t, e.messenger.askParent("orphan", workflow.Parent{Run: "gone", Token: 1, Attempt: 1}))
	out, err := e.Inspect(t.Context(), "orphan")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCancelled, out.Status)
	require.NoError(t, e.Close(t.Context()))
}

// A start that nobody has begun to deliver is dropped by the cancel that follows; one that is under way is not, but it begins
// nothing, and neither does anything below.
func TestACancelDropsAStart(t *testing.T) {
	c := &childMessenger{queues: map[workflow.RunID]*childQueue{}}
	begin, again := &actor.Child{}, &actor.Child{}
	for _, id := range []workflow.RunID{"a/1.1", "b/1.1"} {
		c.enqueueMessage(id, childMessage{want: begin})
	}
	child, x, ok := c.nextMessage()
	require.True(t, ok)
	require.Same(t, begin, x.want)
	for _, id := range []workflow.RunID{"a/1.1", "b/1.1"} {
		require.False(t, c.isUnwanted(id+"/2.1"))
		c.enqueueMessage(id, childMessage{cancel: true})
		for _, below := range []workflow.RunID{id, id + "/2.1", id + "/2.1/3.2"} {
			require.True(t, c.isUnwanted(below), below)
		}
		for _, other := range []workflow.RunID{id[:1], id[:1] + "/1.10", id[:1] + "/1", id[:1] + "/2.1/1.1"} {
			require.False(t, c.isUnwanted(other), other)
		}
	}
	c.enqueueMessage("b/1.1", childMessage{want: again}) // for a later attempt
	var got []childMessage
	for c.messageDone(child, nil); len(c.queues) > 0; c.messageDone(child, nil) {
		child, x, ok = c.nextMessage()
		require.True(t, ok)
		got = append(got, x)
	}
	require.Equal(t, []childMessage{{cancel: true}, {cancel: true}, {want: again}}, got)
	require.False(t, c.isUnwanted("a/1.1"))
	require.Zero(t, c.cancels.Load())
}
