package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store"
)

// backupOf returns where a life backs the engine directory of a trial up.
func backupOf(dir string, life int) string { return filepath.Join(dir, fmt.Sprintf("backup-%d", life)) }

// checkBackups looks at the backups that a trial has, finished or not, and removes
// them. A backup with a name is whole: it is in order, holds every run that had
// ended before, and every other run as it was committed at some time. A backup
// without a name is refused, unless nothing is in it, or everything. It returns what
// is wrong. A backup that the last of so many lives was told of must be there; the
// backups of earlier lives were looked at when these had ended.
func checkBackups(dir string, w work, lines []witness.Entry, lives int, now witness.Snapshot) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	done := map[string]bool{} // backups that were acknowledged
	for _, e := range lines {
		if e.What == witness.Copied {
			done[backupOf(dir, e.Life)] = true
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "backup-*"))
	if err != nil {
		bad("%v", err)
	}
	if last := backupOf(dir, lives); done[last] && !slices.Contains(found, last) {
		bad("%s was acknowledged and is not there", last)
	}
	for _, at := range found {
		entries, err := os.ReadDir(at)
		if err != nil {
			bad("%v", err)
		}
		_, noMark := os.Lstat(filepath.Join(at, "UNFINISHED"))
		switch {
		case len(entries) == 0 && done[at]:
			bad("%s was acknowledged and is empty", at)
		case len(entries) == 0: // not begun
		case noMark != nil:
			if err := checkBackup(at, w, now); err != nil {
				bad("%s: %v", at, err)
			}
		case !strings.Contains(at, ".partial-"):
			bad("%s is not finished", at)
		default:
			if d, err := store.Open(at, store.Options{Codec: w.codec()}); !errors.Is(err, store.ErrCorrupt) {
				bad("%s is not finished, and opens: %v, %v", at, d, err)
			}
		}
		if err := os.RemoveAll(at); err != nil {
			bad("%v", err)
		}
	}
	return wrong
}

// checkBackup checks a backup that is whole.
func checkBackup(at string, w work, now witness.Snapshot) error {
	r, err := rescue.Verify(context.Background(), at, rescue.Options{Codec: w.codec()})
	if err != nil {
		return err
	}
	if r.Damage > 0 {
		return fmt.Errorf("it is damaged: %v", r.Findings)
	}
	snap, err := witness.TakeFrom(at, at+".copy", w.codec(), false)
	if err != nil {
		return err
	}
	for _, j := range w.runs[:w.first] {
		if f := snap[j.ID]; f == nil || !f.Head.Status.Final() {
			return fmt.Errorf("%s had ended and is not there, or has not", j.ID)
		}
	}
	if f := snap[goneID]; f == nil || !f.Head.Status.Final() {
		return errors.New("the run is not there that was purged later")
	}
	delete(snap, goneID)
	for id, f := range snap {
		of := now[id]
		if of == nil || len(of.Records) < len(f.Records) {
			return fmt.Errorf("%s has %d records, more than the original", id, len(f.Records))
		}
		for i, r := range f.Records {
			if !reflect.DeepEqual(r, of.Records[i]) {
				return fmt.Errorf("%s: record %d is %v, of the original %v", id, r.Seq, r, of.Records[i])
			}
		}
	}
	return nil
}
