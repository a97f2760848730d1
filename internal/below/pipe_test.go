//go:build unix

package below

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nobody writes into the pipe, so that to open it would take for ever.
func TestAPipe(t *testing.T) {
	folder, _ := tree(t)
	path := filepath.Join(folder, "pipe.yaml")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := ReadFile(path, 100, folder)
	require.ErrorIs(t, err, ErrIrregular)
	require.ErrorContains(t, err, "it is a named pipe")
}
