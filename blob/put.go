package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	chunkSize    = 64 << 10 // bytes that are read at a time
	maxIdleReads = 100      // reads in a row without data or error, as in bufio
)

// chunks are the buffers of Puts that have ended.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// Put is that of Store. A disk that is full is an *Error with the system's
// ENOSPC or EDQUOT. Where a link or a FIFO stands in the blob's place, the blob
// replaces it; a folder there is left alone and an *Error with ErrDamaged. The
// content and its name are durable when it returns, the Info.Time need not be.
func (f *Files) Put(ctx context.Context, r io.Reader) (hash string, size int64, err error) {
	if r == nil {
		return "", 0, &Error{Err: fs.ErrInvalid, Detail: "put: there is nothing to read"}
	}
	root, err := f.prepare(ctx)
	if err != nil {
		return "", 0, err
	}
	t, err := newTemporary(root)
	if err != nil {
		return "", 0, wrap("", "put", err)
	}
	defer t.drop()
	f.at(created)
	if err := f.fill(ctx, t, r); err != nil {
		return "", 0, err
	}
	a := addressOf(t.sum.Sum(nil))
	if err := f.keep(ctx, t, a); err != nil {
		return "", 0, err
	}
	return a.hash(), t.size, nil
}

// prepare returns the folder. The first Put makes it, and tmp in it.
func (f *Files) prepare(ctx context.Context) (*os.Root, error) {
	if err := begun(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, &Error{Err: fs.ErrClosed}
	case f.readOnly:
		return nil, &Error{Err: fs.ErrPermission, Detail: "put"}
	case f.prepared:
		return f.root, nil
	case f.dir == "":
		return nil, &Error{Err: fs.ErrInvalid, Detail: "put: no folder"}
	}
	if err := f.makeFolder(f.dir); err != nil {
		return nil, wrap("", "make the folder", err)
	}
	if f.root == nil {
		root, err := os.OpenRoot(f.dir)
		if err != nil {
			return nil, wrap("", "open", err)
		}
		f.root = root
	}
	if err := f.root.Mkdir(tmpFolder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, wrap("", "make the folder", err)
	}
	if err := checkFolder(f.root, tmpFolder); err != nil {
		return nil, err
	}
	f.prepared = true
	return f.root, nil
}

// makeFolder makes a folder and those above it, as far as they are missing, and
// syncs the one that it is in: the process that made it may have died before it
// did that.
func (f *Files) makeFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	above := filepath.Dir(path)
	if errors.Is(err, fs.ErrNotExist) && above != path {
		if err = f.makeFolder(above); err == nil {
			err = os.Mkdir(path, 0o700)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.flush(os.Open(above))
}

// flush makes a file or the names in a folder durable, and closes it.
func (f *Files) flush(file *os.File, err error) error {
	if err != nil {
		return err
	}
	err = f.sync(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// A temporary is a file in tmp that a Put writes.
type temporary struct {
	root *os.Root
	name string // "" when it is no longer in tmp
	file *os.File
	sum  hash.Hash
	size int64
}

func newTemporary(root *os.Root) (*temporary, error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	name := tmpFolder + "/" + tmpPrefix + hex.EncodeToString(random[:])
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return nil, err
	}
	return &temporary{root: root, name: name, file: file, sum: sha256.New()}, nil
}

// drop closes the file and removes it, unless it has got its address.
func (t *temporary) drop() {
	_ = t.file.Close() // nothing depends on it, or it is closed
	if t.name != "" {
		_ = t.root.Remove(t.name) // else the next OpenFiles does
	}
}

// fill reads r to its end into t.
func (f *Files) fill(ctx context.Context, t *temporary, r io.Reader) (err error) {
	t.size, err = pump(ctx, io.MultiWriter(f.write(t.file), t.sum), r, func() { f.at(written) })
	return err
}

// pump copies r to its end, and calls after behind every chunk. Errors of r and
// of ctx are returned as they are, those of to as an *Error.
func pump(ctx context.Context, to io.Writer, r io.Reader, after func()) (size int64, err error) {
	buffer := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(buffer)
	chunk := buffer[:]
	for idle := 0; idle < maxIdleReads; idle++ {
		if err := ctx.Err(); err != nil {
			return size, err
		}
		n, end := r.Read(chunk)
		if n > 0 {
			idle = 0
			if _, err := to.Write(chunk[:n]); err != nil {
				return size, wrap("", "write after "+strconv.FormatInt(size, 10)+" bytes", err)
			}
			size += int64(n)
			after()
		}
		if end == io.EOF {
			return size, nil
		}
		if end != nil {
			return size, end
		}
	}
	return size, io.ErrNoProgress
}

// keep makes t the blob at its address, or finds that the same is there.
func (f *Files) keep(ctx context.Context, t *temporary, a address) error {
	if err := f.makeSub(t.root, a); err != nil {
		return wrap(a.hash(), "put", err)
	}
	found, err := f.refresh(ctx, t, a)
	if err == nil && !found {
		err = f.install(t, a)
	}
	if err != nil {
		return err
	}
	if err := f.flush(t.root.Open(a.folder())); err != nil {
		return wrap(a.hash(), "sync", err)
	}
	f.at(listed)
	return nil
}

// makeSub makes the folder of an address. Its name is synced when it is new, and
// once for every Files: the process that made it may have died before that.
func (f *Files) makeSub(root *os.Root, a address) error {
	synced := &f.synced[a.first()]
	err := root.Mkdir(a.folder(), 0o700)
	if errors.Is(err, fs.ErrExist) {
		if err = checkFolder(root, a.folder()); err == nil && synced.Load() {
			return nil
		}
	}
	if err == nil {
		err = f.flush(root.Open("."))
	}
	if err == nil {
		synced.Store(true)
	}
	return err
}

// refresh gives the blob at an address a new time, and reports whether there is
// one that is whole: of the right size, and read through. Whatever else is there
// is to be replaced.
func (f *Files) refresh(ctx context.Context, t *temporary, a address) (bool, error) {
	file, info, err := openBlob(t.root, a)
	if err != nil {
		return false, nil
	}
	defer func() { _ = file.Close() }() // it was only read
	if info.Size() != t.size {
		return false, nil
	}
	sum := sha256.New()
	if _, err := pump(ctx, sum, file, func() {}); err != nil {
		return false, ctx.Err() // unreadable is as bad as damaged
	}
	if !bytes.Equal(sum.Sum(nil), t.sum.Sum(nil)) {
		return false, nil
	}
	f.at(compared)
	found, err := f.touch(t.root, a, info)
	if found && err == nil {
		f.at(refreshed)
	}
	return found, err
}

// touch gives a blob a new time, if it is still the file that was read.
func (f *Files) touch(root *os.Root, a address, read fs.FileInfo) (bool, error) {
	f.names.Lock()
	defer f.names.Unlock()
	now, err := lookUp(root, a)
	if err != nil || !os.SameFile(now, read) {
		return false, nil
	}
	return true, wrap(a.hash(), "set the time", setTime(root, a.path()))
}

// setTime sets the time of a file to now, by the clock that callers read.
func setTime(root *os.Root, name string) error {
	now := time.Now()
	return root.Chtimes(name, now, now)
}

// install syncs t and gives it its address.
func (f *Files) install(t *temporary, a address) error {
	err := f.sync(t.file)
	if closed := t.file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return wrap(a.hash(), "sync", err)
	}
	f.at(stored)
	if err := f.rename(t, a); err != nil {
		if info, at := t.root.Lstat(a.path()); at == nil && info.IsDir() {
			return &Error{Hash: a.hash(), Err: ErrDamaged, Detail: "a folder stands in its place"}
		}
		return wrap(a.hash(), "put", err)
	}
	f.at(named)
	return nil
}

func (f *Files) rename(t *temporary, a address) error {
	f.names.Lock()
	defer f.names.Unlock()
	if err := setTime(t.root, t.name); err != nil {
		return err
	}
	if err := t.root.Rename(t.name, a.path()); err != nil {
		return err
	}
	t.name = ""
	return nil
}
