package store

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"

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

// A sweptFile is what the name of a run's file says.
type sweptFile struct {
	nonce uint64
	hash  [16]byte // the beginning of that of the id
	slot  index.Slot
}

// name returns where the file is.
func (f sweptFile) name() string { return index.FileNameOf(f.hash, f.nonce, f.slot) }

// compareSwept orders files by their runs.
func compareSwept(a, b sweptFile) int {
	return cmp.Or(cmp.Compare(a.nonce, b.nonce), bytes.Compare(a.hash[:], b.hash[:]), cmp.Compare(a.slot, b.slot))
}

// parseSwept parses the name of a file in a folder below runs/, and reports whether an engine may have given it.
func parseSwept(folder, name string) (f sweptFile, ok bool) {
	const hashLen, nonceLen = 32, 16
	if len(name) != hashLen+1+nonceLen+len("a.db") {
		return f, false
	}
	hash, err := hex.DecodeString(name[:hashLen])
	if err != nil {
		return f, false
	}
	nonce, err := strconv.ParseUint(name[hashLen+1:hashLen+1+nonceLen], 16, 64)
	if err != nil {
		return f, false
	}
	f = sweptFile{nonce: nonce, hash: [16]byte(hash), slot: index.Slot(name[hashLen+1+nonceLen] - 'a' + 1)}
	// The rest of the name must be as an engine writes it.
	return f, (f.slot == 1 || f.slot == 2) && f.name() == path.Join(runsDir, folder, name)
}

// startSweep begins to sweep, if the last engine has not closed the directory. Close waits for the end.
//
// A copy that is being made, and one whose log is elsewhere, has no files but its own.
func (d *Dir) startSweep() {
	if d.options.building || d.logAway || d.was == (lockRecord{}) || d.was.state == stateClosed && d.was.hash != "" {
		return
	}
	d.sweeping.Go(func() {
		if err := d.sweepFiles(); err != nil && d.Err() == nil {
			d.options.Logger.Warn("files of runs that a crash has left behind are not removed; they are looked for after the next crash, and pawl verify names them", "directory", d.pathOf(runsDir), "error", err)
		}
	})
}

// sweepFiles removes the files of runs that the index does not name.
func (d *Dir) sweepFiles() error {
	folders, err := d.listFolder(runsDir)
	if err != nil {
		return err
	}
	var found []sweptFile
	for i, folder := range folders {
		if !folder.IsDir() || len(folder.Name()) != 2 {
			continue
		}
		files, err := d.listFolder(path.Join(runsDir, folder.Name()))
		if err != nil {
			return err
		}
		for _, e := range files {
			if f, ok := parseSwept(folder.Name(), e.Name()); ok && e.Type().IsRegular() {
				found = append(found, f)
			}
		}
		if len(found) >= maxSwept && i < len(folders)-1 {
			if err := d.sweepFound(found); err != nil {
				return err
			}
			found = found[:0]
		}
	}
	return d.sweepFound(found)
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

// sweepFound removes those of some files that the index does not name.
func (d *Dir) sweepFound(found []sweptFile) error {
	slices.SortFunc(found, compareSwept)
	known := make([]bool, len(found))
	after := int64(0)
	for rows := []index.Row{{}}; len(rows) > 0; {
		var err error
		if rows, err = d.rowsAfter(after); err != nil {
			return err
		}
		for i := range rows {
			r := &rows[i]
			after = r.Num
			if err := d.knowFiles(r, found, known); err != nil {
				return err
			}
		}
	}
	for i, f := range found {
		if known[i] {
			continue
		}
		if err := d.checkOwner(); err != nil {
			return err
		}
		if err := d.removeRunFile(f.name()); err != nil {
			return err
		}
	}
	return nil
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
			rows = append(rows, index.Row{Head: index.Head{Run: row.Run}, Num: row.Num, Nonce: row.Nonce, Slot: row.Slot, Sound: row.Sound})
			return nil
		}, num, int64(sweptOnce))
	})
	return rows, err
}

// knowFiles marks the files of a run among those that were found. The one that its row does not name is put right.
func (d *Dir) knowFiles(r *index.Row, found []sweptFile, known []bool) error {
	hash := index.FileHash(r.Run)
	for _, slot := range []index.Slot{1, 2} {
		i, is := slices.BinarySearchFunc(found, sweptFile{r.Nonce, hash, slot}, compareSwept)
		if !is {
			continue
		}
		known[i] = true
		if r.Sound[index.RowFile] && slot != r.Slot {
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
func (d *Dir) settleFile(r *index.Row, f sweptFile) error {
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
	if err != nil || !found || !sound || now.Slot == f.slot {
		return err // it was purged, or flushed, meanwhile
	}
	if err := d.checkOwner(); err != nil {
		return err
	}
	if now.Slot == 0 {
		return d.removeRunFile(f.name())
	}
	file := index.FileName(now.Run, now.Nonce, now.Slot)
	if same, err := d.isOneFile(f.name(), file); same || err != nil {
		return err
	}
	return d.replaceRunFile(f.name(), file)
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
