package replay

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// exportExt is how names of files of exported runs end.
const exportExt = ".pawl"

// isExport reports whether a file begins as exported runs do.
func isExport(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	have := make([]byte, len(portable.Start))
	_, err = io.ReadFull(f, have)
	return err == nil && bytes.Equal(have, []byte(portable.Start))
}

// eachExported yields the runs of a file of exported ones, and reports whether more are wanted.
func (l library) eachExported(path string, yield func(*Recording, error) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return yield(nil, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	return l.eachIn(f, path, yield)
}

// eachIn is eachExported for what a reader has of a source.
func (l library) eachIn(from io.Reader, source string, yield func(*Recording, error) bool) bool {
	for run, err := range portable.Read(from) {
		var r *Recording
		if err == nil {
			r, err = l.recordingOf(run, source)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", source, err)
		}
		if !yield(r, err) {
			return false
		}
	}
	return true
}

// ReadExported yields the exported runs that a reader has, such as a live engine sends. source
// says in errors where they come from. They need not be closed.
func ReadExported(from io.Reader, source string) iter.Seq2[*Recording, error] {
	return func(yield func(*Recording, error) bool) {
		if from == nil {
			yield(nil, fmt.Errorf("%s: %w", source, errEmpty))
			return
		}
		newLibrary(nil).eachIn(from, source, yield)
	}
}

// openExported returns a run of a file of exported ones, the first if id is "".
func (l library) openExported(path string, id workflow.RunID) (found *Recording, failed error) {
	l.eachExported(path, func(r *Recording, err error) bool {
		switch {
		case err != nil:
			failed = err
		case id == "" || r.Run == id:
			found = r
		}
		return found == nil && failed == nil
	})
	if found == nil && failed == nil {
		failed = fmt.Errorf("%s: %w: %q", path, store.ErrRunNotFound, string(id))
	}
	return found, failed
}

// recordingOf returns the recording of an exported run.
func (l library) recordingOf(run *portable.Run, path string) (*Recording, error) {
	g, err := l.graphOf(string(run.Definition), run.Hash)
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", string(run.ID), err)
	}
	r := New(run.ID, g, func(yield func(decision.Record, error) bool) {
		for i := range run.Records {
			if !yield(run.Records[i], nil) {
				return
			}
		}
	})
	r.Source = path
	return r, nil
}
