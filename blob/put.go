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

// Put implements Store. On a full disk it returns an *Error with the system's
// ENOSPC or EDQUOT. The blob replaces a link or a FIFO in its place; a folder
// there is left alone, and Put returns an *Error with ErrDamaged. The content
// and its name are durable when it returns, the Info.Time need not be.
func (f *Files) Put(ctx context.Context, r io.Reader) (hash string, size int64, err error) {
	if r == nil {
		return "", 0, &Error{Err: fs.ErrInvalid, Detail: "put: there is nothing to read"}
	}
	root, err := f.prepareFolder(ctx)
	if err != nil {
		return "", 0, err
	}
	t, err := newTemporary(root)
	if err != nil {
		return "", 0, wrapError("", "put", err)
	}
	defer t.discardFile()
	f.at(created)
	if err := f.fillTemporary(ctx, t, r); err != nil {
		return "", 0, err
	}
	a := addressOf(t.sum.Sum(nil))
	if err := f.placeBlob(ctx, t, a); err != nil {
		return "", 0, err
	}
	return a.fullHash(), t.size, nil
}

// prepareFolder returns the folder of the store. The first Put makes it, and tmp in
// it.
func (f *Files) prepareFolder(ctx context.Context) (*os.Root, error) {
	if err := ctx.Err(); err != nil {
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
	if err := f.makeFolders(f.dir); err != nil {
		return nil, wrapError("", "make the folder", err)
	}
	if f.root == nil {
		root, err := os.OpenRoot(f.dir)
		if err != nil {
			return nil, wrapError("", "open", err)
		}
		f.root = root
	}
	if err := f.root.Mkdir(tmpFolder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, wrapError("", "make the folder", err)
	}
	if err := checkFolder(f.root, tmpFolder); err != nil {
		return nil, err
	}
	f.prepared = true
	return f.root, nil
}

// makeFolders makes a folder and those above it, as far as they are missing, and
// syncs the one that it is in: the process that made it may have died before it
// did that.
func (f *Files) makeFolders(path string) error {
	err := os.Mkdir(path, 0o700)
	above := filepath.Dir(path)
	if errors.Is(err, fs.ErrNotExist) && above != path {
		if err = f.makeFolders(above); err == nil {
			err = os.Mkdir(path, 0o700)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.syncAndClose(os.Open(above))
}

// syncAndClose makes a file or the names in a folder durable, and closes it.
func (f *Files) syncAndClose(file *os.File, err error) error {
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

// discardFile closes the file and removes it, unless it has got its address.
func (t *temporary) discardFile() {
	_ = t.file.Close() // nothing depends on it, or it is closed
	if t.name != "" {
		_ = t.root.Remove(t.name) // else the next OpenFiles does
	}
}

// fillTemporary reads r to its end into t.
func (f *Files) fillTemporary(ctx context.Context, t *temporary, r io.Reader) (err error) {
	read := func(to io.Writer) (int64, error) { return copyChunks(ctx, to, r, func() { f.at(written) }) }
	if f.sealer.IsOn() {
		t.size, err = f.copySealed(t, read)
	} else {
		t.size, err = read(io.MultiWriter(f.write(t.file), t.sum))
	}
	return err
}

// copyChunks copies r to its end, and calls after when it has written a chunk. Errors of r and
// of ctx are returned as they are, those of to as an *Error.
func copyChunks(ctx context.Context, to io.Writer, r io.Reader, after func()) (size int64, err error) {
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
				return size, wrapError("", "write after "+strconv.FormatInt(size, 10)+" bytes", err)
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

// placeBlob makes t the blob at its address, or finds that the same content is there
// already.
func (f *Files) placeBlob(ctx context.Context, t *temporary, a address) error {
	if err := f.makeSubfolder(t.root, a); err != nil {
		return wrapError(a.fullHash(), "put", err)
	}
	found, err := f.refreshBlob(ctx, t, a)
	if err == nil && !found {
		err = f.installBlob(t, a)
	}
	if err != nil {
		return err
	}
	if err := f.syncAndClose(t.root.Open(a.folderName())); err != nil {
		return wrapError(a.fullHash(), "sync", err)
	}
	f.at(listed)
	return nil
}

// makeSubfolder makes the folder of an address. Its name is synced when it is new, and
// once for every Files: the process that made it may have died before that.
func (f *Files) makeSubfolder(root *os.Root, a address) error {
	synced := &f.synced[a.folderNumber()]
	err := root.Mkdir(a.folderName(), 0o700)
	if errors.Is(err, fs.ErrExist) {
		if err = checkFolder(root, a.folderName()); err == nil && synced.Load() {
			return nil
		}
	}
	if err == nil {
		err = f.syncAndClose(root.Open("."))
	}
	if err == nil {
		synced.Store(true)
	}
	return err
}

// refreshBlob gives the blob at an address a new time, and reports whether there is
// one that is whole: of the right size, and read through. Anything else there is to
// be replaced.
func (f *Files) refreshBlob(ctx context.Context, t *temporary, a address) (bool, error) {
	file, info, err := openBlob(t.root, a)
	if err != nil {
		return false, nil
	}
	defer func() { _ = file.Close() }() // it was only read
	content, size := io.Reader(file), info.Size()
	if f.sealer.IsOn() {
		sealed, err := f.openSealed(file)
		if err != nil || sealed == nil {
			return false, nil //nolint:nilerr // it is to be replaced, also if it was put without a codec
		}
		content, size = sealed, sealed.Size
	}
	if size != t.size {
		return false, nil
	}
	sum := sha256.New()
	if _, err := copyChunks(ctx, sum, content, func() {}); err != nil {
		return false, ctx.Err() // unreadable is as bad as damaged
	}
	if !bytes.Equal(sum.Sum(nil), t.sum.Sum(nil)) {
		return false, nil
	}
	f.at(compared)
	found, err := f.touchBlob(t.root, a, info)
	if found && err == nil {
		f.at(refreshed)
	}
	return found, err
}

// touchBlob gives a blob a new time, if it is still the file that was read.
func (f *Files) touchBlob(root *os.Root, a address, read fs.FileInfo) (bool, error) {
	f.names.Lock()
	defer f.names.Unlock()
	now, err := lookUpFile(root, a)
	if err != nil || !os.SameFile(now, read) {
		return false, nil
	}
	return true, wrapError(a.fullHash(), "set the time", setTimeToNow(root, a.filePath()))
}

// setTimeToNow sets the time of a file to now, by the clock that callers read.
func setTimeToNow(root *os.Root, name string) error {
	now := time.Now()
	return root.Chtimes(name, now, now)
}

// installBlob syncs t and gives it its address.
func (f *Files) installBlob(t *temporary, a address) error {
	err := f.sync(t.file)
	if closed := t.file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return wrapError(a.fullHash(), "sync", err)
	}
	f.at(stored)
	if err := f.renameTemporary(t, a); err != nil {
		if info, at := t.root.Lstat(a.filePath()); at == nil && info.IsDir() {
			return &Error{Hash: a.fullHash(), Err: ErrDamaged, Detail: "a folder stands in its place"}
		}
		return wrapError(a.fullHash(), "put", err)
	}
	f.at(named)
	f.bytes.Add(t.size)
	return nil
}

func (f *Files) renameTemporary(t *temporary, a address) error {
	f.names.Lock()
	defer f.names.Unlock()
	if err := setTimeToNow(t.root, t.name); err != nil {
		return err
	}
	if err := t.root.Rename(t.name, a.filePath()); err != nil {
		return err
	}
	t.name = ""
	return nil
}
