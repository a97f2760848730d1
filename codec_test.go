package pawl_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

func testCodec(t testing.TB, ids ...string) *aesgcm.Codec {
	t.Helper()
	var keys []aesgcm.Key
	for _, id := range ids {
		keys = append(keys, aesgcm.Key{ID: id, Secret: bytes.Repeat([]byte(id)[:1], aesgcm.KeySize)})
	}
	c, err := aesgcm.New(keys[0], keys[1:]...)
	require.NoError(t, err)
	return c
}

// classified is part of every value in these tests, and of nothing else.
const classified = "TOP-SECRET"

// kept is a definition with a value of every kind.
const kept = `
name: kept
start: work
state: {initial: {note: "TOP-SECRET in the state"}}
nodes:
  - {id: work, task: work, input: {card: input.card, text: "'TOP-SECRET in the definition'"}, output: {state.card: result.card, state.large: result.large}}
  - {id: fail, task: fail, input: {card: input.card}, retry: {exhausted: park}}
  - {id: wait, wait: {event: paid}, output: {state.paid: result}}
  - {id: gate, approval: {messageExpr: "'Pay ' + state.card + '?'"}, input: {card: state.card}}
transitions:
  - {from: work, to: fail}
  - {from: fail, to: wait}
  - {from: wait, to: gate}
output: {mapping: {card: state.card, paid: state.paid}}
`

func secret(of string) string { return classified + " " + of }

// keptHandlers say all that a task can say, large and small.
var keptHandlers = pawl.Handlers{
	"work": func(ctx context.Context, task pawl.Task) (any, error) {
		ref, err := task.Put(ctx, strings.NewReader(strings.Repeat(secret("in a blob, "), 5_000)), "text/plain")
		if err != nil {
			return nil, err
		}
		if err := task.Heartbeat(ctx, secret("in a heartbeat")); err != nil {
			return nil, err
		}
		if _, err := task.Once(ctx, "once", func(context.Context) (any, error) { return secret("in an outcome"), nil }); err != nil {
			return nil, err
		}
		return pawl.Result{
			Output:    map[string]any{"card": secret("in a result"), "large": strings.Repeat(secret("in a spill, "), 30_000), "file": ref.Value()},
			Metadata:  map[string]any{"agent": secret("in metadata")},
			Artifacts: []pawl.Artifact{{Name: secret("in the name of an artifact"), Blob: ref}},
		}, nil
	},
	"fail": func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "refused", Message: secret("in an error")}
	},
}

// driveToGate starts a run and takes it to where it waits for an approval.
func driveToGate(t *testing.T, e *pawl.Engine, id workflow.RunID) {
	t.Helper()
	ctx := pawl.As(t.Context(), "ann")
	require.NoError(t, e.Start(ctx, workflow.Run{ID: id, Definition: define(t, kept)}, map[string]any{"card": secret("in the input")}))
	awaitEvent(t, e, id, workflow.EventTaskParked)
	for l, err := range e.DeadLetters(ctx, pawl.DeadLetterFilter{Code: "refused"}) {
		require.NoError(t, err)
		assert.Equal(t, secret("in an error"), l.Failure.Message)
		assert.Equal(t, map[string]any{"card": secret("in the input")}, l.Input)
	}
	require.NoError(t, e.Skip(ctx, pawl.Target{Run: id, Node: "fail"}, secret("in what an operator gives")))
	require.NoError(t, e.Signal(ctx, id, workflow.Signal{Name: "other", Payload: secret("in a signal that is kept"), Early: true}))
	require.NoError(t, e.Signal(ctx, id, workflow.Signal{Name: "paid", Payload: secret("in a signal")}))
	awaitEvent(t, e, id, workflow.EventApprovalRequested)
	for a, err := range e.Approvals(ctx, pawl.ApprovalFilter{}) {
		require.NoError(t, err)
		assert.Equal(t, "Pay "+secret("in a result")+"?", a.Message)
		assert.Equal(t, map[string]any{"card": secret("in a result")}, a.Input)
	}
}

// findClassified fails if a file in a directory has any of the secret, as it is or in base64.
func findClassified(t *testing.T, dir string) {
	t.Helper()
	var forbidden [][]byte
	for pad := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", pad) + classified))
		forbidden = append(forbidden, []byte(text[4:len(text)-4]))
	}
	forbidden = append(forbidden, []byte(classified), []byte(strings.ToLower(classified)))
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(name)
		for _, f := range forbidden {
			require.Falsef(t, bytes.Contains(data, f), "%s holds %q", name, f)
		}
		return err
	}))
	require.Positive(t, files)
}

// readAll reads everything of a run back.
func readAll(t *testing.T, e *pawl.Engine, id workflow.RunID) string {
	t.Helper()
	var text strings.Builder
	for r, err := range e.Journal(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		fmt.Fprintln(&text, r.Message, r.Decisions)
	}
	for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		fmt.Fprintln(&text, ev.Type, ev.Data)
	}
	return text.String()
}

// With a codec no value is on the disk in plain text: while the engine runs, after it was
// killed, once it is closed, in a backup, and after a purge; and all of it can be read.
func TestCodecHidesValues(t *testing.T) {
	harness.InTurn(t, 4)
	if runtime.GOOS == "windows" {
		t.Skip("cp copies the directory behind the back of the engine")
	}
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	o := pawl.Options{Codec: testCodec(t, "k1"), Executor: keptHandlers, IdleAfter: time.Hour}
	e := open(t, dir, o)
	driveToGate(t, e, "r")
	driveToGate(t, e, "s")
	_, err := e.Backup(t.Context(), filepath.Join(root, "backup"))
	require.NoError(t, err)
	findClassified(t, filepath.Join(root, "backup"))
	// A kill would leave this. (This process may not open pawl.db itself.)
	require.NoError(t, exec.CommandContext(t.Context(), "cp", "-r", dir, filepath.Join(root, "killed")).Run())
	findClassified(t, filepath.Join(root, "killed"))

	gate := pawl.Target{Run: "r", Node: "gate"}
	require.NoError(t, e.Vote(t.Context(), gate, workflow.Ballot{By: "bob", Approved: true, Comment: secret("in a comment"), Data: secret("in a vote")}))
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"card": secret("in a result"), "paid": map[string]any{"cause": "event", "event": "paid", "payload": secret("in a signal")}}, out.Output)
	require.Len(t, out.Artifacts, 1)
	content, err := e.OpenArtifact(t.Context(), out.Artifacts[0])
	require.NoError(t, err)
	read, err := io.ReadAll(content)
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat(secret("in a blob, "), 5_000), string(read))
	require.NoError(t, content.Close())
	require.NoError(t, e.Cancel(t.Context(), "s", secret("in a reason")))
	_, err = e.Wait(t.Context(), "s")
	require.NoError(t, err)
	all := readAll(t, e, "r") + readAll(t, e, "s")
	for _, of := range []string{"the input", "a result", "a spill", "metadata", "a heartbeat", "the name of an artifact", "an error", "what an operator gives", "a signal", "a signal that is kept", "a comment", "a vote", "a reason", "the definition"} {
		assert.True(t, strings.Contains(all, secret("in "+of)), of)
	}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, kept)}, map[string]any{"card": secret("in the input")}), "the same start again")
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, kept)}, map[string]any{}), pawl.ErrRunExists)
	require.NoError(t, e.Close(t.Context()))
	findClassified(t, dir)
	verifiedSound(t, dir, o.Codec)

	for _, copied := range []string{"killed", "backup"} {
		e := open(t, filepath.Join(root, copied), o)
		gate := pawl.Target{Run: "r", Node: "gate"}
		require.NoError(t, e.Vote(t.Context(), gate, workflow.Ballot{By: "bob", Approved: true}))
		again, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		assert.Equal(t, out.Output, again.Output, copied)
		require.NoError(t, e.Close(t.Context()))
		verifiedSound(t, filepath.Join(root, copied), o.Codec)
	}

	e = open(t, dir, o)
	assert.True(t, all == readAll(t, e, "r")+readAll(t, e, "s"))
	require.NoError(t, e.Purge(t.Context(), "r"))
	findClassified(t, filepath.Join(dir, "runs"))
	require.NoError(t, e.Close(t.Context()))
	findClassified(t, dir)
}

func verifiedSound(t *testing.T, dir string, c pawl.Codec) {
	t.Helper()
	report, err := rescue.Verify(t.Context(), dir, rescue.Options{Codec: c})
	require.NoError(t, err)
	assert.Zero(t, report.Damage, "%v", report.Findings)
	assert.Positive(t, report.Records)
	for rec, err := range replay.All(replay.Options{Codec: c}, dir) {
		require.NoError(t, err)
		again, err := replay.Check(rec)
		require.NoError(t, err)
		assert.Nil(t, again.Difference)
	}
}

// Without the right key nothing opens and nothing changes; with a new key before the old
// one both are read, and a repair puts everything under the new one.
func TestCodecKeys(t *testing.T) {
	harness.InTurn(t, 4)
	root := t.TempDir()
	dir, repaired := filepath.Join(root, "data"), filepath.Join(root, "repaired")
	first := pawl.Options{Codec: testCodec(t, "k1"), Executor: keptHandlers}
	e := open(t, dir, first)
	driveToGate(t, e, "r")
	require.NoError(t, e.Close(t.Context()))
	for name, c := range map[string]pawl.Codec{"none": nil, "another": testCodec(t, "x2")} {
		before := contentOf(t, dir)
		_, err := pawl.Open(t.Context(), dir, pawl.Options{Codec: c})
		var sealed *pawl.SealedError
		require.ErrorAs(t, err, &sealed, name)
		assert.Equal(t, "k1", sealed.KeyID)
		require.ErrorIs(t, err, pawl.ErrSealed)
		_, err = rescue.Repair(t.Context(), dir, repaired, rescue.Options{Codec: c})
		require.ErrorIs(t, err, pawl.ErrSealed, name)
		require.NoDirExists(t, repaired)
		report, err := rescue.Verify(t.Context(), dir, rescue.Options{Codec: c})
		require.NoError(t, err)
		assert.Zero(t, report.Damage, "%v", report.Findings)
		assert.Contains(t, fmt.Sprint(report.Findings), `sealed with the key "k1"`)
		assert.True(t, before == contentOf(t, dir), name)
	}

	both := pawl.Options{Codec: testCodec(t, "x2", "k1"), Executor: keptHandlers}
	e = open(t, dir, both)
	gate := pawl.Target{Run: "r", Node: "gate"}
	require.NoError(t, e.Vote(t.Context(), gate, workflow.Ballot{By: "bob", Approved: true}))
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	all := readAll(t, e, "r")
	require.NoError(t, e.Close(t.Context()))
	_, err = pawl.Open(t.Context(), dir, first)
	require.ErrorIs(t, err, pawl.ErrSealed, "the mark is under the new key")

	report, err := rescue.Repair(t.Context(), dir, repaired, rescue.Options{Codec: both.Codec})
	require.NoError(t, err)
	assert.Zero(t, report.Damage, "%v", report.Findings)
	findClassified(t, repaired)
	e = open(t, repaired, pawl.Options{Codec: testCodec(t, "x2")})
	again, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, out, again)
	assert.True(t, all == readAll(t, e, "r"))
	content, err := e.OpenArtifact(t.Context(), again.Artifacts[0])
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, content)
	require.NoError(t, err)
	require.NoError(t, content.Close())
}

// contentOf returns the names and the content of all files in a directory, but for the log.
func contentOf(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, "-wal") {
			return err
		}
		data, err := os.ReadFile(name)
		fmt.Fprintf(&text, "%s\x00%s\x00", name, data)
		return err
	}))
	return text.String()
}

// A repair without the key refuses also if all that tells of sealed values is one file, which is damaged: with the
// key there is something left of it.
func TestRepairOfADamagedFileNeedsTheKey(t *testing.T) {
	root := t.TempDir()
	dir, repaired := filepath.Join(root, "data"), filepath.Join(root, "repaired")
	c := testCodec(t, "k1")
	e := open(t, dir, pawl.Options{Codec: c, Executor: keptHandlers})
	driveToGate(t, e, "r")
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, os.Remove(filepath.Join(dir, "pawl.db")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "blobs")))
	files, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*.db"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	data[len(data)/4] ^= 4
	require.NoError(t, os.WriteFile(files[0], data, 0o600))

	for name, without := range map[string]pawl.Codec{"none": nil, "another": testCodec(t, "x2")} {
		_, err = rescue.Repair(t.Context(), dir, repaired, rescue.Options{Codec: without})
		var sealed *pawl.SealedError
		require.ErrorAs(t, err, &sealed, name)
		assert.Equal(t, "k1", sealed.KeyID)
		assert.Contains(t, sealed.Place, filepath.Base(files[0]))
		require.NoDirExists(t, repaired)
	}
	report, err := rescue.Repair(t.Context(), dir, repaired, rescue.Options{Codec: c})
	require.NoError(t, err)
	assert.Equal(t, 1, report.Runs, "%v %d", report.Findings, len(data))
	assert.Positive(t, report.Damage)
}

// A store of the host's own gets the content of blobs plain, named by its hash, with a codec as without; the
// references to it are encrypted in the directory. In a folder with a codec of its own it is encrypted, under the same name.
func TestCodecAndBlobsElsewhere(t *testing.T) {
	content := secret("in a blob")
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	c := testCodec(t, "k1")
	for codecOf, hidden := range map[pawl.Codec]bool{nil: false, c: true} {
		root := t.TempDir()
		dir, elsewhere := filepath.Join(root, "data"), filepath.Join(root, "elsewhere")
		files, err := blob.OpenFiles(elsewhere, blob.Options{Codec: codecOf})
		require.NoError(t, err)
		e := open(t, dir, pawl.Options{Codec: c, Blobs: files})
		ref, err := e.PutBlob(t.Context(), strings.NewReader(content), "text/plain")
		require.NoError(t, err)
		assert.Equal(t, "sha256:"+name, ref.Hash, "it tells who guesses the content")
		def := define(t, "name: d\nstart: a\nnodes: [{id: a, wait: {event: paid}}]")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, map[string]any{"file": ref.Value(), "text": content}))
		_, err = e.Backup(t.Context(), filepath.Join(root, "backup"))
		require.NoError(t, err)
		require.NoError(t, e.Close(t.Context()))
		findClassified(t, dir)
		findClassified(t, filepath.Join(root, "backup"))

		stored, err := os.ReadFile(filepath.Join(elsewhere, name[:2], name[2:]))
		require.NoError(t, err, "it is named by the hash of the plain content")
		assert.Equal(t, !hidden, string(stored) == content)
		assert.Equal(t, hidden, !bytes.Contains(stored, []byte(classified)))
		for _, folder := range []string{dir, filepath.Join(root, "backup")} {
			found, err := filepath.Glob(filepath.Join(folder, "blobs", "*", "*"))
			require.NoError(t, err)
			require.Empty(t, found, "neither it nor a copy is in the directory")
		}
		require.NoError(t, files.Close())
	}
}
