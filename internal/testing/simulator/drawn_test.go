package simulator

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness/drawn"
	"github.com/pawl-run/pawl/workflow"
)

// undrawn says what the generator leaves out of the format, and why.
var undrawn = map[string]string{
	"Definition.Groups":   "it is drawn, and spread over the transitions as the definition is compiled",
	"Mode graph":          "it is drawn, and left out as the definition is compiled",
	"On success":          "it is drawn, and left out as the definition is compiled",
	"MergeAs blob":        "an engine of the simulator has no folder of blobs; planning draws it",
	"Limits.CELCost":      "it is a limit of one evaluation, which tests of limits exceed",
	"Limits.JSONDepth":    "it is a limit of one value, which tests of limits exceed",
	"Limits.PayloadBytes": "it is a limit of one value, which tests of limits exceed",
	"Limits.RunBytes":     "runs of the simulator are small; tests of limits exceed it",
	"Limits.SignalBytes":  "runs of the simulator are small; tests of limits exceed it",
}

// TestEverythingIsDrawn: the definitions of few seeds have every field of the format and every value of every enumeration.
func TestEverythingIsDrawn(t *testing.T) {
	var defs []*workflow.Definition
	for seed := range uint64(80) {
		for _, g := range drawFamily(rand.New(rand.NewPCG(seed, 1)), "drawn") {
			defs = append(defs, g.Definition)
		}
	}
	require.Empty(t, drawn.Missing(defs, undrawn))
}
