package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store/folderlog"
)

// remoteDir is where what outlives the engine directory of a trial is.
func remoteDir(dir string) string { return filepath.Join(dir, "remote") }

// addRemote adds the log to the options of an engine, if the work says so. stop closes what it has opened.
func (w *work) addRemote(dir string, number int, o *pawl.Options) (stop func(), err error) {
	if !w.remote || w.attach && number == 1 {
		return func() {}, nil
	}
	log, err := folderlog.Open(filepath.Join(remoteDir(dir), "log"))
	if err != nil {
		return nil, err
	}
	if err := w.shortenLog(dir); err != nil {
		return nil, err
	}
	bases, err := blob.OpenFiles(filepath.Join(remoteDir(dir), "bases"), blob.Options{})
	if err != nil {
		return nil, err
	}
	blobs, err := blob.OpenFiles(filepath.Join(remoteDir(dir), "blobs"), blob.Options{})
	if err != nil {
		return nil, errors.Join(err, bases.Close())
	}
	o.Blobs, o.Durability = blobs, pawl.ProcessCrash
	o.Remote = pawl.RemoteOptions{Log: log, Bases: bases, Rebase: 5 * time.Millisecond}
	return func() { _, _ = bases.Close(), blobs.Close() }, nil // what is in them is synced
}

// shortenLog removes the last entries of the log, but for one, if the work says so and the directory has them.
func (w *work) shortenLog(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "engine", "pawl.db-tail")); !w.shorten || err != nil {
		return nil
	}
	entries, err := filepath.Glob(filepath.Join(remoteDir(dir), "log", "0*")) // sorted
	if err != nil {
		return err
	}
	for _, entry := range entries[max(1, len(entries)-3):] {
		if err := os.Remove(entry); err != nil {
			return err
		}
	}
	return nil
}

// checkRemote makes a directory of the log of a trial, and returns what is wrong with it: it must be in order,
// and have every record that the directory of the engine has.
func checkRemote(dir string, w work, now witness.Snapshot) error {
	if _, err := os.Stat(remoteDir(dir)); !w.remote || w.attach && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	into := filepath.Join(dir, "restored")
	defer func() { _ = os.RemoveAll(into) }() // the whole workspace goes in the end
	log, err := folderlog.Open(filepath.Join(remoteDir(dir), "log"))
	if err != nil {
		return err
	}
	bases, err := blob.OpenFiles(filepath.Join(remoteDir(dir), "bases"), blob.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = bases.Close() }() // it is only read
	info, err := pawl.Restore(context.Background(), into, pawl.RestoreOptions{Log: log, Bases: bases})
	if errors.Is(err, pawl.ErrNoBase) && len(now) == 0 {
		return nil // the first life was killed before there was one
	}
	if err != nil {
		return err
	}
	if len(info.Damaged) > 0 {
		return fmt.Errorf("damaged: %v", info.Damaged)
	}
	r, err := rescue.Verify(context.Background(), into, rescue.Options{})
	if err != nil {
		return err
	}
	if r.Damage > 0 {
		return fmt.Errorf("what is restored is damaged: %v", r.Findings)
	}
	snap, err := witness.TakeFrom(into, into+".copy", nil, false)
	if err != nil {
		return err
	}
	for id, of := range now {
		f := snap[id]
		if f == nil || len(f.Records) < len(of.Records) {
			return fmt.Errorf("%s has more records in the directory than in the log", id)
		}
		if !reflect.DeepEqual(f.Records[:len(of.Records)], of.Records) {
			return fmt.Errorf("%s has other records in the directory than in the log", id)
		}
	}
	return nil
}
