package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A crash leaves files of runs that the index does not name: of runs that were purged while a backup
// held their files, of flushes that had not come to their commit, or had, and had not removed what
// they replaced. Nobody would remove those of purged runs, which have values that somebody wanted
// to be gone. So the first engine after a crash sweeps them, in the background.
//
// Only a regular file is removed whose name is one that an engine gives, and which the index, asked
// after the file was seen, does not name. A run is in the index before its first file is there, and
// the number in the name, its nonce, is never given again: a name that is seen first, and that the index
// then does not have, is of a run that is gone. If the run is there, a worker may just be building its
// other file, so it is looked at while no worker has it. Other files are left alone.

// maxSwept bounds how many files one look at the index is for, some 32 bytes each. A directory with more is swept in parts, and each part looks
// at every row.
const maxSwept = 1 << 18

const (
	// sweptOnce is how many rows are looked at without a commit in between.
	sweptOnce = 256
	sweptRuns = index.RunColumns + `WHERE num > ? ORDER BY num LIMIT ?`
)

// keepsUnnamed reports whether no file is to be removed in this life: pawl.db may be an older one, and does not name some files, which may be those of later
// runs. Until they are gone, or are in the directory that a repair makes, no later life removes any.
//
// A pawl.db that lacks what its log outside has names them the next time.
func (d *Dir) keepsUnnamed() bool {
	if d.options.building || !d.was.leavesDoubt() {
		return false
	}
	kept, err := d.sweepFiles(true)
	if kept == 0 && err == nil {
		return false
	}
	about := []any{"directory", d.pathOf(runsDir), "files", kept}
	if err != nil {
		about = append(about, "error", err)
	}
	d.options.Logger.Warn("files of runs that pawl.db does not name are kept: LOCK had no record, so nothing tells whether pawl.db is the last one; pawl verify names them: repair the directory, or remove them", about...)
	return true
}

// startSweep begins to sweep, if the last engine has not closed the directory, and there is no doubt. Close waits for the end.
//
// A copy that is being made, and one whose log is elsewhere, has no files but its own.
func (d *Dir) startSweep() {
	doubted := lockRecord{epoch: d.epoch}.leavesDoubt()
	if d.options.building || d.logAway || doubted || d.was.state == stateClosed && d.was.hash != "" {
		return
	}
	d.sweeping.Go(func() {
		if _, err := d.sweepFiles(false); err != nil && d.Err() == nil {
			d.options.Logger.Warn("files of runs that a crash has left behind are not removed; they are looked for after the next crash, and pawl verify names them", "directory", d.pathOf(runsDir), "error", err)
		}
	})
}

// sweepFiles removes the files of runs that the index does not name or, with keep, only counts them.
func (d *Dir) sweepFiles(keep bool) (kept int, err error) {
	folders, err := d.listFolder(runsDir)
	if err != nil {
		return 0, err
	}
	var found []index.RunFile
	for i, folder := range folders {
		if !folder.IsDir() || len(folder.Name()) != 2 {
			continue
		}
		files, err := d.listFolder(path.Join(runsDir, folder.Name()))
		if err != nil {
			return kept, err
		}
		for _, e := range files {
			if f, ok := index.ParseRunFile(folder.Name(), e.Name()); ok && e.Type().IsRegular() {
				found = append(found, f)
			}
		}
		if len(found) >= maxSwept && i < len(folders)-1 {
			some, err := d.sweepFound(found, keep)
			if kept += some; err != nil {
				return kept, err
			}
			found = found[:0]
		}
	}
	some, err := d.sweepFound(found, keep)
	return kept + some, err
}

// listFolder lists a folder, and nothing that a link leads to.
func (d *Dir) listFolder(name string) ([]fs.DirEntry, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	_ = f.Close() // it was only read
	return entries, err
}

// sweepFound removes files that the index does not name, also after a loss of power, which might undo a purge, or counts them.
func (d *Dir) sweepFound(found []index.RunFile, keep bool) (kept int, err error) {
	slices.SortFunc(found, index.RunFile.Compare)
	known := make([]bool, len(found))
	after := int64(0)
	for rows := []index.Row{{}}; len(rows) > 0; {
		if rows, err = d.rowsAfter(after); err != nil {
			return 0, err
		}
		for i := range rows {
			r := &rows[i]
			after = r.Num
			if err := d.knowFiles(r, found, known, !keep); err != nil {
				return 0, err
			}
		}
	}
	syncOnce := sync.OnceValue(d.syncLog)
	for i, f := range found {
		if known[i] {
			continue
		}
		if keep {
			kept++
			continue
		}
		if err := syncOnce(); err != nil {
			return 0, err
		}
		if err := d.checkOwner(); err != nil {
			return 0, err
		}
		if err := d.removeRunFile(f.Name()); err != nil {
			return 0, err
		}
	}
	return kept, nil
}

// rowsAfter returns the next rows of runs, with only the columns that name their files.
//
// A row that is damaged there might be that of any file, so that nothing is removed then.
func (d *Dir) rowsAfter(num int64) (rows []index.Row, err error) {
	err = d.readIndex(func(db *sqlite.Conn) error {
		rows = rows[:0]
		return db.Each(sweptRuns, func(r *sqlite.Row) error {
			row := index.ScanRow(r)
			if !row.Sound[index.RowStart] {
				return &CorruptError{Run: row.Run, File: d.pathOf(indexFile), What: "its row in the index is damaged"}
			}
			rows = append(rows, index.Row{Head: index.Head{Run: row.Run}, Num: row.Num, Nonce: row.Nonce, Slot: row.Slot, FileHash: row.FileHash, FileSize: row.FileSize, Sound: row.Sound})
			return nil
		}, num, int64(sweptOnce))
	})
	return rows, err
}

// knowFiles marks the files of a run among those that were found. With settle, the one that its row does not name is put right; without, it
// is marked only if it is the same as the other: it may be the later one.
func (d *Dir) knowFiles(r *index.Row, found []index.RunFile, known []bool, settle bool) error {
	hash := index.FileHash(r.Run)
	for _, slot := range []index.Slot{1, 2} {
		i, is := slices.BinarySearchFunc(found, index.RunFile{Nonce: r.Nonce, Hash: hash, Slot: slot}, index.RunFile.Compare)
		if !is {
			continue
		}
		known[i] = settle || r.Sound[index.RowFile] && (slot == r.Slot || d.isOtherName(r, found[i]))
		if settle && r.Sound[index.RowFile] && slot != r.Slot {
			if err := d.settleFile(r, found[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleFile removes the file of a run that its row does not name, or makes it the same file as the other: see [Dir.removeOldFile].
//
// If a worker has the run, or is to have it, the flush does so.
func (d *Dir) settleFile(r *index.Row, f index.RunFile) error {
	borrowed := d.flusher.borrowRun(r)
	if borrowed == nil {
		return nil
	}
	defer d.flusher.returnRun(r.Run, borrowed)
	now := *r
	found, sound := false, false
	err := d.readIndex(func(db *sqlite.Conn) (err error) {
		found, err = db.One(index.FileColumns, func(x *sqlite.Row) error { sound = index.ScanFile(&now, x); return nil }, now.Num)
		return err
	})
	if err != nil || !found || !sound || now.Slot == f.Slot {
		return err // it was purged, or flushed, meanwhile
	}
	if err := d.syncLog(); err != nil { // the row may be of a flush that a loss of power would undo
		return err
	}
	if err := d.checkOwner(); err != nil {
		return err
	}
	if now.Slot == 0 {
		return d.removeRunFile(f.Name())
	}
	file := index.FileName(now.Run, now.Nonce, now.Slot)
	if same, err := d.isOneFile(f.Name(), file); same || err != nil {
		return err
	}
	return d.replaceRunFile(f.Name(), file)
}

// isOtherName reports whether a file has what the file has that a row names, as another name of that, or as a copy where names were copied.
func (d *Dir) isOtherName(r *index.Row, f index.RunFile) bool {
	if one, err := d.isOneFile(f.Name(), index.FileName(r.Run, r.Nonce, r.Slot)); one || err != nil {
		return one
	}
	copied := *r
	copied.File = f.Name()
	content, err := d.proveRunFile(&copied)
	if err == nil {
		_ = content.Close() // it was only read
	}
	return err == nil
}

// isOneFile reports whether two names are of the same file.
func (d *Dir) isOneFile(a, b string) (bool, error) {
	one, err := d.root.Lstat(a)
	if err != nil {
		return false, err
	}
	other, err := d.root.Lstat(b)
	return err == nil && os.SameFile(one, other), err
}

// replaceRunFile removes a file of a run that nothing names any more. That of the first slot becomes
// another name of the one by which it is replaced, unless a backup is under way, which then does so.
//
// So the first name of a run, once it is there, is always that of its file: whoever reads the files of
// runs needs one name for each. The name changes from one whole file to the other in one step. A sealed file is
// bound to its name, and nobody can read it but pawl: there is no other name for it.
func (d *Dir) replaceRunFile(name, by string) error {
	if !isFirstName(name) || d.sealer.IsOn() {
		by = ""
	}
	if d.flusher.holdBack(name, by) {
		return nil
	}
	return d.dropRunFile(name, by)
}

// isFirstName reports whether a file of a run has the name of the first slot.
func isFirstName(name string) bool { return len(name) > 4 && name[len(name)-4] == 'a' }

// dropRunFile removes a file, or gives its name to another one, unless that is "". That it is gone already is no error:
// the removal may be a repetition after a crash. Where the file system gives a file no second name, it is removed.
func (d *Dir) dropRunFile(name, by string) error {
	if by != "" {
		if ok, err := d.linkRunFile(name, by); ok || err != nil {
			return err
		}
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// linkRunFile gives a file of a run another name, in the place of what has it, and reports whether that could be done.
func (d *Dir) linkRunFile(name, file string) (ok bool, err error) {
	tmp := path.Join(tmpDir, fmt.Sprintf("%v-%s.link", d.epoch, path.Base(name)))
	if err := d.root.Link(file, tmp); err != nil {
		return false, nil //nolint:nilerr // the file system has no such names, or no room: the caller removes the old one
	}
	d.hook.Hit("file.linked")
	if err := d.root.Rename(tmp, name); err != nil {
		_ = d.root.Remove(tmp) // the next Open removes it otherwise
		return false, err
	}
	return true, nil
}
