package workflow

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func readFile(t testing.TB, path string) string {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}
