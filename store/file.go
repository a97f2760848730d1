package store

import (
	"errors"
	"io"
	"io/fs"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/workflow"
)

// readRunFile returns the bytes of the file that a row names, proven to be what
// was written.
func (d *Dir) readRunFile(r *index.Row) ([]byte, error) {
	data, err := d.readFile(r.File)
	if err == nil {
		err = d.checkHeader(data, r.File, runfile.ID, runfile.Version)
	}
	if err != nil {
		return nil, d.fileError(r, err)
	}
	if sum := pace.Sum256(data); string(sum[:]) != string(r.FileHash) {
		return nil, d.fileError(r, errChanged)
	}
	return data, nil
}

// errChanged says that a file is whole, but not what was written.
var errChanged = errors.New("it is damaged, changed or another file")

// fileError returns the error of a file that could not be read.
func (d *Dir) fileError(r *index.Row, err error) error {
	damaged := func(what string) error { return &CorruptError{Run: r.Run, File: d.pathOf(r.File), What: what} }
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged("the file is missing")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return damaged("the file is cut short")
	case errors.Is(err, errChanged):
		return damaged(errChanged.Error())
	default:
		return withRun(err, r.Run)
	}
}

// withRun adds the run to an error about its file.
func withRun(err error, id workflow.RunID) error {
	if c := (*CorruptError)(nil); errors.As(err, &c) {
		c.Run = id
	}
	return err
}
