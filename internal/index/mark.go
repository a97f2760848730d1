package index

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// CopyMark gives a copy of a directory the mark of one that was restored and not opened since: the schedules of both are those of an
// original that may fire them. A mark that is damaged is made anew, without the moment that it tells.
func CopyMark(from fs.FS, into string) error {
	text, err := fs.ReadFile(from, RestoredFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !json.Valid(text) {
		text = []byte("{}")
	}
	f, err := os.OpenFile(filepath.Join(into, RestoredFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
