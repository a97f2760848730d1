package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/pawl-run/pawl/blob"
)

var blobVerb = verb{
	name: "blob",
	help: "Write the content of a blob: an artifact of a run, or a large value that another one refers to.",
	example: []string{
		"pawl show order-42                        # lists the artifacts with their hashes",
		"pawl blob sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 --to report.csv",
	},
	command: func() command { return new(blobCommand) },
	working: "reading",
}

// A blobCommand writes the content of a blob.
type blobCommand struct {
	Hash string `arg:"" help:"sha256: and 64 digits: the hash of an artifact, or the $blob of a reference."`
	To   string `placeholder:"FILE" help:"Write to this file, which must not exist, whole or not at all."`
	dirFlag
}

// A writtenBlob is a line of JSON.
type writtenBlob struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

// runCommand writes the content to a file or to Out, but not to a terminal, which would obey it, nor among lines of JSON.
func (c *blobCommand) runCommand(ctx context.Context, con *console) error {
	if c.To == "" && (c.JSON || con.Screen) {
		return errors.New("a blob may be any bytes: name a file by --to, or pipe them without --json")
	}
	return c.withEngine(ctx, con, func(e *reached) error {
		content, err := e.OpenBlob(ctx, blob.Ref{Hash: c.Hash})
		if err != nil {
			return err
		}
		defer func() { _ = content.Close() }() // it is only read
		copyTo := func(w io.Writer) error {
			_, err := io.Copy(w, content)
			// An engine breaks the connection where it finds damage, where it dies, and where nobody takes the rest for long.
			if errors.Is(err, io.ErrUnexpectedEOF) && c.breaksAgain(ctx, e) {
				err = &blob.Error{Hash: c.Hash, Err: blob.ErrDamaged, Detail: "it cannot be read to its end"}
			}
			return err
		}
		if c.To == "" {
			return copyTo(con.Out)
		}
		size, err := con.createWhole(c.To, func(f *os.File) error { return copyTo(f) }, func(string) error { return nil })
		switch {
		case err != nil:
			return err
		case c.JSON:
			con.writeLine(true, writtenBlob{c.To, size})
		default:
			con.printLine("%s: %s", c.To, bytesText(size))
		}
		return nil
	})
}

// breaksAgain reports whether a live engine breaks the connection also where all of a blob is taken at once.
func (c *blobCommand) breaksAgain(ctx context.Context, e *reached) bool {
	content, err := e.OpenBlob(ctx, blob.Ref{Hash: c.Hash})
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, content)
	_ = content.Close() // it is only read
	_, lost := e.Engine(ctx)
	return errors.Is(err, io.ErrUnexpectedEOF) && lost == nil
}

var putVerb = verb{
	name:    "put",
	help:    "Store a file as a blob, and write the reference that goes into an input, a payload or an output.",
	example: []string{"pawl put scan.pdf --type application/pdf"},
	command: func() command { return new(putCommand) },
	working: "storing",
}

// A putCommand stores a blob.
type putCommand struct {
	File string `arg:"" help:"The file; - is the standard input."`
	Type string `placeholder:"TYPE" help:"Its media type, such as text/csv, for the reference."`
	dirFlag
}

// runCommand writes the reference as JSON, for people too: it is to be put into JSON.
func (c *putCommand) runCommand(ctx context.Context, con *console) error {
	from := con.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it is only read
		from = f
	}
	return c.withEngine(ctx, con, func(e *reached) error {
		ref, err := e.PutBlob(ctx, from, c.Type)
		if err != nil {
			return err
		}
		con.writeLine(true, ref)
		return nil
	})
}
