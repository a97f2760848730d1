package blobtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/blobtest"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// A folder passes what every store must pass.
func TestFiles(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) func() blob.Store {
		dir := harness.Workspace(t)
		return func() blob.Store {
			files, err := blob.OpenFiles(dir, blob.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, files.Close()) })
			return files
		}
	})
}
