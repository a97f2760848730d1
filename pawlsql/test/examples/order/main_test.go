package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the shop.
func TestMain(m *testing.M) {
	if os.Getenv(shopDir) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestOrder(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), &stdout))
	require.Equal(t, `order-1: the shop was killed before the commit
order-2: the shop was killed after the commit
order-3: the shop was killed while the card is charged
order-2: a book, charged 1 times
order-3: a book, charged 1 times
`, stdout.String())
}
