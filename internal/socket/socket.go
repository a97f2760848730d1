// Package socket lets programs of one user reach the engine that has a directory open: by a
// unix socket in it, to which nobody else can connect.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// The names below an engine directory.
const (
	File    = "socket"     // the socket or, where that has no room, a file that says where it is
	NewFile = "socket.new" // what is to become it
)

// ErrNoEngine says that nobody listens: no engine has the directory open, or one without a socket.
var ErrNoEngine = errors.New("no engine answers in this directory")

// maxPath is how long the path of a socket may be, in bytes: the least of what systems take.
const maxPath = 103

// A Listener accepts connections of processes of its own user.
type Listener struct {
	*net.UnixListener
	name   string      // below the engine directory
	info   os.FileInfo // of what it has made under that name
	folder string      // elsewhere, that has the socket; "" if the directory has it
	close  sync.Once
	closed error
}

// Listen makes a socket of mode 0600 in an engine directory, which the caller has locked: what
// is there of an engine that was killed is replaced. Where the path is too long for a
// socket, or the file system has none, it is made in a new folder of mode 0700, below $XDG_RUNTIME_DIR if
// that may be used, else below the folder for temporary files, and a file in the directory says where.
func Listen(dir string) (*Listener, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l := &Listener{name: filepath.Join(abs, File)}
	if err := removeStale(abs); err != nil {
		return nil, err
	}
	building := filepath.Join(abs, NewFile)
	if l.UnixListener, err = bind(building); err != nil {
		err = l.listenElsewhere(abs, building)
	}
	if err == nil {
		err = os.Rename(building, l.name)
	}
	if err == nil {
		l.info, err = os.Lstat(l.name)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on a socket in %s: %w", abs, err), l.Close())
	}
	return l, nil
}

// bind listens at a path that nothing has.
func bind(path string) (*net.UnixListener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("the path %s has more than %d bytes", path, maxPath)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it gets another name
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(path))
	}
	return l, nil
}

// makeFolder makes a folder that has room for a socket. The sweeper of a user's session folder leaves alone
// entries with the sticky bit, see https://specifications.freedesktop.org/basedir-spec.
func makeFolder() (string, error) {
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		folder, err := os.MkdirTemp(runtime, folderPrefix)
		if err == nil && len(filepath.Join(folder, File)) <= maxPath && os.Chmod(folder, 0o700|fs.ModeSticky) == nil {
			return folder, nil
		}
		if err == nil {
			_ = os.Remove(folder) // it is empty
		}
	}
	return os.MkdirTemp("", folderPrefix)
}

// listenElsewhere makes the socket in a folder of its own, and a file that says where.
func (l *Listener) listenElsewhere(abs, building string) (err error) {
	if l.folder, err = makeFolder(); err != nil {
		return err
	}
	at := filepath.Join(l.folder, File)
	if l.UnixListener, err = bind(at); err != nil {
		return err
	}
	of, err := identityOf(abs)
	if err != nil {
		return err
	}
	return os.WriteFile(building, []byte(address{path: at, of: of}.String()), 0o600)
}

const folderPrefix = "pawl-socket-"

// Accept waits for the next connection of a process of the same user. Connections of others are closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if checkPeer(c) == nil {
			return c, nil
		}
		_ = c.Close() // nothing was said
	}
}

// Close stops to listen, and removes the socket, unless somebody else has made another one. Further
// calls return the same.
func (l *Listener) Close() error {
	l.close.Do(func() { l.closed = l.closeAndRemove() })
	return l.closed
}

func (l *Listener) closeAndRemove() error {
	var errs []error
	if l.UnixListener != nil {
		errs = append(errs, l.UnixListener.Close())
	}
	if now, err := os.Lstat(l.name); l.info != nil && err == nil && os.SameFile(now, l.info) {
		errs = append(errs, os.Remove(l.name))
	}
	if l.folder != "" {
		errs = append(errs, removeFolder(l.folder))
	}
	return errors.Join(errs...)
}

// removeFolder removes a folder that had a socket, and nothing else.
func removeFolder(folder string) error {
	for _, name := range []string{filepath.Join(folder, File), folder} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeStale removes what an engine that was killed has left, but for what Listen replaces.
func removeStale(abs string) error {
	if err := os.Remove(filepath.Join(abs, NewFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := os.Lstat(filepath.Join(abs, File))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() == fs.ModeSocket:
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no socket but %v: remove it", filepath.Join(abs, File), info.Mode().Type())
	}
	a, err := readAddress(abs)
	if err != nil {
		return nil // of a directory that was copied, or written in part
	}
	if folder := filepath.Dir(a.path); strings.HasPrefix(filepath.Base(folder), folderPrefix) {
		return removeFolder(folder)
	}
	return nil
}

// Dial connects to the engine that has a directory open. It fails with ErrNoEngine if nobody
// listens, and if whoever does is of another user.
func Dial(ctx context.Context, dir string) (net.Conn, error) {
	path := filepath.Join(dir, File)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no %s", ErrNoEngine, path)
	case err != nil:
		return nil, err
	case info.Mode().IsRegular():
		a, err := readAddress(dir)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
		}
		path = a.path
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s was removed: if the engine lives, close and open it again, with a shorter path of its directory or an XDG_RUNTIME_DIR that is not swept", ErrNoEngine, path)
		}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	if err := checkPeer(c.(*net.UnixConn)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), c.Close())
	}
	return c, nil
}

// An address says where the socket of a directory is.
type address struct {
	path string
	of   string // identity of the directory, which copies of it do not have
}

// String returns the text of the file.
func (a address) String() string { return a.path + "\n" + a.of + "\n" }

// maxAddress bounds what is read of the file.
const maxAddress = 8 << 10

// readAddress reads where the socket of a directory is. It fails if that was said of another one.
func readAddress(dir string) (address, error) {
	name := filepath.Join(dir, File)
	info, err := os.Lstat(name)
	if err != nil {
		return address{}, err
	}
	if info.Size() > maxAddress {
		return address{}, fmt.Errorf("%s is no address", name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return address{}, err
	}
	path, of, _ := strings.Cut(string(text), "\n")
	a := address{path: path, of: strings.TrimSuffix(of, "\n")}
	mine, err := identityOf(dir)
	switch {
	case err != nil:
		return address{}, err
	case a.String() != string(text) || !filepath.IsAbs(path):
		return address{}, fmt.Errorf("%s is no address", name)
	case a.of != mine:
		return address{}, fmt.Errorf("%s is of another directory, of which this is a copy", name)
	}
	return a, nil
}
