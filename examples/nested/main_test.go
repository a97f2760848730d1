package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNested(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{t.TempDir()}, &stdout, t.Output()))
	require.Equal(t, `{
  "0": {
    "customer": "ann",
    "lines": [
      120,
      55
    ],
    "total": 175
  },
  "1": {
    "customer": "bob",
    "lines": [
      110
    ],
    "total": 110
  },
  "2": {
    "customer": "eve",
    "lines": [],
    "total": 0
  }
}
group orders in the run: 3 of 3 arrived
group lines in branch 0: 2 of 2 arrived
group lines in branch 1: 1 of 1 arrived
group lines in branch 2: 0 of 0 arrived
`, stdout.String())
}
