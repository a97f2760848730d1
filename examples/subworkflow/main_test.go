package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSubworkflow(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{t.TempDir()}, &stdout, t.Output()))
	require.Equal(t, `[
  {
    "item": "lamp",
    "parcel": "lamp from shelf l"
  },
  {
    "backorder": "5 wanted, 3 there",
    "item": "vase"
  },
  {
    "item": "rug",
    "parcel": "rug from shelf r"
  }
]
order-1/2.1, a run of fulfil: completed
order-1/3.1, a run of fulfil: failed
  out_of_stock at node "pick" (t1): 5 wanted, 3 there
order-1/4.1, a run of fulfil: completed
`, stdout.String())
}
