package value_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/value"
)

// A text is cut between two characters, and only if it is too long.
func TestShorten(t *testing.T) {
	require.Equal(t, "", value.Shorten("", 0))
	require.Equal(t, "abc", value.Shorten("abc", 3))
	require.Equal(t, "ab...", value.Shorten("abc", 2))
	require.Equal(t, "a...", value.Shorten("aéb", 2), "half a character is none")
}
