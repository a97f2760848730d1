package pawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// openBlobs opens the folder of blobs, unless the host has a store of its own.
func (e *Engine) openBlobs(dir string) (err error) {
	if e.blobs = e.options.Blobs; e.blobs != nil {
		return nil
	}
	if e.files, err = blob.OpenFiles(filepath.Join(dir, "blobs"), blob.Options{Codec: e.options.Codec}); err == nil {
		e.blobs = e.files
	}
	return err
}

// emptyBlob is the hash of no bytes.
const emptyBlob = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// PutBlob stores everything that r gives, durably, by its content, and returns a
// reference to it for inputs, payloads and outcomes: a value may hold up to 1 MiB,
// a blob is as large as the disk allows. The media type may be empty; a type that no
// reference could have (see blob.ParseRef) is ErrInvalid, and nothing is read. A blob that
// nothing refers to is removed by CollectBlobs.
func (e *Engine) PutBlob(ctx context.Context, r io.Reader, mediaType string) (blob.Ref, error) {
	if err := e.checkUsable(ctx); err != nil {
		return blob.Ref{}, err
	}
	if _, err := blob.ParseRef(blob.Ref{Hash: emptyBlob, Type: mediaType}); err != nil {
		return blob.Ref{}, fmt.Errorf("%w: put a blob: %w", ErrInvalid, err)
	}
	hash, size, err := e.blobs.Put(ctx, r)
	if err != nil {
		return blob.Ref{}, fmt.Errorf("put a blob: %w", blobError(err))
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
	return r, blobError(err)
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

// minBlobAge is the least age of what CollectBlobs may remove: between putting a
// blob and referring to it, some time goes by.
const minBlobAge = time.Minute

// Collected is what CollectBlobs has removed.
type Collected struct {
	Blobs int
	Bytes int64
}

// CollectBlobs removes the blobs that no run, artifact or kept outcome refers to
// and that were last put longer ago than age, which is a minute at least: give
// it the longest time that callers take from PutBlob to the call that refers to
// it. Runs refer to their blobs until they are purged. It may run at any time;
// while a backup is made it removes nothing.
func (e *Engine) CollectBlobs(ctx context.Context, age time.Duration) (Collected, error) {
	if err := e.checkUsable(ctx); err != nil {
		return Collected{}, err
	}
	var out Collected
	if age < minBlobAge {
		return out, fmt.Errorf("%w: blobs of an age of %v may still be on their way into a run: use %v or more", ErrInvalid, age, minBlobAge)
	}
	before := time.Now().Add(-age)
	var errs []error
	for info, err := range e.blobs.All(ctx) {
		if err != nil {
			errs = append(errs, err) // the others are collected all the same
			continue
		}
		if !info.Time.Before(before) {
			continue
		}
		gone, err := e.pinned.collectBlob(info.Hash, func() (bool, error) {
			referred, err := e.dir.Refers(info.Hash)
			if err != nil || referred {
				return false, closedError(err)
			}
			return e.blobs.Delete(ctx, info.Hash, before)
		})
		if errors.Is(err, ErrClosed) || ctx.Err() != nil {
			return out, errors.Join(append(errs, err)...)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if gone {
			out.Blobs++
			out.Bytes += info.Size
		}
	}
	if len(errs) > 0 {
		return out, fmt.Errorf("collect blobs: %w", blobError(errors.Join(errs...)))
	}
	return out, nil
}

// blobError makes an error of the engine's own blobs, which are closed with it,
// say so.
func blobError(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// putMerged stores what joins have merged into blobs, and keeps it from being collected
// until release is called: by then a run refers to it, or nobody ever will.
func (e *Engine) putMerged(blobs []decision.Blob) (release func(), err error) {
	hashes := make([]string, len(blobs))
	for i, b := range blobs {
		hashes[i] = b.Hash
	}
	e.pinned.pinBlobs(hashes...)
	release = func() { e.pinned.unpinBlobs(hashes...) }
	for _, b := range blobs {
		hash, size, err := e.blobs.Put(e.ctx, b.Reader())
		if err == nil && (hash != b.Hash || size != b.Size) {
			err = &blob.Error{Hash: b.Hash, Err: blob.ErrDamaged, Detail: fmt.Sprintf("the store kept %d bytes as %s", size, hash)}
		}
		if err != nil {
			release()
			return nil, fmt.Errorf("put a merged value: %w", blobError(err))
		}
	}
	return release, nil
}

// pinResult pins the blobs that a result refers to; see pinReferences.
func (e *Engine) pinResult(ctx context.Context, m state.TaskCompleted) (release func(), err error) {
	if !m.Measure.Refs {
		return e.pinReferences(ctx, nil, m.Artifacts...)
	}
	return e.pinReferences(ctx, m.Output, m.Artifacts...)
}

// pinReferences finds the blobs that a value, which is about to enter a run, refers to,
// and keeps them from being collected until release is called. It fails if one
// of them is not there, and with ErrInvalid if one has another size than its reference says.
func (e *Engine) pinReferences(ctx context.Context, v any, as ...workflow.Artifact) (release func(), err error) {
	refs, err := blob.Refs(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	for _, a := range as {
		refs = append(refs, blob.Ref{Hash: a.Hash, Size: a.Size})
	}
	if len(refs) == 0 {
		return func() {}, nil
	}
	hashes := make([]string, len(refs))
	for i, ref := range refs {
		hashes[i] = ref.Hash
	}
	e.pinned.pinBlobs(hashes...)
	release = func() { e.pinned.unpinBlobs(hashes...) }
	for _, ref := range refs {
		if err := e.checkReference(ctx, ref); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// checkReference compares a reference with what the store knows of the blob.
func (e *Engine) checkReference(ctx context.Context, ref blob.Ref) error {
	info, err := e.blobs.Stat(ctx, ref.Hash)
	if err == nil && info.Size != ref.Size {
		detail := fmt.Sprintf("the reference says %d bytes, and it has %d", ref.Size, info.Size)
		err = fmt.Errorf("%w: %w", ErrInvalid, &blob.Error{Hash: ref.Hash, Err: blob.ErrSize, Detail: detail})
	}
	return blobError(err)
}

// blobPins are blobs that are on their way into a run, with how often.
type blobPins struct {
	mu     sync.Mutex
	held   map[string]int // by hash
	frozen int            // backups under way: nothing is collected
}

func (p *blobPins) pinBlobs(hashes ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = map[string]int{}
	}
	for _, hash := range hashes {
		p.held[hash]++
	}
}

func (p *blobPins) unpinBlobs(hashes ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, hash := range hashes {
		if p.held[hash]--; p.held[hash] <= 0 {
			delete(p.held, hash)
		}
	}
}

// freezeBlobs keeps all blobs from being collected until thaw is called.
func (p *blobPins) freezeBlobs() (thaw func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.frozen--
	}
}

// collectBlob removes a blob, unless it is pinned. A caller who pins it afterwards
// finds it gone.
func (p *blobPins) collectBlob(hash string, remove func() (bool, error)) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[hash] > 0 || p.frozen > 0 {
		return false, nil
	}
	return remove()
}
