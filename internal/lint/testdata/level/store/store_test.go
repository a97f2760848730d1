package store

import "testing"

func TestLong(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
}
