package store

import (
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// readRoom returns the number of a child's root, 0 without, and how many descendants
// that may still have. It refuses the child if the root may have no more, or is gone.
//
// A root has a number of descendants that it may have in its life, however deep they are, so that
// a definition which starts itself comes to an end. Each child takes one when its row is written,
// in the same transaction: two that begin at once cannot both take the last one. A run that is
// restored from another directory was counted there, and is not refused.
func (r *Run) readRoom(db *sqlite.Conn, id workflow.RunID) (root, room int64, err error) {
	if id == "" {
		return 0, 0, nil
	}
	sound := true
	_, err = db.One(getRoom, func(x *sqlite.Row) error {
		root, room, sound = x.Int64(0), x.Int64(1), index.CRCMatches(x, 1, 2)
		return nil
	}, string(id))
	switch {
	case err != nil:
	case !sound:
		err = &refusal{&CorruptError{Run: id, File: r.dir.pathOf(indexFile), What: "its row in the index is damaged"}}
	case room <= 0 && !r.adopted:
		err = refuseRequest("%w: run %q", ErrNoRoom, string(id))
	}
	return root, room, err
}
