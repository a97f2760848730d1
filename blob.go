package pawl

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/keeping"
	"github.com/pawl-run/pawl/workflow"
)

// openBlobs opens the folder of blobs, unless the host has a store of its own.
func (e *Engine) openBlobs(dir string) (err error) {
	if e.blobs = keeping.Of(e.options.Blobs, e.dir); e.options.Blobs == nil {
		e.blobs, err = keeping.Open(filepath.Join(dir, "blobs"), e.options.Codec, e.dir)
	}
	return err
}

// emptyBlob is the hash of no bytes.
const emptyBlob = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// PutBlob stores everything that r gives, durably, by its content, and returns a reference to it for inputs, payloads and
// outcomes: a value may hold up to 1 MiB, a blob is as large as the disk allows. The media type may be empty; a type that no
// reference could have (see blob.ParseRef) is ErrInvalid, and nothing is read. A blob that nothing refers to is removed by
// CollectBlobs.
func (e *Engine) PutBlob(ctx context.Context, r io.Reader, mediaType string) (blob.Ref, error) {
	if err := e.checkUsable(ctx); err != nil {
		return blob.Ref{}, err
	}
	if _, err := blob.ParseRef(blob.Ref{Hash: emptyBlob, Type: mediaType}); err != nil {
		return blob.Ref{}, fmt.Errorf("%w: put a blob: %w", ErrInvalid, err)
	}
	hash, size, err := e.blobs.Put(ctx, r)
	if err != nil {
		return blob.Ref{}, fmt.Errorf("put a blob: %w", keeping.Error(err))
	}
	return blob.Ref{Hash: hash, Size: size, Type: mediaType}, nil
}

// OpenBlob opens a blob for reading. Its content is checked on the way: at the
// end of a damaged one, reading fails instead of ending. The errors are
// *blob.Error with the hash; errors.Is tells blob.ErrMissing and blob.ErrDamaged.
func (e *Engine) OpenBlob(ctx context.Context, ref blob.Ref) (io.ReadCloser, error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	r, err := e.blobs.Open(ctx, ref.Hash)
	return r, keeping.Error(err)
}

// OpenArtifact opens an artifact of an Outcome, as OpenBlob does.
func (e *Engine) OpenArtifact(ctx context.Context, a workflow.Artifact) (io.ReadCloser, error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	return e.OpenBlob(ctx, blob.Ref{Hash: a.Hash, Size: a.Size, Type: a.Type})
}

// An Artifact is a named blob that a task hands over with its result, see
// Result. It counts when the run completes.
type Artifact struct {
	Name string // 1 to 255 bytes of UTF-8; it need not be unique
	Blob blob.Ref
}

// stagedArtifacts returns the artifacts of a result as a message has them.
func stagedArtifacts(as []Artifact) ([]workflow.Artifact, error) {
	var out []workflow.Artifact
	for _, a := range as {
		if a.Name == "" || len(a.Name) > 255 || !utf8.ValidString(a.Name) {
			return nil, fmt.Errorf("the name of the artifact %.300q: use 1 to 255 bytes of UTF-8", a.Name)
		}
		if _, err := blob.ParseRef(a.Blob.Value()); err != nil {
			return nil, fmt.Errorf("the artifact %q: %w", a.Name, err)
		}
		out = append(out, workflow.Artifact{Name: a.Name, Hash: a.Blob.Hash, Size: a.Blob.Size, Type: a.Blob.Type})
	}
	return out, nil
}

// Collected is what CollectBlobs has removed.
type Collected struct {
	Blobs int
	Bytes int64
}

// CollectBlobs removes the blobs that no run, artifact or kept outcome refers to and that were last put longer ago than age, which is a
// minute at least: give it the longest time that callers take from PutBlob to the call that refers to it. Runs refer to their blobs until they
// are purged. It may run at any time; while a backup is made it removes nothing. With Options.Remote it removes nothing and fails with ErrFenced if
// somebody else has taken the log, and with ErrRemote if the directory was opened without. If the log is taken while it runs, it may still remove
// blobs to which nothing referred before: a reference that is made later needs a blob that is younger than age, or is put again.
func (e *Engine) CollectBlobs(ctx context.Context, age time.Duration) (Collected, error) {
	if err := e.checkUsable(ctx); err != nil {
		return Collected{}, err
	}
	blobs, bytes, err := e.blobs.Collect(ctx, age, func() error { return e.callUntil(ctx, e.dir.ConfirmLog) })
	return Collected{blobs, bytes}, err
}
