package inspector_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The grid of a definition begins with the newest run, which is in sight however narrow the window is.
func TestTheGridBeginsWithTheNewestRun(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	s.startOrder("order-2")
	_, grid, _ := strings.Cut(s.see("definitions?workflow=order"), `class="grid"`)
	older, newer := strings.Index(grid, "order-1: running"), strings.Index(grid, "order-2: running")
	require.Positive(t, newer)
	require.Less(t, newer, older)
	require.Contains(t, textOf(t, grid), "Newest on the left.")
}

// When something is due is told in words that fit both what is to come and what is over.
func TestWhenSomethingIsDue(t *testing.T) {
	s := openShop(t)
	s.start("ask", "name: ask\nstart: a\nnodes: [{id: a, approval: {message: ok}, timeout: 1h}]", nil)
	require.Regexp(t, `waits for .* due in (59 min|1 h)`, textOf(t, s.see("run/ask")))
}
