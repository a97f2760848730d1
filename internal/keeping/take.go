package keeping

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/pawl-run/pawl/blob"
)

// TakeMissing calls take with the blobs that are not here yet, if read, which reads a recording, comes with them.
//
// Blobs that are here already are not read from the recording. take is PutBlob for an import and
// CheckBlob for a simulation, so that both fail for the same exports.
func (k *Keeper) TakeMissing(ctx context.Context, read func(func(hash string, content io.Reader) error) error, hashes []string, take func(context.Context, string, io.Reader) error) error {
	missing := map[string]error{}
	for _, hash := range hashes {
		if _, err := k.Stat(ctx, hash); errors.Is(err, blob.ErrMissing) {
			missing[hash] = err
		} else if err != nil {
			return Error(err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := read(func(hash string, content io.Reader) error {
		if missing[hash] == nil {
			return nil
		}
		delete(missing, hash)
		return take(ctx, hash, content)
	})
	if err != nil {
		return fmt.Errorf("the run refers to a blob: %w", Error(err))
	}
	for _, hash := range hashes {
		if err := missing[hash]; err != nil {
			return fmt.Errorf("the run refers to a blob: put it here first: %w", Error(err))
		}
	}
	return nil
}

// PutBlob stores the content of a blob.
func (k *Keeper) PutBlob(ctx context.Context, hash string, content io.Reader) error {
	stored, _, err := k.Put(ctx, content)
	if err == nil && stored != hash {
		err = &blob.Error{Hash: hash, Err: blob.ErrDamaged, Detail: "in the export"}
	}
	return err
}

// CheckBlob reads the content of a blob, and stores nothing.
//
// It is the counterpart of PutBlob, and finds the same faults.
func CheckBlob(ctx context.Context, hash string, content io.Reader) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return err
	}
	if hash != fmt.Sprintf("sha256:%x", sum.Sum(nil)) {
		return &blob.Error{Hash: hash, Err: blob.ErrDamaged, Detail: "in the export"}
	}
	return ctx.Err()
}

// CheckContent returns the content of a blob that comes over a network as one that is checked on the way: reading a damaged one fails
// at its end. A proxy that speaks HTTP/1.0 may pass on an answer that broke as if it were whole.
func CheckContent(hash string, content io.ReadCloser) io.ReadCloser {
	return &checkedContent{ReadCloser: content, hash: hash, sum: sha256.New()}
}

// A checkedContent is the content of a blob, and the sum of what was read of it.
type checkedContent struct {
	io.ReadCloser
	hash string
	sum  hash.Hash
}

// Read implements io.Reader.
func (c *checkedContent) Read(to []byte) (int, error) {
	n, err := c.ReadCloser.Read(to)
	_, _ = c.sum.Write(to[:n]) // it cannot fail
	if err == io.EOF && "sha256:"+hex.EncodeToString(c.sum.Sum(nil)) != c.hash {
		err = &blob.Error{Hash: c.hash, Err: blob.ErrDamaged, Detail: "the content that came has another hash"}
	}
	return n, err
}
