//go:build unix

package damagetest

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/rescue"
)

const socket = "socket, or as good as that"

// stands are the things that may stand at a name in the place of a file or a
// folder. The file itself was moved away.
var stands = map[string]func(path, moved string) error{
	"symbolic link":            func(path, moved string) error { return os.Symlink(moved, path) },
	"symbolic link to nothing": func(path, moved string) error { return os.Symlink(moved+"-not", path) },
	"hard link":                func(path, moved string) error { return os.Link(moved, path) },
	"pipe":                     func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
	"directory":                func(path, _ string) error { return os.Mkdir(path, 0o700) },
	socket:                     func(path, _ string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) },
}

// TestOtherKindsOfFiles puts a link, a pipe or a directory at each name in the
// directory. It must be refused, and nothing outside be touched.
func TestOtherKindsOfFiles(t *testing.T) {
	s := newSceneOf(t, harness.Workspace(t), redoFile)
	cold := tell(t, s.cold)
	base := harness.Workspace(t)
	possible := standable(t, base)
	var y tally
	n, quick := 0, harness.CurrentLevel() == harness.Quick
	for f, from := range []string{s.cold, s.hot} {
		full := s.truth
		if from == s.cold {
			full = cold
		}
		file := fileOf(t, from, "wait-1")
		for i, name := range []string{indexFile, indexWAL, redoFile, indexFile + "-sums", indexFile + "-shm", indexFile + "-journal", lockFile, runsDir, filepath.Dir(file), file} {
			for k, kind := range slices.Sorted(maps.Keys(possible)) {
				if quick && (i+k)%4 != f {
					continue // half of the places of each kind, and of the kinds at each place
				}
				put, dir := possible[kind], filepath.Join(base, "dir")
				if replaced(t, from, dir, name, kind, put) {
					n++
					y.count(kind)
					y.judgeName(t, kind+" at "+strings.Replace(name, file, "a run's file", 1), dir, file, full)
				}
				for _, p := range []string{dir, dir + "-outside"} {
					if err := os.RemoveAll(p); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	var must []string
	for kind := range possible {
		must = append(must, kind)
	}
	y.report(t, n, append(must, "refused", "runs are refused")...)
}

// standable returns what may stand at a name on this system: not every one lets a
// process without rights make a socket that way.
func standable(t *testing.T, base string) map[string]func(path, moved string) error {
	out := maps.Clone(stands)
	at := filepath.Join(base, "socket")
	err := out[socket](at, "")
	if runtime.GOOS != "linux" && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL)) {
		t.Logf("LEFT OUT: %s: %v", socket, err)
		delete(out, socket)
		return out
	}
	if err == nil {
		err = os.Remove(at)
	}
	if err != nil {
		t.Fatalf("%s: %v", socket, err)
	}
	return out
}

// replaced copies a directory and puts something at a name in it. It reports
// whether that is possible and is something else than was there.
func replaced(t *testing.T, from, dir, name, kind string, put func(path, moved string) error) bool {
	copyDir(t, from, dir)
	path, outside := filepath.Join(dir, name), dir+"-outside"
	if err := os.MkdirAll(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(outside, filepath.Base(name))
	info, err := os.Lstat(path)
	isDir := err == nil && info.IsDir()
	switch {
	case isDir && (kind == "directory" || kind == "hard link"):
		return false
	case errors.Is(err, os.ErrNotExist):
		err = os.WriteFile(moved, nil, 0o600)
	case err == nil:
		err = os.Rename(path, moved)
	}
	if err == nil {
		err = put(path, moved)
	}
	if err != nil {
		t.Fatalf("%s at %s: %v", kind, name, err)
	}
	return true
}

func (y *tally) judgeName(t *testing.T, name, dir, file string, full truth) {
	before := harness.Contents(t, dir+"-outside")
	h, err := read(dir)
	switch {
	case err != nil && !typed(err):
		y.violate("%s: %v", name, err)
	case err != nil:
		y.count("refused")
		if r, err := rescue.Verify(t.Context(), dir, rescue.Options{}); err == nil && r.Damage == 0 {
			y.violate("%s: verify finds nothing", name)
		}
	default:
		refused := 0
		for id, was := range full.runs {
			w := h.runs[id]
			switch {
			case w == nil:
				y.violate("%s: run %s is gone", name, id)
			case w.err != nil || w.loads != nil:
				if refused++; !typed(errors.Join(w.err, w.loads)) {
					y.violate("%s: run %s: %v", name, id, errors.Join(w.err, w.loads))
				}
			case w.text() != was.text():
				y.violate("%s: run %s has changed", name, id)
			}
		}
		switch {
		case refused > 0:
			y.count("runs are refused")
		case strings.HasPrefix(name, "hard link at a run's file"):
			y.count("the file of a run under two names, which nobody writes to")
		default:
			y.violate("%s: it is taken for what it is not", name)
		}
	}
	after := harness.Contents(t, dir+"-outside")
	for path, data := range before {
		if after[path] != data {
			y.violate("%s: %s outside has changed", name, path)
		}
	}
	if len(after) != len(before) {
		y.violate("%s: there is something new outside", name)
	}
}
