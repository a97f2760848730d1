//go:build unix

package blob

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func makeFIFO(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) }
