package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/columns"
	"github.com/pawl-run/pawl/internal/diagram"
)

// Prose breaks between words and loses nothing; a line that goes on is further in. A command stays
// whole.
func TestWrapLine(t *testing.T) {
	require.Equal(t, []string{"  one two", "     three", "     four"}, columns.WrapLine("  one two three four", 11))
	require.Equal(t, []string{"  one two three four"}, columns.WrapLine("  one two three four", 0))
	require.Equal(t, []string{"  try: pawl vote order-42 approve yes"}, columns.WrapLine("  try: pawl vote order-42 approve yes", 11))
	for _, text := range []string{strings.Repeat("x", 200), strings.Repeat("注文 ", 70), "  " + strings.Repeat("word ", 40), "a " + strings.Repeat("注", 60), strings.Repeat(" ", 90)} {
		for width := 1; width < 100; width++ {
			parts := columns.WrapLine(text, width)
			require.Equal(t, strings.ReplaceAll(text, " ", ""), strings.ReplaceAll(strings.Join(parts, ""), " ", ""), "width %d", width)
			for _, part := range parts[:len(parts)-1] {
				require.LessOrEqual(t, diagram.CountColumns(part), max(width, 2))
			}
		}
	}
}
