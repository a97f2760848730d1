package pawl_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/serving"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// Large values go by reference: through results, mappings, merges and children,
// and every task that asks for them reads the bytes that were put.
func TestBlobs(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	read := 0
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
		"inline": func(context.Context, pawl.Task) (any, error) { return string(large), nil },
		"put": func(ctx context.Context, task pawl.Task) (any, error) {
			ref, err := task.Put(ctx, bytes.NewReader(large), "text/plain")
			return map[string]any{"file": ref, "branch": task.Branch.Index}, err
		},
		"read": func(ctx context.Context, task pawl.Task) (any, error) {
			var in struct{ File blob.Ref }
			if err := task.Bind(&in); err != nil {
				return nil, err
			}
			r, err := task.Open(ctx, in.File)
			if err != nil {
				return nil, err
			}
			got, err := io.ReadAll(r)
			if err = errors.Join(err, r.Close()); err == nil && !bytes.Equal(got, large) {
				err = errors.New("other bytes")
			}
			read++
			return in.File.Size, err
		},
	}})
	out, err := e.Run(t.Context(), workflow.Run{ID: "inline", Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, task: inline}]\n")}, nil)
	require.NoError(t, err)
	require.Equal(t, workflow.CodeResultTooLarge, out.Failure.Code)

	publish(t, e, define(t, `
name: child
start: r
nodes: [{id: r, task: read, input: {file: input.file}, output: {output.size: result}}]
`))
	out, err = e.Run(t.Context(), workflow.Run{ID: "w", Definition: define(t, `
name: w
start: s
nodes:
  - {id: s}
  - {id: put, task: put}
  - {id: sub, subworkflow: {name: child}, input: {file: "state.files[1].file"}, output: {output.size: result.size}}
  - {id: again, task: read, input: {file: input.first}, output: {output.first: result}}
transitions:
  - {from: s, to: put, foreach: {collection: "[0, 1]"}, siblingGroup: g}
  - {from: put, to: sub, synchronization: {siblingGroup: g, merge: {target: state.files, strategy: append}}}
  - {from: sub, to: again}
`)}, map[string]any{"first": must(e.PutBlob(t.Context(), bytes.NewReader(large), ""))})
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"size": int64(2 << 20), "first": int64(2 << 20)}, out.Output)
	require.Equal(t, 2, read)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A reference to what is not there is refused where it would enter a run, and a
// damaged blob fails the task that reads it, with its hash.
func TestMissingAndDamagedBlobs(t *testing.T) {
	dir := t.TempDir()
	nowhere := blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64), Size: 3}
	var damaged blob.Ref
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{
		"missing": func(context.Context, pawl.Task) (any, error) { return map[string]any{"x": nowhere}, nil },
		"bad":     func(context.Context, pawl.Task) (any, error) { return map[string]any{"$blob": 7}, nil },
		"artifact": func(context.Context, pawl.Task) (any, error) {
			return pawl.Result{Artifacts: []pawl.Artifact{{Name: "a", Blob: nowhere}}}, nil
		},
		"nameless": func(context.Context, pawl.Task) (any, error) {
			return pawl.Result{Artifacts: []pawl.Artifact{{Blob: nowhere}}}, nil
		},
		"read": func(ctx context.Context, task pawl.Task) (any, error) {
			r, err := task.Open(ctx, damaged)
			if err != nil {
				return nil, err
			}
			_, err = io.Copy(io.Discard, r)
			return nil, errors.Join(err, r.Close())
		},
	}})
	damaged = must(e.PutBlob(t.Context(), strings.NewReader("precious"), ""))
	hash := strings.TrimPrefix(damaged.Hash, "sha256:")
	path := filepath.Join(dir, "blobs", hash[:2], hash[2:])
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("previous"), 0o600))
	fails := map[string]string{
		"missing": workflow.CodeBlobMissing, "artifact": workflow.CodeBlobMissing, "bad": workflow.CodeInvalidResult,
		"nameless": workflow.CodeInvalidResult, "read": workflow.CodeBlobDamaged,
	}
	for task, code := range fails {
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: "+task+", retry: {maxAttempts: 3, initialInterval: 1ms}}]\n")
		out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(task), Definition: d}, nil)
		require.NoError(t, err)
		require.Equal(t, code, out.Failure.Code, task)
		require.Equal(t, 1, out.Failure.Attempts, "it is not retried")
	}
	out, err := e.Wait(t.Context(), "read")
	require.NoError(t, err)
	require.Contains(t, out.Failure.Message, damaged.Hash)

	input := map[string]any{"list": []any{nowhere}}
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: e}}]\n")
	var be *blob.Error
	err = e.Start(t.Context(), workflow.Run{ID: "s", Definition: d}, input)
	require.ErrorAs(t, err, &be)
	require.Equal(t, nowhere.Hash, be.Hash)
	require.ErrorIs(t, err, blob.ErrMissing)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "s", Definition: d}, nil))
	require.ErrorIs(t, e.Signal(t.Context(), "s", workflow.Signal{Name: "e", Payload: input}), blob.ErrMissing)
	require.ErrorIs(t, e.Signal(t.Context(), "s", workflow.Signal{Name: "e", Payload: map[string]any{"$blob": "x"}}), pawl.ErrInvalid)
	_, err = e.Once(t.Context(), "k", func(context.Context) (any, error) { return nowhere, nil })
	require.ErrorIs(t, err, blob.ErrMissing)
}

// Blobs to which no run, artifact or kept outcome refers are collected once they are old enough, and no
// others.
func TestCollectBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		put := func(e *pawl.Engine, text string) blob.Ref {
			return must(e.PutBlob(t.Context(), strings.NewReader(text), ""))
		}
		release := make(chan struct{})
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"slow": func(ctx context.Context, task pawl.Task) (any, error) {
			ref, err := task.Put(ctx, strings.NewReader("slow"), "")
			<-release
			return ref, err
		}}})
		slow := define(t, "name: slow\nstart: a\nnodes: [{id: a, task: slow}]\n")
		waits := define(t, "name: waits\nstart: a\nnodes: [{id: a, wait: {event: e}}]\n")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "slow", Definition: slow}, nil))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "input", Definition: waits}, map[string]any{"f": put(e, "input")}))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "signal", Definition: waits}, nil))
		require.NoError(t, e.Signal(t.Context(), "signal", workflow.Signal{Name: "other", Early: true, Payload: put(e, "signal")}))
		_, err := e.Once(t.Context(), "k", func(context.Context) (any, error) { return put(e, "outcome"), nil })
		require.NoError(t, err)
		lost := put(e, "lost")
		synctest.Wait()

		_, err = e.CollectBlobs(t.Context(), time.Second)
		require.ErrorIs(t, err, pawl.ErrInvalid)
		collect := func() pawl.Collected {
			return must(e.CollectBlobs(t.Context(), time.Hour))
		}
		require.Zero(t, collect(), "all are young")
		<-time.After(2 * time.Hour)
		put(e, "young")
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: 4}, collect())
		_, err = e.OpenBlob(t.Context(), lost)
		require.ErrorIs(t, err, blob.ErrMissing)
		close(release)
		_, err = e.Wait(t.Context(), "slow")
		require.NoError(t, err)
		<-time.After(2 * time.Hour)
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: 5}, collect(), "what was young")
		require.Zero(t, collect())

		require.NoError(t, e.Forget(t.Context(), "k"))
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: 7}, collect())
		require.NoError(t, e.Purge(t.Context(), "slow"))
		require.NoError(t, e.Cancel(t.Context(), "input", ""))
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: 4}, collect())
		require.NoError(t, e.Purge(t.Context(), "input"))
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: 5}, collect())
	})
}

const staging = `
name: w
start: a
nodes: [{id: a, task: stage}, {id: b, task: stage}, {id: c, task: last}]
transitions: [{from: a, to: b}, {from: b, to: c}]
`

// Artifacts are listed in the outcome once, in the order of staging, and can be read; a run that fails
// drops its artifacts, or keeps them by option.
func TestArtifacts(t *testing.T) {
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			fail := false
			options := pawl.Options{KeepArtifacts: keep, Executor: pawl.Handlers{
				"stage": func(ctx context.Context, task pawl.Task) (any, error) {
					ref, err := task.Put(ctx, strings.NewReader(string(task.Run+" "+workflow.RunID(task.Node))), "text/plain")
					return pawl.Result{Artifacts: []pawl.Artifact{{Name: "report.txt", Blob: ref}}}, err
				},
				"last": func(context.Context, pawl.Task) (any, error) {
					if fail {
						return nil, errors.New("no")
					}
					return nil, nil
				},
			}}
			e, err := pawl.Open(t.Context(), dir, options)
			require.NoError(t, err)
			d := define(t, staging)
			good, err := e.Run(t.Context(), workflow.Run{ID: "good", Definition: d}, nil)
			require.NoError(t, err)
			require.Len(t, good.Artifacts, 2)
			require.Equal(t, []workflow.NodeID{"a", "b"}, []workflow.NodeID{good.Artifacts[0].Node, good.Artifacts[1].Node})
			fail = true
			bad, err := e.Run(t.Context(), workflow.Run{ID: "bad", Definition: d}, nil)
			require.NoError(t, err)
			require.Equal(t, workflow.RunFailed, bad.Status)
			require.NoError(t, e.Close(context.Background()))

			e, err = pawl.Open(t.Context(), dir, options)
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close(context.Background())) }()
			again, err := e.Wait(t.Context(), "good")
			require.NoError(t, err)
			require.Equal(t, good.Artifacts, again.Artifacts)
			r, err := e.OpenArtifact(t.Context(), again.Artifacts[1])
			require.NoError(t, err)
			text, err := io.ReadAll(r)
			require.NoError(t, errors.Join(err, r.Close()))
			require.Equal(t, "good b", string(text))
			againBad, err := e.Wait(t.Context(), "bad")
			require.NoError(t, err)
			require.Equal(t, bad.Artifacts, againBad.Artifacts)

			<-time.After(time.Hour)
			gone, err := e.CollectBlobs(t.Context(), time.Minute)
			require.NoError(t, err)
			if keep {
				require.Len(t, bad.Artifacts, 2)
				require.Zero(t, gone)
				return
			}
			require.Empty(t, bad.Artifacts)
			require.Equal(t, pawl.Collected{Blobs: 2, Bytes: 10}, gone)
			snap, err := e.Inspect(t.Context(), "good")
			require.NoError(t, err)
			require.Len(t, snap.Artifacts, 2)
			counts := map[workflow.EventType]int{}
			for ev, err := range e.Events(t.Context(), "good", pawl.EventsOptions{}) {
				require.NoError(t, err)
				counts[ev.Type]++
			}
			require.Equal(t, 2, counts[workflow.EventArtifactStaged])
			require.Equal(t, 1, counts[workflow.EventArtifactCommitted])
		})
	}
}

// A task that succeeds while the engine closes keeps its success, blobs and all.
func TestBlobResultWhileClosing(t *testing.T) {
	dir := t.TempDir()
	began := make(chan struct{}, 2)
	options := pawl.Options{Executor: pawl.Handlers{"put": func(ctx context.Context, task pawl.Task) (any, error) {
		ref, err := task.Put(ctx, strings.NewReader("kept"), "")
		began <- struct{}{}
		<-ctx.Done()
		return ref, err
	}}}
	e, err := pawl.Open(t.Context(), dir, options)
	require.NoError(t, err)
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: put, output: {output.ref: result}}]\n")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "w", Definition: d}, nil))
	<-began
	require.NoError(t, e.Close(context.Background()))
	_, err = e.PutBlob(t.Context(), strings.NewReader("late"), "")
	require.ErrorIs(t, err, pawl.ErrClosed)
	_, err = e.OpenBlob(t.Context(), blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64)})
	require.ErrorIs(t, err, pawl.ErrClosed)
	e, err = pawl.Open(t.Context(), dir, options)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	out, err := e.Wait(t.Context(), "w")
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.Contains(t, out.Output, "ref")
}

// A blob that was put into the engine's store by somebody else, and is kept for an attempt that is pending,
// is not collected before that is over.
func TestBlobsThatAreKeptForAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan pawl.Task, 1)
		var host serving.Host
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"t": func(ctx context.Context, task pawl.Task) (any, error) {
			host = serving.Of(ctx)
			begun <- task
			return nil, pawl.ErrPending
		}}})
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}]\n")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "w", Definition: d}, nil))
		task := <-begun
		kept := must(e.PutBlob(t.Context(), strings.NewReader("kept"), ""))
		must(e.PutBlob(t.Context(), strings.NewReader("not"), ""))
		host.KeepBlob(string(task.Key), kept.Hash)
		serving.Of(t.Context()).KeepBlob(string(task.Key), kept.Hash) // of no engine
		<-time.After(time.Hour)
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: 3}, must(e.CollectBlobs(t.Context(), time.Minute)))
		require.NoError(t, e.Complete(t.Context(), task.Key, nil))
		synctest.Wait() // the attempt lets go of it
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: 4}, must(e.CollectBlobs(t.Context(), time.Minute)))
	})
}

// The blobs that a message refers to are not collected before the run has answered it, also when the caller has left by then.
func TestBlobsOfACallerWhoLeaves(t *testing.T) {
	for _, act := range []string{"start", "signal"} {
		t.Run(act, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := &testhook.Hook{}
				e, err := pawl.Open(testhook.With(t.Context(), hook), t.TempDir(), pawl.Options{})
				require.NoError(t, err)
				defer func() { require.NoError(t, e.Close(context.Background())) }()
				d := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}, output: {output.got: result}}]\n")
				ref := must(e.PutBlob(t.Context(), strings.NewReader("kept"), ""))
				run := workflow.Run{ID: "w", Definition: d}
				send := func(ctx context.Context) error { return e.Start(ctx, run, map[string]any{"ref": ref}) }
				if act == "signal" {
					require.NoError(t, e.Start(t.Context(), run, nil))
					send = func(ctx context.Context) error { return e.Signal(ctx, "w", workflow.Signal{Name: "go", Payload: ref}) }
				}
				<-time.After(time.Hour) // the blob is old enough, and what was committed is done
				gate := make(chan struct{})
				hook.OnTurn(func(string) { <-gate })
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, send(ctx), context.DeadlineExceeded)
				require.Zero(t, must(e.CollectBlobs(t.Context(), time.Minute)))
				close(gate)
				synctest.Wait()
				require.Zero(t, must(e.CollectBlobs(t.Context(), time.Minute)), "the run refers to it")
				content, err := e.OpenBlob(t.Context(), ref)
				require.NoError(t, err)
				require.NoError(t, content.Close())
			})
		})
	}
}

// Something else in the folder of blobs does not keep the rest from being collected; a value that only
// looks like a reference does not stop a run.
func TestCollectGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		e := open(t, dir, pawl.Options{})
		for _, text := range []string{"a", "b", "c", "d"} {
			must(e.PutBlob(t.Context(), strings.NewReader(text), ""))
		}
		bad := filepath.Join(dir, "blobs", "00")
		require.NoError(t, os.MkdirAll(bad, 0o700))
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(bad, strings.Repeat("0", 62))))
		<-time.After(time.Hour)
		gone, err := e.CollectBlobs(t.Context(), time.Minute)
		require.Error(t, err)
		require.Equal(t, 4, gone.Blobs)

		publish(t, e, define(t, "name: child\nstart: a\nnodes: [{id: a, output: {output.x: \"{'$blob': 'x'}\"}}]\n"))
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, subworkflow: {name: child}, output: {output.x: result.x}}]\n")
		out, err := e.Run(t.Context(), workflow.Run{ID: "w", Definition: d}, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	})
}

// A reference that ParseRef refuses would be of no use, and its media type might end up
// in a header.
func TestPutBlobRefusesWhatNoReferenceCanHave(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{}})
	for _, mediaType := range []string{"text/plain\r\nX-Secret: 1", "a\x00", "\xff", strings.Repeat("x", 10_000)} {
		_, err := e.PutBlob(t.Context(), strings.NewReader("x"), mediaType)
		require.ErrorIs(t, err, pawl.ErrInvalid, "%q", mediaType)
	}
	ref, err := e.PutBlob(t.Context(), strings.NewReader("x"), "text/plain; charset=utf-8")
	require.NoError(t, err)
	_, err = blob.ParseRef(ref)
	require.NoError(t, err)
}

// The size of a reference is what readers reckon with: another one than the blob's is
// refused where the reference would enter a run.
func TestReferencesGiveTheSizeOfTheirBlob(t *testing.T) {
	var wrong blob.Ref
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
		"value": func(context.Context, pawl.Task) (any, error) { return map[string]any{"file": wrong}, nil },
		"artifact": func(context.Context, pawl.Task) (any, error) {
			return pawl.Result{Artifacts: []pawl.Artifact{{Name: "x", Blob: wrong}}}, nil
		},
	}})
	right, err := e.PutBlob(t.Context(), strings.NewReader("three"), "")
	require.NoError(t, err)
	wrong = blob.Ref{Hash: right.Hash, Size: 1 << 40}
	for _, task := range []string{"value", "artifact"} {
		out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(task), Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, task: "+task+"}]\n")}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.CodeInvalidResult, out.Failure.Code)
		require.Contains(t, out.Failure.Message, "the reference says 1099511627776 bytes, and it has 5")
	}
	run := workflow.Run{ID: "in", Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, task: value}]\n")}
	err = e.Start(t.Context(), run, map[string]any{"file": wrong})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.ErrorIs(t, err, blob.ErrSize)
	var about *blob.Error
	require.ErrorAs(t, err, &about)
	require.Equal(t, right.Hash, about.Hash)
	require.NoError(t, e.Start(t.Context(), run, map[string]any{"file": right}))
}

// A reference without a hash names no blob.
func TestABlobWithoutAHash(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	_, err := e.OpenBlob(t.Context(), blob.Ref{})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.Equal(t, 400, pawl.HTTPStatus(err))
}

// Reports beside an output keep their blobs as the output does: those of an attempt that fails, and those of a result that a rerun
// keeps.
func TestReportsKeepTheirBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := replays.Dir(t)
		e := open(t, dir, pawl.Options{Executor: pawl.Handlers{
			"report": func(ctx context.Context, task pawl.Task) (any, error) {
				report, err := task.Put(ctx, strings.NewReader("the report"), "")
				log, err2 := task.Put(ctx, strings.NewReader("the log"), "")
				return pawl.Result{Artifacts: []pawl.Artifact{{Name: "report", Blob: report}}, Metadata: map[string]any{"log": log}}, errors.Join(err, err2)
			},
			"pay": func(ctx context.Context, task pawl.Task) (any, error) {
				<-time.After(time.Minute) // the report is there by then
				if task.Run != "r" {
					return nil, nil
				}
				why, err := task.Put(ctx, strings.NewReader("the stack"), "")
				return nil, errors.Join(err, pawl.WithMetadata(pawl.TaskError{Code: "down"}, map[string]any{"stack": why}))
			},
		}})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: order
start: s
nodes: [{id: s}, {id: report, task: report}, {id: pay, task: pay}]
transitions: [{from: s, to: report}, {from: s, to: pay}]
`)}, nil))
		require.Equal(t, workflow.RunFailed, wait(t, e, "r").Status)
		require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Node: "pay"}, "r2", pawl.ForkOptions{}))
		out := wait(t, e, "r2")
		require.NoError(t, out.Err())
		require.Len(t, out.Artifacts, 1)
		<-time.After(time.Hour)
		n, err := e.CollectBlobs(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Zero(t, n.Blobs)
		require.NoError(t, e.Purge(t.Context(), "r"))
		<-time.After(time.Hour)
		n, err = e.CollectBlobs(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, 1, n.Blobs, "the stack alone")
		r, err := e.OpenArtifact(t.Context(), out.Artifacts[0])
		require.NoError(t, err)
		require.NoError(t, r.Close())
	})
}
