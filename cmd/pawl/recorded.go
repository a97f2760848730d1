package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A recordedFlag is embedded in the commands that read recorded runs. Unlike those of dirFlag, these commands plan the records again in this process,
// and so can read runs that no engine has, from files of any kind.
type recordedFlag struct {
	Dir string `default:"data" env:"PAWL_DIR" placeholder:"DIR" help:"The engine directory of runs that are named by their ids; $PAWL_DIR, or data."`
	UTC bool   `name:"utc" help:"Show times in UTC, not in the zone of this machine."`
	keyFlag
	jsonFlag
}

// zoneOf returns an instant in the zone in which it is shown.
func (f recordedFlag) zoneOf(at time.Time) time.Time { return dirFlag{UTC: f.UTC}.zoneOf(at) }

// openRecording opens the recording of a run as openWithBelow does, and notes whence it comes. The name is a file, DIR:RUN, or the
// id of a run in Dir; a file of that name wins. If an engine has the directory open, the files are locked, and the run is asked for
// as an export.
func (f recordedFlag) openRecording(
	ctx context.Context, con *console, name string, from *sources,
) (rec *replay.Recording, find findRun, done func(), err error) {
	keys, err := f.codec()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := checkNamed(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil, err
	}
	if info, err := os.Stat(name); err != nil || info.IsDir() {
		if name, err = f.pathOfRun(name); err != nil {
			return nil, nil, nil, err
		}
	}
	dir, id, ok := replay.SplitName(name)
	if !ok {
		dir = name
	}
	rec, find, done, locked := con.openWithBelow(ctx, name, keys)
	if !errors.Is(locked, pawl.ErrLocked) {
		from.noteSource(sourceOf(dir, f.zoneOf(con.Now())))
		return rec, find, done, locked
	}
	find = func(id workflow.RunID) (*replay.Recording, error) {
		for rec, err := range askRecordings(ctx, dir, id, locked, from) {
			return rec, err
		}
		return nil, locked
	}
	rec, err = find(id)
	return rec, find, rec.Close, err
}

// pathOf returns the path that a name stands for: its own if it is there, else that of a run of the engine directory.
func (f recordedFlag) pathOf(name string) (string, error) {
	if !f.isAbsent(name) {
		return name, nil
	}
	return f.pathOfRun(name)
}

// isAbsent reports whether nothing is at a path, or a folder without recordings that has the name of a run of the engine directory.
func (f recordedFlag) isAbsent(name string) bool {
	if _, err := os.Lstat(name); err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	if info, err := os.Stat(name); err != nil || !info.IsDir() || isEngineDirectory(name) {
		return false
	}
	rec, err := replay.Find(f.Dir+":"+name, replay.Options{})
	rec.Close()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, pawl.ErrRunNotFound) {
		return false
	}
	for rec, err := range replay.All(replay.Options{}, name) {
		if err == nil {
			rec.Close()
		}
		return false
	}
	return true
}

// pathOfRun returns the path of a run, of the engine directory unless the name has another one.
// replay.SplitName is true of DIR:RUN only where DIR is an engine directory or a file of runs.
func (f recordedFlag) pathOfRun(name string) (string, error) {
	if _, _, ok := replay.SplitName(name); ok {
		return name, nil
	}
	path := f.Dir + ":" + name
	if _, _, ok := replay.SplitName(path); !ok {
		return "", &toldError{fmt.Sprintf("%s is no file, nor a run: %s is no engine directory, name one with --dir or PAWL_DIR", name, f.Dir), fs.ErrNotExist}
	}
	return path, nil
}

// gathered is what eachRecording has come to. read and unreadable count recordings, not names: one directory may have thousands of them.
type gathered struct {
	read, unreadable int
	from             sources
}

// eachRecording calls do with the recordings that some names stand for, and says which cannot be read: with errAbsent if all of those are not there,
// else with errFiles. If there is nothing but one error, it returns that error itself. It goes on after a recording that cannot be read, since a
// check of a directory is about all of its runs. The first error is kept back: if it stays the only thing, the command prints it as its own, and not
// twice.
func (f recordedFlag) eachRecording(ctx context.Context, con *console, names []string, do func(*replay.Recording) error) (g gathered, failed error) {
	keys, err := f.codec()
	if err != nil {
		return g, err
	}
	var only error // it is told once there is something else
	tell := func() {
		if only != nil {
			fmt.Fprintln(con.Errs, "pawl:", errorText(only))
		}
		only = nil
	}
	for _, name := range names {
		for rec, err := range f.openRecordings(ctx, con, keys, name, &g.from) {
			if err == nil && ctx.Err() != nil {
				rec.Close()
				return g, context.Cause(ctx)
			}
			if err == nil {
				err = do(rec)
			}
			tell()
			if err == nil {
				g.read++
				continue
			}
			g.unreadable++
			if only = err; g.read > 0 || g.unreadable > 1 {
				tell()
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, pawl.ErrRunNotFound) {
				failed = errFiles
			} else if failed == nil {
				failed = errAbsent
			}
		}
	}
	if only != nil {
		return g, only
	}
	return g, failed
}

// errAbsent says that files or runs, which are listed already, are not there.
var errAbsent = &toldError{"some files or runs are not there", fs.ErrNotExist}

// nothingAt says that there are no runs where some were to be read.
func nothingAt(paths ...string) error {
	return &toldError{strings.Join(paths, ", ") + ": no recorded run is there: what counts are engine directories that have runs, files of runs (.db), exports and archives (.pawl), and folders with some of these", fs.ErrNotExist}
}

// openRecordings yields what a name stands for, as [replay.All] does, and notes whence it comes. The runs of an engine directory that is open, also
// of one in a folder, come from its engine. Where there is nothing, unless it is an engine directory without runs, that is an error. The reader
// closes what it gets. Each run of a directory that is locked would give the same error; replay.All yields that once, and in its place come the runs
// that the engine exports.
func (f recordedFlag) openRecordings(ctx context.Context, con *console, keys pawl.Codec, name string, from *sources) iter.Seq2[*replay.Recording, error] {
	return func(yield func(*replay.Recording, error) bool) {
		path, err := f.pathOf(name)
		if err == nil {
			err = checkRunsFile(path)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		dir, id, ok := replay.SplitName(path)
		if !ok {
			dir = path
		}
		// An engine directory without runs is no mistake of the user; a folder without any recording probably is.
		some := isEngineDirectory(dir)
		held, stop := "", func() {}
		defer func() { stop() }() // of the last directory
		for rec, err := range replay.All(replay.Options{Codec: keys}, path) {
			some = true
			if !errors.Is(err, pawl.ErrLocked) {
				if err == nil {
					from.noteSource(sourceOf(dir, f.zoneOf(con.Now())))
				}
				if err == nil && rec.Source != held {
					stop()
					held, stop = rec.Source, con.giveWay(ctx, rec.Source)
				}
				if !yield(rec, err) {
					return
				}
				continue
			}
			for rec, err := range askRecordings(ctx, lockedDirectory(dir, err), id, err, from) {
				if !yield(rec, err) {
					return
				}
			}
		}
		if !some {
			yield(nil, nothingAt(path))
		}
	}
}

// lockedDirectory returns which directory an error says to be locked: dir, or one in the folder dir.
func lockedDirectory(dir string, err error) string {
	if at := (*fs.PathError)(nil); !isEngineDirectory(dir) && errors.As(err, &at) {
		return at.Path
	}
	return dir
}

// askRecordings asks the engine that has a directory open for a run, or with "" for all. locked is the error if it does not answer. The engine gives
// each run as of the moment of its export: two runs of one directory may be of different instants.
func askRecordings(ctx context.Context, dir string, id workflow.RunID, locked error, from *sources) iter.Seq2[*replay.Recording, error] {
	return func(yield func(*replay.Recording, error) bool) {
		client, text, err := dialEngine(ctx, dir)
		if errors.Is(err, api.ErrNoEngine) {
			err = locked
		}
		if err != nil {
			yield(nil, err)
			return
		}
		defer client.Close()
		from.noteSource(text)
		if id != "" {
			// An export of a run has those below it as well: the one that is asked for is picked by its id.
			for rec, err := range exportedRuns(ctx, client, dir, id) {
				if err != nil || rec.Run == id { // and not one below it
					yield(rec, err)
					return
				}
			}
			return
		}
		// The ids come first, as an engine does not wait for long with the rest of a list. The other runs come with the roots.
		var ids []workflow.RunID
		for run, err := range client.Runs(ctx, pawl.RunFilter{Roots: true}) {
			if err != nil {
				yield(nil, err)
				return
			}
			ids = append(ids, run.Run)
		}
		for _, id := range ids {
			for rec, err := range exportedRuns(ctx, client, dir, id) {
				if errors.Is(err, pawl.ErrRunNotFound) { // it is purged meanwhile
					break
				}
				if !yield(rec, err) {
					return
				}
			}
		}
	}
}

// exportedRuns yields a run, and those below it, as an engine exports them. The export is read while it arrives, through a pipe, so its size does not
// matter. The goroutine ends when the export does, or when the reader stops: closing the pipe makes the write fail, and stop ends the request.
func exportedRuns(ctx context.Context, client *api.Client, dir string, id workflow.RunID) iter.Seq2[*replay.Recording, error] {
	return func(yield func(*replay.Recording, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		from, to := io.Pipe()
		done := make(chan struct{})
		go func() { // its end is awaited below
			defer close(done)
			err := client.Export(ctx, id, to, pawl.ExportOptions{})
			if err != nil {
				err = &exportError{err}
			}
			_ = to.CloseWithError(err) // it cannot fail
		}()
		defer func() {
			stop()
			_ = from.Close() // it cannot fail
			<-done
		}()
		for rec, err := range replay.ReadExported(from, dir) {
			if failed := (*exportError)(nil); errors.As(err, &failed) {
				err = failed.error // and not that a line is missing
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// An exportError says why an engine exports no more. It marks an error of the sending side on its way through the pipe, where the reader of the
// export would otherwise report a text that is cut short.
type exportError struct{ error }

// The sources of runs that a command has read, as each screen says: a live engine, files, an export. It is said beside every answer, since an answer
// from files may be old, and one that is live may change.
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

// checkRunsFile fails if a path is that of something in which no runs can be: a file of another kind, a pipe. It says nothing of directories, nor of
// files whose names say that they are of runs: a fault in such a file is damage. Without it a definition, or any text, that is given in place of a
// run would be reported as a damaged file of runs.
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

// checkNamed fails if a name that should be that of one run is that of an engine directory, or of a file without runs. The error is fs.ErrNotExist if
// it can only be the id of a run in the directory. A folder of the name of a run is no obstacle: it counts as absent, and the id is looked up.
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
