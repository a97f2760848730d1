package diskuse_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/diskuse"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Callers share a measurement for 5 s, and none gets what another one can change.
func TestAMeterMeasuresOnceForMany(t *testing.T) {
	path := t.TempDir()
	e, err := pawl.Open(t.Context(), path, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
	require.NoError(t, err)
	for _, id := range []workflow.RunID{"a", "b"} {
		_, err = e.Run(t.Context(), workflow.Run{ID: id, Definition: define(t, "name: small\nstart: a\nnodes: [{id: a, task: work}]\n")}, nil)
		require.NoError(t, err)
	}
	require.NoError(t, e.Close(context.Background()))
	dir, err := store.Open(path, store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()

	var mu sync.Mutex
	now := time.Now()
	var m diskuse.Meter
	measure := func() []int64 { // runs of the groups
		uses, err := m.MeasureDisk(t.Context(), diskuse.Directory{Store: dir, Path: path, Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
		require.NoError(t, err)
		out := make([]int64, 0, len(uses))
		for _, u := range uses {
			out = append(out, u.Runs)
		}
		clear(uses)
		return out
	}
	require.Equal(t, []int64{2, 0}, measure())
	require.NoError(t, dir.Purge("a", ""))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { assert.Equal(t, []int64{2, 0}, measure()) })
	}
	all.Wait()
	now = now.Add(5 * time.Second)
	for range 8 {
		all.Go(func() { assert.Equal(t, []int64{1, 0}, measure()) })
	}
	all.Wait()
}
