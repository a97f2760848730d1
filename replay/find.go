package replay

import (
	"fmt"

	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Find returns the recording that a name stands for: the path of a run's file, or of a file of
// exported runs, where it takes the first one, or DIR:RUN for a run of such a file or of an engine
// directory that no engine has open. Close it. It fails as Open does, and
// with store.ErrRunNotFound.
//
// It splits the name first: a colon in the name of a file is no harm, since only what stands
// before it as an engine directory or an export makes it DIR:RUN. For one run of a directory the
// Inspection is closed together with the recording.
func Find(name string, o Options) (*Recording, error) {
	dir, run, ok := SplitName(name)
	if !ok {
		return Open(name, o)
	}
	if isExport(dir) {
		return newLibrary(o).openExported(dir, run)
	}
	in, err := store.Inspect(dir, o.Codec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	rec, err := openRun(in, run)
	if err != nil {
		_ = in.Close() // it was only read
		return nil, err
	}
	free := rec.free
	rec.free = func() { free(); _ = in.Close() }
	return rec, nil
}

// SplitName splits a name, as [Find] takes it, at the first colon behind an engine directory, or a
// file of exported runs; ok is false if the name has no such colon.
//
// The shortest directory wins, so a run's id may have colons; an id is not looked up here.
func SplitName(name string) (dir string, run workflow.RunID, ok bool) {
	for i := range len(name) {
		if name[i] != ':' {
			continue
		}
		if isEngineDirectory(name[:i]) || isExport(name[:i]) {
			return name[:i], workflow.RunID(name[i+1:]), true
		}
	}
	return "", "", false
}
