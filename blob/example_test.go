package blob_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-run/pawl/blob"
)

// A large value is put, its reference travels in a result, and a finder of the
// reference reads the value. A value that nobody refers to is collected.
func Example() {
	dir, err := os.MkdirTemp("", "pawl")
	if err == nil {
		err = example(context.Background(), filepath.Join(dir, "blobs"))
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// sha256:903c23d4..., 14 bytes of image/png: a scanned page
	// deleted: true
}

func example(ctx context.Context, dir string) error {
	store, err := blob.OpenFiles(dir, blob.Options{})
	if err != nil {
		return err
	}
	defer store.Close()

	hash, size, err := store.Put(ctx, strings.NewReader("a scanned page"))
	if err != nil {
		return err
	}
	ref := blob.Ref{Hash: hash, Size: size, Type: "image/png"}
	result := map[string]any{"page": int64(1), "scan": ref.Value()}

	refs, err := blob.Refs(result)
	if err != nil {
		return err
	}
	for _, r := range refs {
		content, err := store.Open(ctx, r.Hash)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(content) // fails if the content is damaged
		content.Close()
		if err != nil {
			return err
		}
		fmt.Printf("%s..., %d bytes of %s: %s\n", r.Hash[:15], r.Size, r.Type, text)
	}

	deleted, err := store.Delete(ctx, hash, time.Now().Add(time.Hour))
	fmt.Println("deleted:", deleted)
	return err
}

func ExampleRefs() {
	_, err := blob.Refs(map[string]any{"pages": []any{
		map[string]any{"$blob": "sha256:abc", "size": int64(3)},
	}})
	fmt.Println(err)
	// Output:
	// invalid blob reference at "/pages/0": $blob is not sha256: and 64 lower-case hexadecimal digits
}
