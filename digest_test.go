package pawl

import (
	"encoding/json"
	"fmt"
	"sync"
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

// A definitionShelf compiles definitions, and keeps them by their hashes.
type definitionShelf struct {
	mu       sync.Mutex
	graphs   map[string]*workflow.Graph
	compiled int
}

func (s *definitionShelf) known(hash string) *workflow.Graph {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.graphs[hash]
}

func (s *definitionShelf) compile(d *workflow.Definition) (*workflow.Graph, error) {
	g, err := workflow.Compile(d)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compiled++
	s.graphs[g.Hash] = g
	return g, nil
}

// TestDefinitionsAreCompiledOnce: of callers at once, and of those that come again, with a
// definition or an equal one; and a change is seen.
func TestDefinitionsAreCompiledOnce(t *testing.T) {
	k, shelf := &knownDefinitions{}, &definitionShelf{graphs: map[string]*workflow.Graph{}}
	chain := func(task string) *workflow.Definition {
		d := &workflow.Definition{Name: "chain", Start: "a"}
		d.Nodes = []workflow.Node{{ID: "a", Task: task}}
		return d
	}
	compile := func(d *workflow.Definition) *workflow.Graph {
		g, err := k.compileOnce(d, shelf.known, shelf.compile)
		require.NoError(t, err)
		return g
	}
	var all sync.WaitGroup
	graphs := make([]*workflow.Graph, 16)
	for i := range graphs {
		all.Go(func() { graphs[i] = compile(chain("t")) })
	}
	all.Wait()
	d := chain("t")
	for _, g := range append(graphs, compile(d), compile(d)) {
		require.Same(t, graphs[0], g)
	}
	require.Equal(t, 1, shelf.compiled)
	want, err := d.Hash()
	require.NoError(t, err)
	require.Equal(t, want, graphs[0].Hash)

	d.Nodes[0].Task = "another"
	require.NotEqual(t, want, compile(d).Hash)
	require.Equal(t, 2, shelf.compiled)

	d.State.Initial = map[string]any{"of": json.Number("1")} // no digest is made of it
	require.Same(t, compile(d), compile(d))
	require.Equal(t, 3, shelf.compiled)

	for range 2 { // one that is refused is refused again
		_, err = k.compileOnce(chain(""), shelf.known, func(*workflow.Definition) (*workflow.Graph, error) { return nil, errDeep })
		require.ErrorIs(t, err, errDeep)
	}
	require.Empty(t, k.turns)
}

// TestKnownDefinitionsAreNotWritten: one that is started again and again is not written as
// JSON each time.
func TestKnownDefinitionsAreNotWritten(t *testing.T) {
	k, d := &knownDefinitions{}, digestedDefinition(100)
	g := &workflow.Graph{Hash: "of it"}
	compile := func(*workflow.Definition) (*workflow.Graph, error) { return g, nil }
	known := func(hash string) *workflow.Graph {
		if hash == g.Hash {
			return g
		}
		return nil
	}
	got, err := k.compileOnce(d, known, compile)
	require.NoError(t, err)
	require.Same(t, g, got)
	slow := testing.AllocsPerRun(5, func() { _, _ = d.Hash() })
	quick := testing.AllocsPerRun(5, func() { _, _ = k.compileOnce(d, known, nil) })
	require.Less(t, quick, slow/4)
}

// TestDigestsAreBounded: an engine that is given another definition each time does not grow.
func TestDigestsAreBounded(t *testing.T) {
	k := &knownDefinitions{}
	for i := range maxDigests.Entries + 10 {
		k.rememberHash(digest{byte(i), byte(i >> 8)}, "hash")
	}
	require.Equal(t, maxDigests.Entries, k.hashes.Len())
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
