package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/replay"
)

// The sources of runs that a command has read, as each screen says: a live engine, files, an
// export. It is said beside every answer, since an answer from files may be old, and one that is
// live may change.
type sources []string

// noteSource adds a source once.
func (s *sources) noteSource(text string) {
	if !slices.Contains(*s, text) {
		*s = append(*s, text)
	}
}

// saySources says on the side whence runs came; programs are not told.
func (con *console) saySources(asJSON bool, from sources) {
	if !asJSON && len(from) > 0 {
		fmt.Fprintln(con.Errs, printableText(strings.Join(from, ", ")))
	}
}

// filesText names files that are read at an instant, in the zone in which that is shown.
func filesText(at time.Time) string { return "files, as of " + at.Format(time.TimeOnly) }

// sourceOf names what a path is read from at an instant: the file itself, or the files of a directory.
func sourceOf(path string, at time.Time) string {
	if isRunsFile(path) {
		return filepath.Base(path)
	}
	return filesText(at)
}

// liveText names the engine that a client asks.
func liveText(ctx context.Context, client *api.Client) (string, error) {
	info, err := client.Engine(ctx)
	return fmt.Sprintf("live, pid %d", info.PID), err
}

// checkRunsFile fails if a path is that of something in which no runs can be: a file of another
// kind, a pipe. It says nothing of directories, nor of files whose names say that they are of runs:
// a fault in such a file is damage. Without it a definition, or any text, that is given in place of
// a run would be reported as a damaged file of runs.
func checkRunsFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil || info.IsDir():
		return nil // whoever opens it tells
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file of runs: it is no regular file", path)
	case filepath.Ext(path) == ".db" || filepath.Ext(path) == ".pawl":
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	begin := make([]byte, max(len(sqliteMagic), len(sealedMagic), len(portable.Start)))
	n, err := io.ReadFull(file, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	for _, magic := range []string{sqliteMagic, sealedMagic, portable.Start} {
		if bytes.HasPrefix(begin[:n], []byte(magic)) {
			return nil
		}
	}
	return fmt.Errorf("%s is no file of runs: it is neither an export or archive nor the file of a run", path)
}

// isEngineDirectory reports whether a path is that of an engine directory.
func isEngineDirectory(path string) bool {
	_, err := os.Lstat(filepath.Join(path, "pawl.db"))
	return err == nil
}

// checkNamed fails if a name that should be that of one run is that of an engine directory, or of a
// file without runs. The error is fs.ErrNotExist if it can only be the id of a run in the
// directory. A folder of the name of a run is no obstacle: it counts as absent, and the id is
// looked up.
func checkNamed(name string) error {
	if _, _, ok := replay.SplitName(name); ok {
		return nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir() && isEngineDirectory(name):
		return fmt.Errorf("%s is an engine directory: name one of its runs, as RUN --dir %s", name, name)
	case info.IsDir():
		return fmt.Errorf("%s is a folder: %w", name, fs.ErrNotExist)
	}
	return checkRunsFile(name)
}
