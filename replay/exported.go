package replay

import (
	"bytes"
	"errors"
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
// The content decides and not the ending of the name, since Find takes any path. A file that cannot be opened
// or is shorter than the mark is no export; opening it as a run's file then gives the error.
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
//
// Each recording remembers the file, so that ReadBlobs can read it again; what comes from a reader has
// none and yields no blobs.
func (l library) eachExported(path string, yield func(*Recording, error) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return yield(nil, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	return l.eachIn(f, path, func(r *Recording, err error) bool {
		if err == nil {
			r.export = path
		}
		return yield(r, err)
	})
}

// ReadBlobs calls each with the blobs of the file that the recording is in, one after the other, if that is an export with blobs. A
// reader is for the time of the call, and need not be read. That the content has its hash is for the caller to check. Errors are
// those of reading the file and of each.
func (r *Recording) ReadBlobs(each func(hash string, content io.Reader) error) error {
	if r == nil || r.export == "" || each == nil {
		return nil
	}
	f, err := os.Open(r.export)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return portable.ReadBlobs(f, each)
}

// eachIn is eachExported for what a reader has of a source.
// A run whose definition cannot be compiled comes as an error, and the next run follows it. The
// records of a run are in memory.
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
		newLibrary(Options{}).eachIn(from, source, yield)
	}
}

// openExported returns a run of a file of exported ones, the first if id is "".
// An export has no index: the file is read up to that run. An error on the way ends the search, for
// what is behind it may be the run that is wanted, or not readable.
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
//
// Its history ranges over a slice, and so may be read any number of times, as New asks; nothing is to
// be freed.
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
	r.Source, r.redacted = path, run.Redacted
	return r, nil
}

// ErrRedacted says that a run was exported without its values, so that it cannot be planned again: a
// Stepper shows it.
var ErrRedacted = errors.New("it was exported without values: its records can be shown (pawl step), not planned again")

// Redact writes exported runs again, with shapes in place of values: each text of a value has as many x as bytes, each
// number is 0, each truth value false. Keys of objects, lengths of lists, ids, times, counts, codes of failures and the
// definitions, patches included, stay; so do names of labels. Messages of failures, names of people, reasons, tenants and what
// labels say are texts of values. One export is in memory as a whole. The output is an export once Redact has
// returned nil.
func Redact(to io.Writer, from io.Reader) error {
	if to == nil || from == nil {
		return errEmpty
	}
	return portable.Redact(to, from)
}
