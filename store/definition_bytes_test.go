package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// Compiled definitions are remembered up to so many bytes, however few they are.
func TestKnownDefinitionsAreBoundedInBytes(t *testing.T) {
	var ds definitions
	text := strings.Repeat("x", 2*maxKnownBytes)
	for i := range 100 {
		g := &workflow.Graph{Hash: fmt.Sprint(i), JSON: text[:1<<20]}
		require.Same(t, g, ds.addGraph(g))
		require.Same(t, g, ds.addGraph(&workflow.Graph{Hash: g.Hash, JSON: g.JSON}), "an equal one that came before")
		require.LessOrEqual(t, ds.bytes, maxKnownBytes)
		require.LessOrEqual(t, len(ds.graphs), maxKnownBytes>>20)
	}
	large := &workflow.Graph{Hash: "large", JSON: text}
	require.Same(t, large, ds.addGraph(large))
	require.Len(t, ds.graphs, 1)
}
