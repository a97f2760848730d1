package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/internal/seal"
)

const (
	tmpFolder = "tmp"
	tmpPrefix = "put-" // and 32 hexadecimal digits
)

// Files is the Store on a folder. Every content is one file that is never
// changed.
type Files struct {
	dir      string
	readOnly bool
	sealer   seal.Sealer

	mu       sync.Mutex // guards these
	root     *os.Root   // nil until there is a folder
	prepared bool       // the folder and tmp exist, and outlast a loss of power
	closed   bool

	// names is held while a file gets its address or a new time, and while one
	// is removed.
	names  sync.Mutex
	synced [256]atomic.Bool // the folders whose own names are durable

	bytes   atomic.Int64 // that were put, without those that were deleted; of all blobs once they were counted
	counted atomic.Bool

	// For tests: at is called at every boundary, write returns what Put writes
	// to in place of the file, sync makes a file or a folder durable.
	at    func(stage)
	write func(*os.File) io.Writer
	sync  func(*os.File) error
}

// A stage is a boundary of Put at which a crash must do no harm, or of Delete.
type stage string

// The stages, those of Put in their order.
const (
	created   stage = "created"   // the folder, and the name in tmp
	written   stage = "written"   // a chunk of the content, or all of it
	compared  stage = "compared"  // with what stands at its address: the same
	stored    stage = "stored"    // the content is durable, still under its name in tmp
	named     stage = "named"     // it stands at its address
	refreshed stage = "refreshed" // or what stands there has a new time
	listed    stage = "listed"    // and that is durable too

	judged stage = "judged" // Delete has found it old, and excludes Put
)

// Options say how a folder of blobs is opened. The zero value opens a folder of plain content, for reading and writing.
type Options struct {
	// Codec seals the content of blobs; nil seals none. Hashes and sizes are those of the plain content: a
	// reader who guesses the content of a blob can see from its name that the guess is right. A
	// blob that was put without a codec is read as it is, and sealed when it is put again. A blob
	// that the codec cannot open is an *Error with pawl.ErrSealed.
	Codec Codec
	// ReadOnly opens the folder to look at it: nothing in it is changed, and Put and Delete fail with
	// an *Error with fs.ErrPermission. Any number of them may be open on a folder.
	ReadOnly bool
	// Shared says that others may have the folder open at the same time: OpenFiles leaves in its folder tmp what was written
	// within the last hour, which may be under way.
	Shared bool
}

// OpenFiles opens the Store in the folder dir, which need not exist: the first
// Put makes it. It removes what interrupted Puts have left in its folder tmp, and
// nothing else. dir may be a link to a folder; below it no link is followed. Only
// one Files at a time may be open on a folder, but for those that are ReadOnly or Shared. It fails
// with an *Error.
func OpenFiles(dir string, o Options) (*Files, error) {
	sealer, err := seal.NewSealer(o.Codec)
	if err != nil {
		return nil, wrapError("", "open", err)
	}
	if dir == "" {
		return nil, &Error{Err: fs.ErrInvalid, Detail: "open: no folder"}
	}
	f := &Files{
		dir: dir, readOnly: o.ReadOnly, sealer: sealer, at: func(stage) {},
		write: func(f *os.File) io.Writer { return f }, sync: (*os.File).Sync,
	}
	root, err := os.OpenRoot(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.counted.Store(true)
		return f, nil
	case err != nil:
		return nil, wrapError("", "open", err)
	}
	if !f.readOnly {
		if err := clearTemporary(root, o.Shared); err != nil {
			_ = root.Close() // err is what the caller has to know
			return nil, wrapError("", "open", err)
		}
	}
	f.root = root
	return f, nil
}

// underWay is for how long a file in tmp may be another's that is written, if the folder is shared.
const underWay = time.Hour

// clearTemporary removes the regular files in tmp that have the name of ours, but for those that may be under way.
func clearTemporary(root *os.Root, shared bool) error {
	err := checkFolder(root, tmpFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := readFolder(root, tmpFolder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		digits, ours := strings.CutPrefix(e.Name(), tmpPrefix)
		if !ours || len(digits) != 32 || !isLowerHex(digits) || !e.Type().IsRegular() {
			continue
		}
		name := tmpFolder + "/" + e.Name()
		if shared {
			if info, err := root.Lstat(name); err != nil || time.Since(info.ModTime()) < underWay {
				continue // whoever has written it has removed it, or may be about to
			}
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Close releases the folder. Afterwards every method but Size fails with an *Error
// with fs.ErrClosed; a Put in progress either fails or completes. Open readers
// stay open.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.root == nil {
		return nil
	}
	return wrapError("", "close", f.root.Close())
}

// rootFolder returns the folder of the store, nil before the first Put makes it.
func (f *Files) rootFolder(ctx context.Context) (*os.Root, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, &Error{Err: fs.ErrClosed}
	}
	return f.root, nil
}

// findBlob returns the address of a blob and the folder of the store. Without a folder
// the blob is missing.
func (f *Files) findBlob(ctx context.Context, hash string) (address, *os.Root, error) {
	a, err := checkAddress(hash)
	if err != nil {
		return "", nil, err
	}
	root, err := f.rootFolder(ctx)
	if err == nil && root == nil {
		err = &Error{Hash: hash, Err: ErrMissing}
	}
	return a, root, err
}

// Open implements Store.
func (f *Files) Open(ctx context.Context, hash string) (io.ReadCloser, error) {
	a, root, err := f.findBlob(ctx, hash)
	if err != nil {
		return nil, err
	}
	file, _, err := openBlob(root, a)
	if err != nil {
		return nil, err
	}
	sealed, err := f.openSealed(file)
	if err != nil {
		_ = file.Close() // it was only read
		return nil, wrapError(a.fullHash(), "read", err)
	}
	return newReader(file, sealed, a), nil
}

// Stat implements Store. The size is that of the file or, if it is sealed, the one
// that the file states.
func (f *Files) Stat(ctx context.Context, hash string) (Info, error) {
	a, root, err := f.findBlob(ctx, hash)
	if err != nil {
		return Info{}, err
	}
	return f.statBlob(root, a)
}

func (f *Files) statBlob(root *os.Root, a address) (Info, error) {
	if f.sealer.IsOn() {
		return f.statSealed(root, a)
	}
	file, err := lookUpFile(root, a)
	if err != nil {
		return Info{}, err
	}
	return Info{Hash: a.fullHash(), Size: file.Size(), Time: file.ModTime()}, nil
}

// Delete implements Store. If anything but a regular file stands in the blob's place,
// Delete leaves it alone, and returns an *Error with ErrDamaged.
func (f *Files) Delete(ctx context.Context, hash string, before time.Time) (bool, error) {
	if f.readOnly {
		return false, &Error{Hash: hash, Err: fs.ErrPermission}
	}
	a, root, err := f.findBlob(ctx, hash)
	if err == nil {
		err = f.removeBlob(root, a, before)
	}
	if errors.Is(err, ErrMissing) || errors.Is(err, errYounger) {
		return false, nil
	}
	return err == nil, err
}

// errYounger says that a blob was put too late to be removed.
var errYounger = errors.New("younger")

func (f *Files) removeBlob(root *os.Root, a address, before time.Time) error {
	f.names.Lock()
	defer f.names.Unlock()
	info, err := f.statBlob(root, a)
	switch {
	case err != nil:
		return err
	case !info.Time.Before(before):
		return errYounger
	}
	f.at(judged)
	if err := root.Remove(a.filePath()); err != nil {
		return wrapError(a.fullHash(), "delete", err)
	}
	f.bytes.Add(-info.Size)
	return nil
}

// Size returns about how many bytes the contents of all blobs have. known is true once an iteration of All has come to its end, as in
// Engine.CollectBlobs, or if OpenFiles found no folder; Put and Delete keep the number up to date.
func (f *Files) Size() (bytes int64, known bool) { return f.bytes.Load(), f.counted.Load() }

// All implements Store. It passes over files and folders with other names than
// those of blobs.
func (f *Files) All(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		root, err := f.rootFolder(ctx)
		if err != nil {
			yield(Info{}, err)
			return
		}
		if root == nil {
			return
		}
		folders, err := readFolder(root, ".")
		if err != nil {
			yield(Info{}, wrapError("", "list", err))
			return
		}
		seen, before := int64(0), f.bytes.Load()
		count := func(info Info, err error) bool {
			seen += info.Size
			return yield(info, err)
		}
		for _, e := range folders {
			if len(e.Name()) == 2 && isLowerHex(e.Name()) && !f.yieldFolder(ctx, root, e.Name(), count) {
				return
			}
		}
		// A blob that was put meanwhile was seen or not; one that was deleted was seen.
		f.bytes.Store(seen + min(f.bytes.Load()-before, 0))
		f.counted.Store(true)
	}
}

// yieldFolder iterates over the blobs in one folder and reports whether to go on.
func (f *Files) yieldFolder(ctx context.Context, root *os.Root, folder string, yield func(Info, error) bool) bool {
	err := checkFolder(root, folder)
	var entries []fs.DirEntry
	if err == nil {
		entries, err = readFolder(root, folder)
	}
	if err != nil {
		return yield(Info{}, wrapError("", "list", err))
	}
	for _, e := range entries {
		a, ok := parseAddress(scheme + folder + e.Name())
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			yield(Info{}, err)
			return false
		}
		info, err := f.statBlob(root, a)
		if errors.Is(err, ErrMissing) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			info.Hash = a.fullHash()
		}
		if !yield(info, err) {
			return false
		}
	}
	return true
}

// readFolder returns what is in a folder, by name.
func readFolder(root *os.Root, name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(root.FS(), name)
}

// checkFolder fails if a name is not that of a folder: links are not followed.
func checkFolder(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err == nil && !info.IsDir() {
		return &Error{Err: ErrDamaged, Detail: filepath.Join(root.Name(), name) + " is no folder but " + describeMode(info)}
	}
	return err
}

// describeMode returns the mode of a file as ls writes it: "Lrwxrwxrwx" for a link.
func describeMode(info fs.FileInfo) string { return info.Mode().String() }

// lookUpFile returns what stands at an address, if it is a regular file.
func lookUpFile(root *os.Root, a address) (fs.FileInfo, error) {
	err := checkFolder(root, a.folderName())
	var info fs.FileInfo
	if err == nil {
		info, err = root.Lstat(a.filePath())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Hash: a.fullHash(), Err: ErrMissing}
	case err != nil:
		return nil, wrapError(a.fullHash(), "look up", err)
	case !info.Mode().IsRegular():
		return nil, &Error{Hash: a.fullHash(), Err: ErrDamaged, Detail: "no regular file but " + describeMode(info)}
	}
	return info, nil
}

// openBlob opens what stands at an address for reading, if it is a regular file.
func openBlob(root *os.Root, a address) (*os.File, fs.FileInfo, error) {
	if _, err := lookUpFile(root, a); err != nil {
		return nil, nil, err
	}
	file, err := root.OpenFile(a.filePath(), os.O_RDONLY|noWait, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &Error{Hash: a.fullHash(), Err: ErrMissing}
	}
	if err != nil {
		return nil, nil, wrapError(a.fullHash(), "open", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &Error{Hash: a.fullHash(), Err: ErrDamaged, Detail: "replaced by " + describeMode(info)}
	}
	if err != nil {
		_ = file.Close() // it was not even read
		return nil, nil, wrapError(a.fullHash(), "open", err)
	}
	return file, info, nil
}
