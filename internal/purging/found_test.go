package purging_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/purging"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A quiet engine has no actors, messages or readers.
type quiet struct{}

func (quiet) Reserve(context.Context, workflow.RunID) (func(), error) { return func() {}, nil }
func (quiet) TryReserve(workflow.RunID) func()                        { return func() {} }
func (quiet) ConcernedRoots(map[workflow.RunID]bool) (map[workflow.RunID]bool, <-chan struct{}) {
	return nil, nil
}
func (quiet) TellPurge(*store.Head, time.Time) {}
func (quiet) LoseAll()                         {}
func (quiet) Exclude(purge func() error) error { return purge() }

// A late directory has found the run "other" before it was purged and began anew.
type late struct{ *store.Dir }

func (d late) Ended(newest bool) iter.Seq2[store.EndedRun, error] {
	return func(yield func(store.EndedRun, error) bool) {
		for run, err := range d.Dir.Ended(newest) {
			if run.Run == "other" {
				run.At = run.At.Add(-time.Minute)
			}
			if !yield(run, err) {
				return
			}
		}
	}
}

// A run that is another one than was found, by the time its row is deleted, stays, and neither counts nor is logged as purged.
func TestWhatStaysDoesNotCount(t *testing.T) {
	path := t.TempDir()
	e, err := pawl.Open(t.Context(), path, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
	require.NoError(t, err)
	d, err := workflow.ParseYAML([]byte("name: small\nstart: a\nnodes: [{id: a, task: work}]\n"))
	require.NoError(t, err)
	for _, id := range []workflow.RunID{"other", "same"} {
		_, err = e.Run(t.Context(), workflow.Run{ID: id, Definition: d}, nil)
		require.NoError(t, err)
	}
	require.NoError(t, e.Close(context.Background()))
	dir, err := store.Open(path, store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	var log bytes.Buffer
	p := purging.New(purging.Options{
		Dir: late{dir}, Roster: quiet{}, Messages: quiet{}, Readers: quiet{}, Now: time.Now, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Until: func(_ context.Context, commit func() error) error { return commit() }, Outcomes: quiet{}, Gone: func(workflow.RunID) {},
	})
	n, err := p.PurgeEnded(t.Context(), state.Act{By: "ann"}, []purging.Rule{{Before: time.Now().Add(time.Hour)}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Contains(t, log.String(), "run=same")
	require.NotContains(t, log.String(), "run=other")
	_, err = dir.Head("other")
	require.NoError(t, err)
	_, err = dir.Head("same")
	require.ErrorIs(t, err, store.ErrRunNotFound)
}
