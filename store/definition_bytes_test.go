package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// Compiled definitions are remembered up to so many bytes, however few they are.
func TestKnownDefinitionsAreBoundedInBytes(t *testing.T) {
	var ds definitions
	text := strings.Repeat("x", 2*maxKnown.Bytes)
	for i := range 100 {
		g := &compiled.Graph{Graph: &workflow.Graph{Hash: fmt.Sprint(i), JSON: text[:1<<20]}}
		require.Same(t, g, ds.addGraph(g))
		require.Same(t, g, ds.addGraph(&compiled.Graph{Graph: &workflow.Graph{Hash: g.Hash, JSON: g.JSON}}), "an equal one that came before")
		require.LessOrEqual(t, ds.graphs.Bytes(), maxKnown.Bytes)
		require.LessOrEqual(t, ds.graphs.Len(), maxKnown.Bytes>>20)
	}
	large := &compiled.Graph{Graph: &workflow.Graph{Hash: "large", JSON: text}}
	require.Same(t, large, ds.addGraph(large))
	require.Equal(t, 1, ds.graphs.Len())
}

// Some more definitions than are remembered, started in turn, are not all compiled again.
func TestDefinitionsInTurnAreRemembered(t *testing.T) {
	var ds definitions
	times := 0
	const many, passes = 1100, 5
	for i := range many * passes {
		hash := fmt.Sprint(i % many)
		if ds.graphOf(hash) == nil {
			times++
			ds.addGraph(&compiled.Graph{Graph: &workflow.Graph{Hash: hash, JSON: hash}})
		}
		ds.markStored(hash)
	}
	require.Less(t, times, many+many*(passes-1)/4)
	for i := range many {
		require.True(t, ds.isStored(fmt.Sprint(i)))
	}
}

// The hashes of stored definitions are bounded as well.
func TestStoredHashesAreBounded(t *testing.T) {
	var ds definitions
	for i := range maxStored.Entries + 100 {
		ds.markStored(fmt.Sprint(i))
	}
	require.Equal(t, maxStored.Entries, ds.stored.Len())
}
