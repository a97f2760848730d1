package witness

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An end that is missing or another than it should be is noted, and no other.
func TestCheckEnds(t *testing.T) {
	found := func(s workflow.RunStatus) *Found { return &Found{Head: store.Head{Status: s}} }
	right := Snapshot{"a-1": found(workflow.RunCompleted), "a-2": found(workflow.RunFailed), "a-3": found(workflow.RunCompleted)}
	trial, err := NewTrial(filepath.Join(t.TempDir(), "trial"), right.Outcomes())
	require.NoError(t, err)
	trial.Was = right
	trial.CheckEnds(Jobs("a", nil, nil, nil))
	require.Empty(t, trial.Wrong)

	trial.Was = Snapshot{"a-1": right["a-1"], "a-2": found(workflow.RunCompleted)}
	trial.CheckEnds(Jobs("a", nil, nil, nil))
	require.Len(t, trial.Wrong, 2)
	require.Contains(t, trial.Wrong[0], "a-2 ended as")
	require.Contains(t, trial.Wrong[1], "a-3 ended as nothing")
}

// A trial on which nothing has happened yet is in order; a start that was
// acknowledged and is not there is not.
func TestLook(t *testing.T) {
	trial, err := NewTrial(t.TempDir(), nil)
	require.NoError(t, err)
	lines, ok := trial.Look(false)
	require.True(t, ok)
	require.Empty(t, lines)
	require.Empty(t, trial.Wrong)

	l, err := OpenLedger(filepath.Join(trial.Dir, "ledger"), 1)
	require.NoError(t, err)
	l.Write(Entry{What: Started, Run: "gone"})
	require.NoError(t, l.Close())
	trial.Lives++
	lines, ok = trial.Look(false)
	require.True(t, ok)
	require.Len(t, lines, 1)
	require.Equal(t, []string{"after life 1: started gone: the run is lost"}, trial.Wrong)
}

// Every definition is sound.
func TestDefinitions(t *testing.T) {
	files, err := testdata.ReadDir("testdata")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		d, err := Definition(strings.TrimSuffix(f.Name(), ".yaml"))
		require.NoError(t, err, f.Name())
		_, err = compiled.Compile(workflow.Bounds{}, d)
		require.NoError(t, err, f.Name())
	}
	_, err = Definition("none")
	require.Error(t, err)
}
