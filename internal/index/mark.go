package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A RestoredMark is the content of the file RestoredFile: the directory was restored and not opened since, and the original may fire its
// schedules.
type RestoredMark struct {
	AsOf time.Time `json:"asOf,omitzero"` // everything in the directory is of this moment or before; zero if nobody knows
}

// ReadMark returns the mark of a directory, and whether it has one. An error says that nobody can read it.
func ReadMark(dir fs.FS) (mark RestoredMark, found bool, err error) {
	info, err := fs.Stat(dir, RestoredFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mark, false, nil
	case err != nil:
		return mark, true, err
	case !info.Mode().IsRegular() || info.Size() > maxMark: // opening a pipe waits for its writer
		return mark, true, errors.New("it is no regular file of at most 4 KiB")
	}
	text, err := fs.ReadFile(dir, RestoredFile)
	if err == nil {
		err = json.Unmarshal(text, &mark)
	}
	return mark, true, err
}

const maxMark = 4 << 10

// CopyMark gives a copy of a directory the mark that this has, if it has one: the schedules of both are those of an original that may fire
// them. A mark that is damaged is made anew, without the moment that it tells.
func CopyMark(from fs.FS, into string) error {
	mark, found, err := ReadMark(from)
	if !found {
		return nil
	}
	if err != nil {
		mark = RestoredMark{}
	}
	return WriteMark(into, mark.AsOf)
}

// WriteMark marks a directory that is being restored, as of a moment, or a zero one of a backup, which does not tell. The mark is synced, but
// not its name.
func WriteMark(into string, asOf time.Time) error {
	text, err := json.Marshal(RestoredMark{asOf})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(into, RestoredFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("mark a restored directory: %w", err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
