// Package keeping keeps the blobs of an engine: those that runs refer to, or are about to, stay, and the others are collected.
package keeping

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Directory is the engine directory as a Keeper sees it; *store.Dir is one.
type Directory interface {
	Refers(ctx context.Context, hash string) (bool, error) // whether a run, an artifact or a kept outcome refers to a blob
}

// A Keeper is the store of an engine's blobs, with those that are on their way into a run.
type Keeper struct {
	blob.Store
	dir Directory
	own *blob.Files // the store, if it is the engine's own

	mu       sync.Mutex
	held     map[string]int           // on their way into a run, how often, by hash
	frozen   int                      // backups under way: nothing is collected
	removing map[string]chan struct{} // being collected, which a host's store may take long for; closed when that is over
}

// Of returns the keeper of a host's store.
func Of(s blob.Store, dir Directory) *Keeper { return &Keeper{Store: s, dir: dir} }

// Open returns the keeper of the blobs in a folder, which it opens.
func Open(folder string, c blob.Codec, dir Directory) (*Keeper, error) {
	own, err := blob.OpenFiles(folder, blob.Options{Codec: c})
	if err != nil {
		return nil, err
	}
	return &Keeper{Store: own, own: own, dir: dir}, nil
}

// Own returns the engine's own store; nil if the host has one.
func (k *Keeper) Own() *blob.Files { return k.own }

// Close closes the engine's own store.
func (k *Keeper) Close() error {
	if k.own == nil {
		return nil
	}
	return k.own.Close()
}

// Error makes an error of the engine's own blobs, which are closed with it,
// say so.
func Error(err error) error {
	switch {
	case errors.Is(err, fs.ErrClosed):
		return refusal.Stopped(err)
	case errors.Is(err, fs.ErrInvalid) && !errors.Is(err, refusal.ErrInvalid): // what names a blob is no hash
		return fmt.Errorf("%w: %w", refusal.ErrInvalid, err)
	}
	return err
}

// minAge is the least age of what Collect may remove: between putting a
// blob and referring to it, some time goes by.
const minAge = time.Minute

// Collect removes the blobs that nothing refers to and that were last put longer ago than age, and returns how many, with how many
// bytes.
//
// The owners of a log outside of the directory share the store, and an earlier owner does not know what the runs of the present one refer to.
// So confirm is called before the first blob is deleted, and fails unless the directory has its log still. Another owner may take
// the log afterwards: what was put before the age was referred to by then, if callers keep to that age, and the directory here knows of it;
// what is put again is too young to be deleted.
func (k *Keeper) Collect(ctx context.Context, age time.Duration, confirm func() error) (blobs int, bytes int64, err error) {
	if age < minAge {
		return 0, 0, fmt.Errorf("%w: blobs of an age of %v may still be on their way into a run: use %v or more", refusal.ErrInvalid, age, minAge)
	}
	before := time.Now().Add(-age)
	confirm = sync.OnceValue(confirm)
	var errs []error
	for info, err := range k.All(ctx) {
		if err != nil {
			errs = append(errs, err) // the others are collected all the same
			continue
		}
		if !info.Time.Before(before) {
			continue
		}
		gone, err := k.collectBlob(info.Hash, func() (bool, error) {
			referred, err := k.dir.Refers(ctx, info.Hash)
			if err != nil || referred {
				return false, refusal.Closed(err)
			}
			if err := confirm(); err != nil {
				return false, fmt.Errorf("%w: %w", errNotOwner, refusal.Closed(err))
			}
			return k.Delete(ctx, info.Hash, before)
		})
		if errors.Is(err, refusal.ErrClosed) || errors.Is(err, errNotOwner) || ctx.Err() != nil {
			return blobs, bytes, errors.Join(append(errs, err)...)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if gone {
			blobs++
			bytes += info.Size
		}
	}
	if len(errs) > 0 {
		return blobs, bytes, fmt.Errorf("collect blobs: %w", Error(errors.Join(errs...)))
	}
	return blobs, bytes, nil
}

// errNotOwner ends a collection.
var errNotOwner = errors.New("collect blobs: whether the log is this engine's still")

// PutMerged stores what joins have merged into blobs, and keeps it from being collected
// until release is called: by then a run refers to it, or nobody ever will.
func (k *Keeper) PutMerged(ctx context.Context, blobs []decision.Blob) (release func(), err error) {
	hashes := make([]string, len(blobs))
	for i, b := range blobs {
		hashes[i] = b.Hash
	}
	if release, err = k.Hold(ctx, hashes...); err != nil {
		return nil, err
	}
	for _, b := range blobs {
		hash, size, err := k.Put(ctx, b.Reader())
		if err == nil && (hash != b.Hash || size != b.Size) {
			err = &blob.Error{Hash: b.Hash, Err: blob.ErrDamaged, Detail: fmt.Sprintf("the store kept %d bytes as %s", size, hash)}
		}
		if err != nil {
			release()
			return nil, fmt.Errorf("put a merged value: %w", Error(err))
		}
	}
	return release, nil
}

// PinInput pins the blobs that an input, which was measured, refers to; see PinReferences.
func (k *Keeper) PinInput(ctx context.Context, m state.Start) (release func(), err error) {
	if !m.Measure.Refs {
		return func() {}, nil
	}
	return k.PinReferences(ctx, m.Input)
}

// PinResult pins the blobs that a result refers to; see PinReferences.
func (k *Keeper) PinResult(ctx context.Context, m state.TaskCompleted) (release func(), err error) {
	if !m.Measure.Refs {
		return k.PinReferences(ctx, nil, m.Artifacts...)
	}
	return k.PinReferences(ctx, m.Output, m.Artifacts...)
}

// PinReferences finds the blobs that a value, which is about to enter a run, refers to,
// and keeps them from being collected until release is called. It fails if one
// of them is not there, and with refusal.ErrInvalid if one has another size than its reference says.
func (k *Keeper) PinReferences(ctx context.Context, v any, as ...workflow.Artifact) (release func(), err error) {
	refs, err := blob.Refs(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", refusal.ErrInvalid, err)
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
	if release, err = k.Hold(ctx, hashes...); err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if err := k.checkReference(ctx, ref); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// checkReference compares a reference with what the store knows of the blob.
func (k *Keeper) checkReference(ctx context.Context, ref blob.Ref) error {
	info, err := k.Stat(ctx, ref.Hash)
	if err == nil && info.Size != ref.Size {
		detail := fmt.Sprintf("the reference says %d bytes, and it has %d", ref.Size, info.Size)
		err = fmt.Errorf("%w: %w", refusal.ErrInvalid, &blob.Error{Hash: ref.Hash, Err: blob.ErrSize, Detail: detail})
	}
	return Error(err)
}

// Hold keeps blobs from being collected until release is called. A blob that is being collected is gone when Hold returns: whoever looks
// for it then finds it there for good, or missing. It fails with the cause of ctx.
func (k *Keeper) Hold(ctx context.Context, hashes ...string) (release func(), err error) {
	k.Pin(hashes...)
	for _, hash := range hashes {
		k.mu.Lock()
		over := k.removing[hash]
		k.mu.Unlock()
		if over == nil {
			continue
		}
		select {
		case <-over:
		case <-ctx.Done():
			k.Unpin(hashes...)
			return nil, context.Cause(ctx)
		}
	}
	return func() { k.Unpin(hashes...) }, nil
}

// Pin keeps blobs from being collected until Unpin. It does not wait for those that are being collected: a blob that was
// put meanwhile stays, by its age.
func (k *Keeper) Pin(hashes ...string) {
	if len(hashes) == 0 { // as in most commits
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = map[string]int{}
	}
	for _, hash := range hashes {
		k.held[hash]++
	}
}

// Unpin takes one Pin back.
func (k *Keeper) Unpin(hashes ...string) {
	if len(hashes) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, hash := range hashes {
		if k.held[hash]--; k.held[hash] <= 0 {
			delete(k.held, hash)
		}
	}
}

// HoldsAny reports whether a blob is pinned or held.
func (k *Keeper) HoldsAny() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.held) > 0
}

// Freeze keeps all blobs from being collected until thaw is called. It waits for those that are being collected.
func (k *Keeper) Freeze() (thaw func()) {
	k.mu.Lock()
	k.frozen++
	under := slices.Collect(maps.Values(k.removing))
	k.mu.Unlock()
	for _, over := range under {
		<-over
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.frozen--
	}
}

// collectBlob removes a blob, unless it is pinned. A caller who holds it afterwards finds it gone. Commits of runs go on meanwhile.
func (k *Keeper) collectBlob(hash string, remove func() (bool, error)) (bool, error) {
	k.mu.Lock()
	if k.held[hash] > 0 || k.frozen > 0 || k.removing[hash] != nil {
		k.mu.Unlock()
		return false, nil
	}
	if k.removing == nil {
		k.removing = map[string]chan struct{}{}
	}
	over := make(chan struct{})
	k.removing[hash] = over
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.removing, hash)
		close(over)
	}()
	return remove()
}
