package store

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A Member is a run that is about to be purged, as its row was found.
type Member struct {
	Head Head  // without output and artifacts; of a damaged row as far as it can be read
	Err  error // why the row cannot be read: ErrRunNotFound, ErrSealed or ErrCorrupt; of Purge, why the run stays
	row  index.Row
}

// FileSize returns how many bytes the file of the run has, 0 if there is no file yet.
func (m *Member) FileSize() int64 { return m.row.FileSize }

// A Family is a run with all runs below it: the run itself comes first, and each other behind its parent.
type Family []Member

// One statement answers each question of a purge for many runs. The index over parents has children in the order of their
// numbers; a scalar subquery keeps SQLite from compiling the statement anew for each parent, since the index is a partial one.
const (
	getRunsOf = index.RunColumns + `WHERE id IN (SELECT value FROM json_each(?))`
	areParent = `SELECT key FROM json_each(?) AS given WHERE EXISTS
		(SELECT 1 FROM runs INDEXED BY runs_parent WHERE parent <> '' AND parent = given.value)`
	getChildren = index.RunColumns + `INDEXED BY runs_parent WHERE parent <> '' AND parent = (SELECT ?) AND num > ? ORDER BY num LIMIT ?`
)

// Families returns some runs, each with all that are below it, as a purge asks for them. A run that is not there, or cannot be
// read, has an Err. The runs below a given run are found also if that run cannot be read.
//
// Many families are read with one turn at the lock: a turn ends when it has looked at so many rows and parents as a page
// of a list has, so that no commit waits for a large family.
func (d *Dir) Families(ctx context.Context, roots []workflow.RunID) ([]Family, error) {
	r := familyReader{d: d, families: make([]Family, len(roots)), roots: map[workflow.RunID]int{}}
	for i, id := range roots {
		r.roots[id] = i
	}
	for len(r.roots)+len(r.asked)+len(r.parents) > 0 {
		if err := r.readTurn(ctx); err != nil {
			return nil, err
		}
	}
	return r.families, nil
}

// A familyReader reads families. The runs that it has still to look at are in roots, asked and parents.
type familyReader struct {
	d        *Dir
	families []Family
	roots    map[workflow.RunID]int // the families of roots that are still to be read
	asked    []kin                  // who may have children
	parents  []kin                  // who have some
	found    []foundMember          // by the turn under way
	bytes    int                    // of the texts of those
}

// A kin is a run of a family.
type kin struct {
	family int
	run    workflow.RunID
	after  int64 // the number of its last child that was read
}

// A foundMember is a row that is still to be decoded, which is done without the lock.
type foundMember struct {
	family int
	m      Member
}

// readTurn reads what one turn at the lock may.
func (r *familyReader) readTurn(ctx context.Context) error {
	r.found, r.bytes = r.found[:0], 0
	err := r.d.readIndexUntil(ctx, func(db *sqlite.Conn) error {
		for left := listRows; left > 0; {
			looked, err := r.readSome(db, left)
			if errors.Is(err, errPageFull) || err == nil && looked == 0 {
				return nil
			}
			if err != nil {
				return err
			}
			left -= looked
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range r.found {
		f := &r.found[i]
		m := &f.m
		if m.Err == nil {
			m.Err = r.d.decodeRow(&m.row)
		}
		m.row.Output, m.row.Artifacts = nil, nil // of many runs they would take much memory
		m.Head = m.row.Head
		r.families[f.family] = append(r.families[f.family], *m)
	}
	return nil
}

// readSome reads the roots, or children, or who has any, and returns how many rows it has looked at: 0 if there is nothing left
// to be read. It fails with errPageFull if the rows are large.
func (r *familyReader) readSome(db *sqlite.Conn, most int) (looked int, err error) {
	switch {
	case len(r.roots) > 0:
		return r.readRoots(db)
	case len(r.parents) > 0:
		return r.readChildren(db, most)
	case len(r.asked) > 0:
		return r.findParents(db, most)
	}
	return 0, nil
}

// readRoots reads the roots.
func (r *familyReader) readRoots(db *sqlite.Conn) (looked int, err error) {
	list, _ := json.Marshal(slices.Sorted(maps.Keys(r.roots))) //nolint:errchkjson // texts
	err = db.Each(getRunsOf, func(x *sqlite.Row) error {
		looked++
		row := index.ScanRow(r.d.patchRow(x))
		family, ok := r.roots[row.Run]
		if !ok {
			return nil
		}
		delete(r.roots, row.Run)
		r.asked = append(r.asked, kin{family: family, run: row.Run})
		return r.addFound(family, row)
	}, string(list))
	if err != nil {
		return looked, err
	}
	for id, family := range r.roots { // it is not there, or its row has another id by now
		row, err := r.d.queryRow(db, id)
		if err != nil && !errors.Is(err, ErrRunNotFound) {
			return looked, err
		}
		row.Run = id
		r.found = append(r.found, foundMember{family, Member{Err: err, row: row}})
		r.asked = append(r.asked, kin{family: family, run: id})
		looked++
	}
	clear(r.roots)
	return looked, nil
}

// findParents finds which of the first runs that may have children have some.
func (r *familyReader) findParents(db *sqlite.Conn, most int) (looked int, err error) {
	some := r.asked[:min(most, len(r.asked))]
	ids := make([]workflow.RunID, len(some))
	for i := range some {
		ids[i] = some[i].run
	}
	list, _ := json.Marshal(ids) //nolint:errchkjson // texts
	err = db.Each(areParent, func(x *sqlite.Row) error {
		r.parents = append(r.parents, some[x.Int(0)])
		return nil
	}, string(list))
	r.asked = r.asked[len(some):]
	return len(some), err
}

// readChildren reads children of the first who has some.
func (r *familyReader) readChildren(db *sqlite.Conn, most int) (looked int, err error) {
	k := &r.parents[0]
	err = db.Each(getChildren, func(x *sqlite.Row) error {
		looked++
		row := index.ScanRow(r.d.patchRow(x))
		k.after = row.Num
		if !row.IsDamaged() { // of one that is, nobody knows its id, nor its parent, which might be itself
			r.asked = append(r.asked, kin{family: k.family, run: row.Run})
		}
		return r.addFound(k.family, row)
	}, string(k.run), k.after, int64(most))
	if err == nil && looked < most {
		r.parents = r.parents[1:]
	}
	return max(looked, 1), err
}

// addFound adds a row, and fails with errPageFull if that was the last one of the turn.
func (r *familyReader) addFound(family int, row index.Row) error {
	r.found = append(r.found, foundMember{family, Member{row: row}})
	if r.bytes += row.TextBytes(); r.bytes > listBytes {
		return errPageFull
	}
	return nil
}
