package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"

	"modernc.org/sqlite/vfs"
)

// readerPragmas are for a database that is read where it is: what a query sorts stays in
// memory, since there is no place for files beside it.
const readerPragmas = `PRAGMA temp_store=MEMORY; `

// OpenReader opens the database in f, which must be an [io.Seeker] and may not change,
// for reading, page by page. Another file that has its name by now, and files beside
// it, are not looked at. Close closes f, and so does OpenReader if it fails.
func OpenReader(f fs.File, pragmas string) (*Conn, error) {
	system, err := registerReaders()
	if err != nil {
		return nil, fmt.Errorf("open a database for reading: %w", errors.Join(err, f.Close()))
	}
	name := readers.lend(f)
	c, err := openURI("file:"+name+"?mode=ro&immutable=1&vfs="+system, readerPragmas+pragmas, false)
	if left := readers.takeFile(name); left != nil { // SQLite has not come to it
		err = errors.Join(err, left.Close())
	}
	return c, err
}

// registerReaders makes the readers known to SQLite, for the life of the process, and
// returns the name that they have there.
var registerReaders = sync.OnceValues(func() (string, error) {
	name, _, err := vfs.New(readers)
	return name, err
})

// readers are the files that connections are about to read.
var readers = &lentFiles{files: map[string]fs.File{}}

// lentFiles is a file system of open files. Each is there until it is opened.
type lentFiles struct {
	mu    sync.Mutex
	last  int
	files map[string]fs.File
}

// lend puts a file there and returns its name.
func (l *lentFiles) lend(f fs.File) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	name := strconv.Itoa(l.last)
	l.files[name] = f
	return name
}

// takeFile removes a file and returns it, nil if it is not there.
func (l *lentFiles) takeFile(name string) fs.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[name]
	delete(l.files, name)
	return f
}

// Open implements fs.FS: it takes the file.
func (l *lentFiles) Open(name string) (fs.File, error) {
	if f := l.takeFile(name); f != nil {
		return f, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Stat implements fs.StatFS: journals, for which SQLite looks, are not there.
func (l *lentFiles) Stat(name string) (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}
