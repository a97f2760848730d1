package socket

import (
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answerOne says hello to the next connection.
func answerOne(t *testing.T, l *Listener) {
	t.Helper()
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte("hello"))
			_ = c.Close()
		}
	}()
}

func requireHello(t *testing.T, dir string) {
	t.Helper()
	c, err := Dial(t.Context(), dir)
	require.NoError(t, err)
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "hello", string(text))
	require.NoError(t, c.Close())
}

// shortDir returns a new folder whose path leaves room for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "s")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestListenAndDial(t *testing.T) {
	dir := shortDir(t)
	_, err := Dial(t.Context(), dir)
	require.ErrorIs(t, err, ErrNoEngine)
	l, err := Listen(dir)
	require.NoError(t, err)
	info, err := os.Lstat(filepath.Join(dir, File))
	require.NoError(t, err)
	require.Equal(t, fs.ModeSocket|0o600, info.Mode())
	answerOne(t, l)
	requireHello(t, dir)
	require.NoError(t, l.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = Dial(t.Context(), dir)
	require.ErrorIs(t, err, ErrNoEngine)
}

// The socket of an engine that was killed is refused by Dial and replaced by Listen.
func TestAStaleSocketIsReplaced(t *testing.T) {
	dir := shortDir(t)
	killed, err := Listen(dir)
	require.NoError(t, err)
	require.NoError(t, killed.UnixListener.Close()) // and nothing is removed
	_, err = Dial(t.Context(), dir)
	require.ErrorIs(t, err, ErrNoEngine)
	l, err := Listen(dir)
	require.NoError(t, err)
	_ = killed.Close() // as of one that is late: the socket is not its own
	answerOne(t, l)
	requireHello(t, dir)
	require.NoError(t, l.Close())
}

// A path without room for a socket has a file that says where it is. A copy of the directory is
// not led to the engine of the original, and what is stale is removed.
func TestALongPath(t *testing.T) {
	temp := shortDir(t)
	t.Setenv("TMPDIR", temp)
	t.Setenv("XDG_RUNTIME_DIR", "")
	root := shortDir(t)
	dir := filepath.Join(root, strings.Repeat("long", 30))
	require.NoError(t, os.Mkdir(dir, 0o700))
	killed, err := Listen(dir)
	require.NoError(t, err)
	require.NoError(t, killed.UnixListener.Close())
	l, err := Listen(dir)
	require.NoError(t, err)
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the folder of the one that was killed is gone")
	info, err := entries[0].Info()
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|0o700, info.Mode())
	answerOne(t, l)
	requireHello(t, dir)

	twin := filepath.Join(root, "twin")
	require.NoError(t, os.CopyFS(twin, os.DirFS(dir)))
	_, err = Dial(t.Context(), twin)
	require.ErrorIs(t, err, ErrNoEngine)
	require.ErrorContains(t, err, "copy")
	other, err := Listen(twin)
	require.NoError(t, err)
	require.NoError(t, other.Close())
	answerOne(t, l)
	requireHello(t, dir)

	require.NoError(t, l.Close())
	entries, err = os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// A folder, a link or a text under the name of the socket is nothing that leads anywhere.
func TestWhatIsNoSocket(t *testing.T) {
	for what, put := range map[string]func(path string) error{
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":   func(path string) error { return os.Symlink("/nowhere", path) },
	} {
		dir := shortDir(t)
		require.NoError(t, put(filepath.Join(dir, File)))
		_, err := Listen(dir)
		require.ErrorContains(t, err, "remove it", what)
		_, err = Dial(t.Context(), dir)
		require.ErrorIs(t, err, ErrNoEngine, what)
	}
	dir := shortDir(t)
	for _, text := range []string{"", "\n", "/a\n", "a\nb\n", strings.Repeat("x", maxAddress+1)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600))
		_, err := Dial(t.Context(), dir)
		require.ErrorIs(t, err, ErrNoEngine)
	}
	l, err := Listen(dir)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// Both ends of a connection are of this user.
func TestThePeerIsOfThisUser(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(shortDir(t), "x"), Net: "unix"})
	require.NoError(t, err)
	c, err := net.Dial("unix", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, checkPeer(c.(*net.UnixConn)))
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
}

// The folder of a socket is below that of the user's session, where there is one, and stays when that is swept. If it
// was removed all the same, callers are told what to do.
func TestTheFolderOfTheSession(t *testing.T) {
	session := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", session)
	dir := filepath.Join(shortDir(t), strings.Repeat("long", 30))
	require.NoError(t, os.Mkdir(dir, 0o700))
	l, err := Listen(dir)
	require.NoError(t, err)
	require.Equal(t, session, filepath.Dir(l.folder))
	info, err := os.Stat(l.folder)
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|fs.ModeSticky|0o700, info.Mode())
	answerOne(t, l)
	requireHello(t, dir)
	require.NoError(t, os.RemoveAll(l.folder))
	_, err = Dial(t.Context(), dir)
	require.ErrorIs(t, err, ErrNoEngine)
	require.ErrorContains(t, err, "was removed: if the engine lives, close and open it again")
	require.NoError(t, l.Close())

	long := filepath.Join(session, strings.Repeat("long", 30))
	require.NoError(t, os.Mkdir(long, 0o700))
	for _, unusable := range []string{"relative", filepath.Join(session, "none"), long} {
		t.Setenv("XDG_RUNTIME_DIR", unusable)
		t.Setenv("TMPDIR", shortDir(t))
		l, err := Listen(dir)
		require.NoError(t, err, unusable)
		require.Equal(t, os.Getenv("TMPDIR"), filepath.Dir(l.folder))
		require.NoError(t, l.Close())
	}
}
