package timing

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// The names of files in an engine directory.
const (
	File    = "timings"     // what KeepFile has left
	NewFile = "timings.new" // that it writes, or a crash has left
)

// Open takes the timings of lives before this one. If they cannot be read, the log says so, and they begin anew: no run needs them.
func (c *Counters) Open(dir string, log *slog.Logger) {
	if err := c.OpenFile(dir); err != nil {
		log.Warn("pawl: timings of tasks begin anew", "error", err)
	}
}

// Keep keeps the timings for the next life, unless the directory has failed, and another engine may have it.
func (c *Counters) Keep(dir string, failed <-chan struct{}, log *slog.Logger) {
	select {
	case <-failed:
		return
	default:
	}
	if err := c.KeepFile(dir); err != nil {
		log.Warn("pawl: timings of tasks are lost", "error", err)
	}
}

// OpenFile takes what KeepFile has left in a directory. Without a file nothing is counted. An error says that nothing is counted
// although there is a file; it keeps nobody from going on.
func (c *Counters) OpenFile(dir string) error {
	f, err := os.Open(filepath.Join(dir, File)) //nolint:gosec // the directory is the caller's
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the timings: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxSaved+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read the timings: %w", err)
	}
	if len(text) > MaxSaved {
		return fmt.Errorf("read the timings: %w: there are more than %d bytes", errSaved, MaxSaved)
	}
	if err := c.Restore(text); err != nil {
		return fmt.Errorf("read the timings: %w", err)
	}
	return nil
}

// KeepFile leaves in a directory what was counted, if anything was since OpenFile. The file is not synced: after a loss of power it may
// be the one before, or none that can be read.
func (c *Counters) KeepFile(dir string) error {
	text, changed := c.Save()
	if !changed {
		return nil
	}
	next := filepath.Join(dir, NewFile)
	err := os.WriteFile(next, text, 0o600)
	if err == nil {
		err = os.Rename(next, filepath.Join(dir, File))
	}
	if err != nil {
		return fmt.Errorf("keep the timings: %w", errors.Join(err, removeIfThere(next)))
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
