package index

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// Names are taken for those of an engine exactly if it gives them.
func TestParseRunFile(t *testing.T) {
	for i := range 100 {
		name := FileName(workflow.RunID(fmt.Sprint("r", i)), uint64(i)<<55|uint64(i), Slot(1+i%2))
		f, ok := ParseRunFile(filepath.Base(filepath.Dir(name)), filepath.Base(name))
		require.True(t, ok, name)
		require.Equal(t, name, f.Name())
		for at := range filepath.Base(name) {
			wrong := []byte(filepath.Base(name))
			wrong[at] = "GX"[i%2]
			_, ok := ParseRunFile(filepath.Base(filepath.Dir(name)), string(wrong))
			require.False(t, ok, string(wrong))
		}
	}
	_, ok := ParseRunFile("ab", "")
	require.False(t, ok)
}
