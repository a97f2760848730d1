package store

import (
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A movedRun is a run that the transaction under way changes in pawl.db.
type movedRun struct {
	run  *redoRun
	gone bool // the run is purged, or needs not be known
}

// noteStored notes that the transaction under way commits a run in pawl.db, where all of it is then.
func (l *redoLog) noteStored(r *Run) {
	if l.on {
		end := r.pending[len(r.pending)-1]
		l.moved = append(l.moved, movedRun{run: &redoRun{
			num: r.row.Num, run: r.row.Run, workflow: r.next.Workflow, seq: end.Seq, rowSeq: end.Seq, status: r.next.Status, was: r.next.Status,
		}})
	}
}

// noteGone notes that the transaction under way deletes a run.
func (l *redoLog) noteGone(num int64) {
	if l.on {
		l.moved = append(l.moved, movedRun{run: &redoRun{num: num}, gone: true})
	}
}

// notePurgedRedo notes that the transaction under way deletes runs, up to one with a number, in the mark, which tells a row that was
// deleted from one that was lost.
func (d *Dir) notePurgedRedo(db *sqlite.Conn, last int64) error {
	l := &d.redo
	if !l.on {
		return nil
	}
	if l.purged = max(l.purged, last); !l.armed { // armRedo writes it
		return nil
	}
	return index.KeepRedoMark(db, index.RedoMark{Life: uint64(d.epoch), Purged: l.purged})
}

// noteFiled notes that the transaction under way names a file of a run, which may rest now.
func (l *redoLog) noteFiled(num int64) {
	if r := l.runs[num]; r != nil {
		l.moved = append(l.moved, movedRun{run: r, gone: true})
	}
}

// keepMoved takes over what the transaction has changed, which is committed now.
func (l *redoLog) keepMoved() {
	for _, m := range l.moved {
		switch r := l.runs[m.run.num]; {
		case m.gone:
			delete(l.runs, m.run.num)
			delete(l.behind, m.run.num)
		case r == m.run:
			l.keepMovedRun(r)
		case m.run.status.Final(): // it was committed in pawl.db
			delete(l.runs, m.run.num)
		default:
			l.runs[m.run.num] = m.run
		}
	}
	l.armed = l.armed || l.arming
	l.clearMoved()
}

// keepMovedRun takes over what the transaction has moved of a run.
func (l *redoLog) keepMovedRun(r *redoRun) {
	if r.entries = r.entries[r.movedEntries:]; len(r.entries) == 0 {
		r.entries = nil
	}
	if r.movedTo != 0 {
		l.rowMoved(r, r.movedTo, r.movedStatus)
		// Until then a region counts whose records were moved: it may have what the row lacks.
		for len(r.regions) > 1 && r.regions[1].seq <= r.movedTo+1 {
			r.regions = r.regions[1:]
		}
	}
	if r.movedRow {
		l.rowMoved(r, r.seq, r.status)
		r.regions = nil
		delete(l.behind, r.num)
		if r.status.Final() { // it has no further commits
			delete(l.runs, r.num)
		}
	}
	r.movedEntries, r.movedRow, r.movedTo = 0, false, 0
}

// rowMoved notes that pawl.db has the row of a run, as of a record, and with a status.
func (l *redoLog) rowMoved(r *redoRun, seq int64, status workflow.RunStatus) {
	if status != r.was {
		l.addAhead(countKey{r.workflow, r.was}, 1)
		l.addAhead(countKey{r.workflow, status}, -1)
	}
	r.was, r.rowSeq = status, seq
	if r.changed = max(r.changed, seq+1); r.stateSeq <= seq {
		r.state = nil
	}
}

func (l *redoLog) addAhead(key countKey, n int64) {
	if l.ahead[key] += n; l.ahead[key] == 0 {
		delete(l.ahead, key)
	}
}

// clearMoved forgets what a transaction has changed.
func (l *redoLog) clearMoved() {
	for _, m := range l.moved {
		m.run.movedEntries, m.run.movedRow, m.run.movedTo = 0, false, 0
	}
	clear(l.moved)
	l.moved, l.arming = l.moved[:0], false
}
