package pawl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A client repeats its Start across a deploy: the run that exists keeps its version, also
// after a restart, and whatever the new version would say to the input.
func TestStartWithoutAVersionIsRepeatedAcrossADeploy(t *testing.T) {
	const limits = "\nlimits: {payloadBytes: 8}\nversion: 2\n"
	ctx, dir := t.Context(), t.TempDir()
	o := pawl.Options{Executor: pawl.Handlers{"work": double}}
	run, input := workflow.Run{ID: "a", Workflow: "one"}, map[string]any{"n": 1_000_000}
	e, err := pawl.Open(ctx, dir, o)
	require.NoError(t, err)
	publish(t, e, define(t, oneTask))
	out, err := e.Run(ctx, run, input)
	require.NoError(t, err)
	publish(t, e, define(t, oneTask+limits))
	require.NoError(t, e.Start(ctx, run, input))
	require.NoError(t, e.Close(ctx))

	e = open(t, dir, o)
	require.NoError(t, e.Start(ctx, run, input))
	again, err := e.Run(ctx, run, input)
	require.NoError(t, err)
	require.Equal(t, out, again)
	version := run
	version.Version = 1
	require.NoError(t, e.Start(ctx, version, input))

	require.ErrorContains(t, e.Start(ctx, run, map[string]any{"n": 2}), `run "a" was started with another input`)
	version.Version = 2
	require.ErrorIs(t, e.Start(ctx, version, map[string]any{"n": 2}), pawl.ErrRunExists, "a version that is named is meant")
	publish(t, e, define(t, "name: two\n"+oneTask[len("\nname: one\n"):]))
	run.Workflow = "two"
	require.ErrorContains(t, e.Start(ctx, run, input), `run "a" executes one version 1, another definition`)
}

// A run that was given its definition executes none of the published versions.
func TestStartByNameOfARunThatWasGivenItsDefinition(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	publish(t, e, define(t, oneTask+"version: 2\n"))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, nil))
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "a", Workflow: "one"}, nil), pawl.ErrRunExists)
}

func TestOpenWantsAFolderOfItsOwn(t *testing.T) {
	_, err := pawl.Open(t.Context(), "", pawl.Options{})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.ErrorContains(t, err, "the path of the engine directory is empty")
	_, err = pawl.Open(t.Context(), ".", pawl.Options{})
	require.ErrorIs(t, err, pawl.ErrForeign)
	require.NoFileExists(t, "LOCK")
}
