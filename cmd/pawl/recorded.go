package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A recordedFlag is embedded in the commands that read recorded runs.
type recordedFlag struct {
	Dir string `default:"data" env:"PAWL_DIR" placeholder:"DIR" help:"The engine directory of runs that are named by their ids; $PAWL_DIR, or data."`
	keyFlag
	jsonFlag
}

// openRecording opens the recording of a run. Close it.
func (f recordedFlag) openRecording(ctx context.Context, name string) (*replay.Recording, error) {
	keys, err := f.codec()
	if err != nil {
		return nil, err
	}
	if name, err = f.pathOf(name); err != nil {
		return nil, err
	}
	rec, err := replay.FindSealed(name, keys)
	if !errors.Is(err, pawl.ErrLocked) {
		return rec, err
	}
	dir, id, _ := replay.SplitName(name)
	for rec, asked := range askRecordings(ctx, dir, id, err) {
		return rec, asked
	}
	return nil, err
}

// pathOf returns the path that a name stands for: its own if it is there, else that of a run of the engine directory.
func (f recordedFlag) pathOf(name string) (string, error) {
	if _, _, ok := replay.SplitName(name); ok {
		return name, nil
	}
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return name, nil
	}
	path := f.Dir + ":" + name
	if _, _, ok := replay.SplitName(path); !ok {
		return "", fmt.Errorf("%s is no file, nor a run: %s is no engine directory, name one with --dir or PAWL_DIR: %w", name, f.Dir, fs.ErrNotExist)
	}
	return path, nil
}

// eachRecording calls do with the recordings that some names stand for, says which cannot be read, and returns how many those
// are: with errAbsent if all of those are not there, else with errFiles.
func (f recordedFlag) eachRecording(ctx context.Context, con *console, names []string, do func(*replay.Recording) error) (unreadable int, failed error) {
	keys, err := f.codec()
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		for rec, err := range f.recordings(ctx, keys, name) {
			if err == nil {
				err = do(rec)
			}
			if err == nil {
				continue
			}
			unreadable++
			fmt.Fprintln(con.Errs, "pawl:", err)
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, pawl.ErrRunNotFound) {
				failed = errFiles
			} else if failed == nil {
				failed = errAbsent
			}
		}
	}
	return unreadable, failed
}

// errAbsent says that files or runs, which are listed already, are not there.
var errAbsent = fmt.Errorf("some files or runs are not there: %w", fs.ErrNotExist)

// recordings yields what a name stands for, as [replay.All] does. The runs of an engine directory that is open come from its engine.
func (f recordedFlag) recordings(ctx context.Context, keys pawl.Codec, name string) iter.Seq2[*replay.Recording, error] {
	return func(yield func(*replay.Recording, error) bool) {
		path, err := f.pathOf(name)
		if err != nil {
			yield(nil, err)
			return
		}
		dir, id, ok := replay.SplitName(path)
		if !ok {
			dir = path
		}
		for rec, err := range replay.AllSealed(keys, path) {
			if !errors.Is(err, pawl.ErrLocked) {
				if !yield(rec, err) {
					return
				}
				continue
			}
			for rec, err := range askRecordings(ctx, dir, id, err) {
				if !yield(rec, err) {
					return
				}
			}
		}
	}
}

// askRecordings asks the engine that has a directory open for a run, or with "" for all. locked is the error if it does not answer.
func askRecordings(ctx context.Context, dir string, id workflow.RunID, locked error) iter.Seq2[*replay.Recording, error] {
	return func(yield func(*replay.Recording, error) bool) {
		client, err := api.Dial(ctx, dir)
		if errors.Is(err, api.ErrNoEngine) {
			err = locked
		}
		if err != nil {
			yield(nil, err)
			return
		}
		defer client.Close()
		if id != "" {
			for rec, err := range exportedRuns(ctx, client, dir, id) {
				if err != nil || rec.Run == id { // and not one below it
					yield(rec, err)
					return
				}
			}
			return
		}
		for run, err := range client.Runs(ctx, pawl.RunFilter{Roots: true}) { // the others come with them
			if err != nil {
				yield(nil, err)
				return
			}
			for rec, err := range exportedRuns(ctx, client, dir, run.Run) {
				if !yield(rec, err) {
					return
				}
			}
		}
	}
}

// exportedRuns yields a run, and those below it, as an engine exports them.
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

// An exportError says why an engine exports no more.
type exportError struct{ error }
