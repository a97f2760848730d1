package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestApproval(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{t.TempDir()}, &stdout, t.Output()))
	require.Equal(t, `purchase-1: a desk
  committee: Two of ann, bob and cid must agree.
  ann cannot vote twice
  cid is too late
  ann  yes the old one is broken
  bob  yes
  => approved by votes of the committee: desk bought
purchase-2: a yacht
  committee: Two of ann, bob and cid must agree.
  ann  no  there is no lake
  bob  yes it is on sale
  cid  no
  => rejected by votes of the committee: not bought
purchase-3: a lamp
  committee: Two of ann, bob and cid must agree.
  director: The committee has not decided. The director does.
  dora yes let there be light
  => approved by votes of the director: lamp bought
purchase-4: a sofa
  committee: Two of ann, bob and cid must agree.
  director: The committee has not decided. The director does.
  => rejected by timeout of the director: not bought
`, stdout.String())
}
