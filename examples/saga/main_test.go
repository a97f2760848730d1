package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSaga(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{t.TempDir()}, &stdout, t.Output()))
	require.Equal(t, `order good
  reserve (attempt 1)
  charge (attempt 1): bank_busy: try again later
  charge (attempt 2): bank_busy: try again later
  charge (attempt 3)
  ship (attempt 1)
  => completed: on its way to 1 Main Street
order declined
  reserve (attempt 1)
  charge (attempt 1): card_declined: the card is stolen
  release, because: the card is stolen (attempt 1)
  => run "declined" failed: order_rejected at node "rejected" (t5): everything is undone
order lost
  reserve (attempt 1)
  charge (attempt 1): bank_busy: try again later
  charge (attempt 2): bank_busy: try again later
  charge (attempt 3)
  ship (attempt 1): no such address
  refund (attempt 1)
  release, because: no such address (attempt 1)
  => run "lost" failed: order_rejected at node "rejected" (t6): everything is undone
`, stdout.String())
}
