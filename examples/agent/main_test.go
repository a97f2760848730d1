package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgent(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{t.TempDir()}, &stdout, t.Output()))
	require.Equal(t, `goal: coffee
  round 1: coffee
  round 2: roasting, grinding, brewing
  round 3: espresso, water
  answer: Coffee is roasted, ground and brewed. Beans pop at 196 degrees. Fine for espresso, coarse for a press. `+
		`Water near 93 degrees, for minutes. Espresso takes nine bars and half a minute. Soft water tastes best.
goal: 1
  round 1: 1
  round 2: 2
  round 3: 3
  round 4: 4
  answer: none, there is always more to find out
`, stdout.String())
}
