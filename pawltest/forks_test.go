package pawltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// Every run that a scenario leaves can be forked as of every record after which it had not
// ended, decades later: the forks are sound, and they replay. A quick run forks those of one scenario
// in 48, the gate those of one in 8, others each day.
func TestForksOfScenarios(t *testing.T) {
	if harness.Raced {
		t.Skip("it drives one engine from one goroutine, which takes a minute with the race detector")
	}
	made := 0
	for _, folder := range folders(t) {
		scenarios, err := Load(folder)
		require.NoError(t, err)
		for _, s := range harness.SampleOfDay(t, harness.Figure(48, 8, 1), scenarios) {
			r := Play(t, s, Options{inspect: func(folder string) error {
				n, err := forkAll(t.Context(), folder)
				made += n
				return err
			}})
			require.True(t, r.Passed, "%s:%d: %v", s.File, s.Line, r)
		}
	}
	require.Positive(t, made)
	t.Logf("%d forks", made)
}

// forkAll forks the runs in the directory that the last life of a play has left, as of every
// record, and returns how many forks it has made.
func forkAll(ctx context.Context, folder string) (made int, err error) {
	lives, err := os.ReadDir(folder)
	if err != nil || len(lives) == 0 {
		return 0, err
	}
	dir := filepath.Join(folder, lives[0].Name()) // the others are gone
	e, err := pawl.Open(ctx, dir, pawl.Options{Logger: slog.New(slog.DiscardHandler), Durability: pawl.ProcessCrash})
	if err != nil {
		return 0, err
	}
	var runs []pawl.RunSummary
	for r, err := range e.Runs(ctx, pawl.RunFilter{}) {
		if err != nil {
			return 0, errors.Join(err, e.Close(ctx))
		}
		runs = append(runs, r)
	}
	for i, r := range runs {
		last := r.Seq
		if r.Status.Final() {
			last--
		}
		for at := int64(1); at <= last && err == nil; at++ {
			err = e.Fork(ctx, r.Run, workflow.RunID(fmt.Sprintf("fork %d of %d", at, i)), pawl.ForkOptions{At: at})
			made++
		}
	}
	if err := errors.Join(err, e.Close(ctx)); err != nil {
		return made, err
	}
	report, err := rescue.Verify(ctx, dir, rescue.Options{})
	if err == nil && len(report.Findings) > 0 {
		err = fmt.Errorf("the forks are not sound: %v", report.Findings)
	}
	if err == nil {
		_, err = replays.Check(dir)
	}
	return made, err
}
