package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/blob"
)

// fetchDirectory makes the directory of the last base in the log, if path has none but there is a base. The error is errNoDirectory
// if there is no base and the directory stands by.
//
// The directory appears whole or not at all, with pawl.db as the base has it; joinLog brings it
// to the end of the log.
func fetchDirectory(ctx context.Context, path string, o Options, r RemoteOptions) error {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return nil
	}
	f := &restorer{o: RestoreOptions{Log: r.Log, Bases: r.Bases, Codec: o.Codec}, stay: true}
	err = f.plan(ctx)
	switch {
	case errors.Is(err, ErrNoBase) && r.standsBy():
		return errNoDirectory // perhaps somebody is about to make it
	case errors.Is(err, ErrNoBase):
		return checkNoBases(ctx, r.Bases) // it is to be made
	}
	if err == nil {
		err = makeDir(filepath.Dir(filepath.Clean(path)))
	}
	if err == nil {
		err = newDirectory(o.Hook, path, func(building string) error { return f.fill(ctx, building) })
	}
	if err == nil && len(f.info.Damaged) > 0 {
		o.warn("the base of the directory lacks something", "directory", path, "damaged", f.info.Damaged)
	}
	return err
}

// leastBase is how many bytes a blob of a base has at least.
const leastBase = 64

// checkNoBases refuses a log without a base whose store has one: it is not a new log, but one that was lost, and with it
// everything that would be forgotten here without a word.
func checkNoBases(ctx context.Context, bases blob.Store) error {
	for info, err := range bases.All(ctx) {
		if err != nil {
			return err
		}
		if info.Size >= leastBase {
			return &CorruptError{File: "the log", What: "it has no base, but the store of bases has something: either the log was lost, and the directory is to be opened where it is, with Detach and then with a new log and a new store; or a first base was never finished, and the store is to be emptied"}
		}
	}
	return nil
}

// replaceDirectory makes a directory anew that does not fit its log any more. When the new one is whole, the old one is removed, or
// set aside under another name.
//
// The new one is made under another name while the old one stays, so that a failure leaves what
// was there. A crash between the two renamings leaves no directory under the name: the next
// opening makes one from the log, and what was there lies beside it.
func replaceDirectory(ctx context.Context, path string, o Options, r RemoteOptions, aside bool) error {
	path = filepath.Clean(path)
	fresh, old := path+".fetched", path+".behind"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := fetchDirectory(ctx, fresh, o, r); err != nil {
		return err
	}
	if aside {
		old = freeName(path + ".superseded")
	}
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	if err := os.Rename(path, old); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	if err := syncAbove(path); err != nil {
		return err
	}
	if aside {
		o.warn("the log was begun anew from another directory: this one is made anew, and what was here is set aside", "directory", path, "aside", old)
		return nil
	}
	o.warn("the directory was too far behind its log, and is made anew", "directory", path)
	return os.RemoveAll(old)
}

// freeName returns a path at which nothing is.
func freeName(path string) string {
	name := path
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d", path, n)
	}
}
