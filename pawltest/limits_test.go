package pawltest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// Load reads regular files below the folder only, whatever a scenario or a link names, and tells each other one.
func TestFilesOfStrangers(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "d.yaml")
	require.NoError(t, os.WriteFile(outside, []byte("name: d\nstart: a\nnodes: [{id: a}]\n"), 0o600))
	folder := t.TempDir()
	up, err := filepath.Rel(folder, outside)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(outside, filepath.Join(folder, "out.yaml")))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "folder.d"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "long.yaml"), make([]byte, maxFile+1), 0o600))
	references := map[string]string{
		filepath.ToSlash(up): "it is outside of the folder",
		"out.yaml":           "it is outside of the folder",
		"folder.d":           "it is a folder and no regular file",
		"long.yaml":          "it is too long: it has more than 4194304 bytes",
	}
	for file, want := range references {
		path := filepath.Join(folder, "s.yml")
		require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "scenario: s\nfile: %s\nexpect: {}\n", file), 0o600))
		_, err := Load(path)
		require.ErrorContains(t, err, path+":1:1: file: "+file+": "+want)
	}
	_, err = Load(folder)
	require.ErrorContains(t, err, filepath.Join(folder, "out.yaml")+": it is outside of the folder")
	require.ErrorContains(t, err, filepath.Join(folder, "long.yaml")+": it is too long")
	var at *FileError
	require.ErrorAs(t, err, &at)
}

const forEver = `
scenario: for ever
definition: {name: d, start: a, nodes: [{id: a}, {id: b, wait: {for: 1s}}], transitions: [{from: a, to: b}, {from: b, to: a}]}
expect: {}
`

const manyBranches = `
scenario: many branches
definition:
  name: d
  start: a
  nodes: [{id: a}, {id: b, task: t}]
  transitions: [{from: a, to: b, spawnCount: %d}]
expect: {}
`

// A play that takes too long is an error, also where one message leads to very much.
func TestALimitOfTime(t *testing.T) {
	harness.InTurn(t, 4)
	for _, text := range []string{forEver, fmt.Sprintf(manyBranches, harness.Figure(20_000, 90_000, 90_000))} {
		r := Play(t, load(t, text), Options{Limit: 50 * time.Millisecond, Crash: true})
		require.False(t, r.Passed)
		require.Contains(t, r.Error, "does not come to an end within 50ms; if it needs longer, raise Options.Limit, or --limit of pawl test")
		require.Equal(t, 1, r.Plays)
	}
}

// The limit is one for all plays of a scenario, which has as many as commits, each with a crash after it.
func TestTheLimitIsOfAllPlays(t *testing.T) {
	s := load(t, `
scenario: many commits
definition:
  name: d
  start: a
  state: {initial: {n: 0}}
  nodes: [{id: a, task: t, output: {state.n: state.n + 1}}]
  transitions: [{from: a, to: a, condition: state.n < 500}]
expect: {nodes: {a: 500}}
`)
	r := Play(t, s, Options{Limit: 500 * time.Millisecond, Crash: true})
	require.Contains(t, r.Error, "within 500ms")
	require.Less(t, r.Plays, 500)
}
