package pawl

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

func digestedDefinition(nodes int) *workflow.Definition {
	yes := true
	d := &workflow.Definition{
		Name: "digested", Start: "n0", FailFast: &yes, Timeout: time.Hour, Signals: []string{"s"},
		State:  workflow.StateSpec{Schema: map[string]any{"type": "object"}, Initial: map[string]any{"a": []any{1.5, "x", true, nil, int8(3)}}},
		Groups: map[string]workflow.Synchronization{"g": {Merge: &workflow.Merge{Target: "state.x"}}},
	}
	for i := range nodes {
		d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("n", i)), Task: "t", Input: map[string]string{"x": "input.x"}})
	}
	return d
}

// TestDigestsTellChanges: whatever a caller changes in a definition between two starts, at
// any depth, makes it another one.
func TestDigestsTellChanges(t *testing.T) {
	seen := map[digest]string{}
	look := func(what string, d *workflow.Definition) {
		got, ok := digestOf(d)
		require.True(t, ok, what)
		require.Empty(t, seen[got], what)
		seen[got] = what
		again, _ := digestOf(d)
		require.Equal(t, got, again)
	}
	look("as it was", digestedDefinition(3))
	d := digestedDefinition(3)
	*d.FailFast = false
	look("behind a pointer", d)
	d = digestedDefinition(3)
	d.State.Initial["a"].([]any)[2] = false
	look("in a list of a map", d)
	d = digestedDefinition(3)
	d.State.Initial["a"].([]any)[4] = int64(3)
	look("of another type", d)
	d = digestedDefinition(3)
	d.Nodes[1].Input["x"] = "input.y"
	look("in a node", d)
	d = digestedDefinition(3)
	d.Nodes[0].ID, d.Nodes[0].Task = "n", "0t"
	look("across a border", d)
	d = digestedDefinition(3)
	d.Signals = []string{}
	look("empty in place of nothing", d)
	d.Signals = nil
	look("nothing", d)
}

// TestDigestsOfWhatIsNotJSON are not made: the value may have a method that makes its JSON.
func TestDigestsOfWhatIsNotJSON(t *testing.T) {
	endless := map[string]any{}
	endless["x"] = endless
	for _, v := range []any{time.Now(), struct{ X int }{1}, &struct{ X int }{1}, []string{"x"}, workflow.NodeID("x"), endless, make(chan int), func() {}} {
		d := digestedDefinition(1)
		d.State.Initial["b"] = v
		_, ok := digestOf(d)
		require.False(t, ok, "%T", v)
	}
}

// TestHashesAreMadeOnce: a definition that is started again and again is not written as
// JSON each time; equal ones are one; and a change is seen.
func TestHashesAreMadeOnce(t *testing.T) {
	k := &knownDefinitions{}
	d := digestedDefinition(100)
	want, err := d.Hash()
	require.NoError(t, err)
	for _, d := range []*workflow.Definition{d, d, digestedDefinition(100)} {
		got, err := k.hashOf(d)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Len(t, k.hashes, 1)
	slow := testing.AllocsPerRun(5, func() { _, _ = d.Hash() })
	quick := testing.AllocsPerRun(5, func() { _, _ = k.hashOf(d) })
	require.Less(t, quick, slow/4)
	d.Nodes[7].Task = "another"
	want, err = d.Hash()
	require.NoError(t, err)
	got, err := k.hashOf(d)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestDigestsAreBounded: an engine that is given another definition each time does not grow.
func TestDigestsAreBounded(t *testing.T) {
	k := &knownDefinitions{}
	for i := range maxDigests + 10 {
		_, err := k.hashOf(&workflow.Definition{Name: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	require.Len(t, k.hashes, 10)
}

func BenchmarkDigest(b *testing.B) {
	d := digestedDefinition(1000)
	b.Run("digest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = digestOf(d)
		}
	})
	b.Run("hash", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = d.Hash()
		}
	})
}
