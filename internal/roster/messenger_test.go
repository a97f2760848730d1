package roster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A root run with very many messages to its children does not keep the others waiting.
func TestRootsTakeTurns(t *testing.T) {
	c := NewMessenger(MessengerOptions{})
	for i := range 1000 {
		c.Enqueue(workflow.RunID(fmt.Sprintf("many/%d.1", i)), Message{Cancel: true})
	}
	c.Enqueue("few/1.1", Message{Cancel: true})
	c.Enqueue("few/1.1/2.1", Message{Cancel: true})
	var got []workflow.RunID
	for range 5 {
		child, _, ok := c.nextMessage()
		require.True(t, ok)
		got = append(got, child)
	}
	require.Equal(t, []workflow.RunID{"many/0.1", "few/1.1", "many/1.1", "few/1.1/2.1", "many/2.1"}, got)
}

// A message that waits gives way to a newer one of its kind. A message that is under way
// does not: the newer one is delivered after it.
func TestAMessageUnderWayIsNotReplaced(t *testing.T) {
	c := NewMessenger(MessengerOptions{})
	begin, pause, resume := &actor.Child{}, &actor.Child{Paused: true}, &actor.Child{}
	c.Enqueue("a/1.1", Message{Want: begin})
	for i, want := range []*actor.Child{begin, resume} {
		child, x, ok := c.nextMessage()
		require.True(t, ok)
		require.Same(t, want, x.Want)
		if i == 0 {
			c.Enqueue("a/1.1", Message{Want: pause})
			c.Enqueue("a/1.1", Message{Want: resume})
		}
		c.messageDone(child, nil)
	}
	require.Empty(t, c.queues)
}

// A start that nobody has begun to deliver is dropped by the cancel that follows; one that is under way is not, but it begins
// nothing, and neither does anything below.
func TestACancelDropsAStart(t *testing.T) {
	c := NewMessenger(MessengerOptions{})
	begin, again := &actor.Child{}, &actor.Child{}
	for _, id := range []workflow.RunID{"a/1.1", "b/1.1"} {
		c.Enqueue(id, Message{Want: begin})
	}
	child, x, ok := c.nextMessage()
	require.True(t, ok)
	require.Same(t, begin, x.Want)
	for _, id := range []workflow.RunID{"a/1.1", "b/1.1"} {
		require.False(t, c.IsUnwanted(id+"/2.1"))
		c.Enqueue(id, Message{Cancel: true})
		for _, below := range []workflow.RunID{id, id + "/2.1", id + "/2.1/3.2"} {
			require.True(t, c.IsUnwanted(below), below)
		}
		for _, other := range []workflow.RunID{id[:1], id[:1] + "/1.10", id[:1] + "/1", id[:1] + "/2.1/1.1"} {
			require.False(t, c.IsUnwanted(other), other)
		}
	}
	c.Enqueue("b/1.1", Message{Want: again}) // for a later attempt
	var got []Message
	for c.messageDone(child, nil); len(c.queues) > 0; c.messageDone(child, nil) {
		child, x, ok = c.nextMessage()
		require.True(t, ok)
		got = append(got, x)
	}
	require.Equal(t, []Message{{Cancel: true}, {Cancel: true}, {Want: again}}, got)
	require.False(t, c.IsUnwanted("a/1.1"))
	require.Zero(t, c.cancels.Load())
}

// family are runs whose rows are known; it notes which of them are asked, and for what.
type family struct {
	Runs

	heads map[workflow.RunID]store.Head
	asked []string
}

func (f *family) Head(id workflow.RunID) (store.Head, error) {
	h, ok := f.heads[id]
	if !ok {
		return h, store.ErrRunNotFound
	}
	return h, nil
}

func (f *family) Ask(id workflow.RunID, m state.Message) error {
	f.asked = append(f.asked, fmt.Sprintf("%s %T", id, m))
	return nil
}

// A run that asks below a root which has ended, before the runs between them have heard of that, has these cancelled first:
// none of them fails because its child was cancelled.
func TestCancelsComeFromTheTop(t *testing.T) {
	for name, c := range map[string]struct {
		between workflow.RunStatus // of the run whose child asks
		asked   []string
	}{
		"it lives":     {workflow.RunRunning, []string{"a/1.1 state.Cancel", "a/1.1/2.1 state.Cancel", "a/1.1/2.1/3.1 state.Cancel"}},
		"it is paused": {workflow.RunPaused, []string{"a/1.1 state.Cancel", "a/1.1/2.1 state.Cancel", "a/1.1/2.1/3.1 state.Cancel"}},
		"it has ended": {workflow.RunCancelled, []string{"a/1.1/2.1/3.1 state.Cancel"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &family{heads: map[workflow.RunID]store.Head{
				"a":             {Status: workflow.RunCancelled},
				"a/1.1":         {Status: workflow.RunRunning, Parent: "a"},
				"a/1.1/2.1":     {Status: c.between, Parent: "a/1.1"},
				"a/1.1/2.1/3.1": {Status: workflow.RunRunning, Parent: "a/1.1/2.1"},
			}}
			m := NewMessenger(MessengerOptions{Runs: f})
			require.NoError(t, m.deliverMessage("a/1.1/2.1/3.1", Message{Parent: workflow.Parent{Run: "a/1.1/2.1", Root: "a"}}))
			require.Equal(t, c.asked, f.asked)
		})
	}
}
