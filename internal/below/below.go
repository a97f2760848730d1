// Package below reads files that somebody else has put there, and names: regular ones of a bounded size, below a folder; and removes and writes files.
// No link and no ".." leads out of the folder ([os.Root]), and nothing without an end is waited for, such as a named
// pipe.
package below

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Why a file is not read. The error that wraps one of them says what to do.
var (
	ErrOutside   = errors.New("outside of the folder")
	ErrIrregular = errors.New("no regular file")
	ErrTooLong   = errors.New("too long")
)

// ReadFile returns the bytes of a regular file of at most so many bytes, below one of some folders. The error wraps
// [ErrOutside], [ErrIrregular], [ErrTooLong] or what the system says, and does not name the file.
func ReadFile(path string, most int, folders ...string) ([]byte, error) {
	for _, folder := range folders {
		name, ok := nameBelow(folder, path)
		if !ok {
			continue
		}
		data, err := readIn(folder, name, most)
		if errors.Is(err, ErrOutside) {
			continue // another folder may be above what a link names
		}
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			err = pe.Err // without the name, which is one seen from the folder
		}
		return data, err
	}
	return nil, outsideOf(path, folders)
}

// outsideOf says that a file is not read, and what helps: to be in a folder that has it, where files below the current one
// are read, or a copy.
func outsideOf(path string, folders []string) error {
	var names []string
	linked := false
	for _, folder := range folders {
		if folder = filepath.Clean(folder); !slices.Contains(names, folder) {
			names = append(names, folder)
		}
		_, below := nameBelow(folder, path)
		linked = linked || below
	}
	act := "copy it there"
	if above := folderAbove(path); above != "" && !linked && slices.Contains(names, ".") {
		act = "do this in " + above + ", or " + act
	}
	return fmt.Errorf("it is %w, or a link that leads out: only files below %s are read, so %s", ErrOutside, strings.Join(names, " or "), act)
}

// folderAbove returns the nearest folder above the current one that has a file, as seen from the current one; "" if only the root has it.
func folderAbove(path string) string {
	here, err := filepath.Abs(".")
	if err != nil {
		return ""
	}
	for above := ".."; ; above = filepath.Join(above, "..") {
		here = filepath.Dir(here)
		if filepath.Dir(here) == here {
			return ""
		}
		if _, ok := nameBelow(here, path); ok {
			return above
		}
	}
}

// nameBelow returns the name of a file seen from a folder; false if it is not below that.
func nameBelow(folder, path string) (string, bool) {
	from, err := filepath.Abs(folder)
	if err != nil {
		return "", false
	}
	to, err := filepath.Abs(path)
	if err != nil {
		return "", false
	}
	name, err := filepath.Rel(from, to)
	return name, err == nil && filepath.IsLocal(name)
}

func readIn(folder, name string, most int) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(name) // before it is opened: opening a pipe waits for its writer
	if err != nil {
		if _, elsewhere := os.Stat(filepath.Join(folder, name)); elsewhere == nil {
			return nil, ErrOutside
		}
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is %s and %w: put what it holds into a file", kindOf(info.Mode()), ErrIrregular)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, int64(most)+1)) // its size may be a lie
	if err == nil && len(data) > most {
		return nil, fmt.Errorf("it is %w: it has more than %d bytes, so make several of it", ErrTooLong, most)
	}
	return data, err
}

// kindOf returns what a file is that is no regular one.
func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
