package compiled_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// A compiled definition spells out what it left to the defaults; its own text
// and hash are those of what was written.
func TestCompiledDefaults(t *testing.T) {
	const text = `
name: w
start: a
nodes:
  - {id: a}
  - {id: b, task: t, retry: {}}
  - {id: ok, approval: {message: m}}
transitions:
  - {from: a, to: b, spawnCount: 2, siblingGroup: g}
  - {from: b, to: ok, synchronization: {siblingGroup: g}}
  - {from: a, to: b, spawnCount: 2, siblingGroup: h, priority: 1}
  - {id: any, from: b, to: ok, synchronization: {siblingGroup: h, strategy: any}}
`
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	hash, err := d.Hash()
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)

	sync := g.Groups["g"].Sync
	require.Equal(t, workflow.RemainingCancel, sync.Remaining)
	require.Equal(t, workflow.TimeoutFail, sync.OnTimeout)
	require.Equal(t, workflow.ShortfallFail, sync.OnShortfall)
	require.Equal(t, workflow.TolerateFailures(0), sync.Tolerate, "all tolerates none")
	require.Zero(t, g.Groups["h"].Sync.Tolerate, "a quorum is decided by its shortfall")
	require.Equal(t, workflow.ApprovalSpec{Message: "m", Quorum: 1, RejectQuorum: 1, OnTimeout: workflow.ApprovalFail}, *g.Node("ok").Approval)
	require.Equal(t, 1, g.Node("b").Retry.MaxAttempts)
	require.True(t, g.FailFast)

	require.Equal(t, hash, g.Hash)
	require.Empty(t, g.Transition("any").Synchronization.Remaining)
	require.Zero(t, g.Node("ok").Node.Approval.Quorum)
	after, err := g.Definition.Hash()
	require.NoError(t, err)
	require.Equal(t, hash, after)
}
