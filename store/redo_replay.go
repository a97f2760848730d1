package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/redo"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// checkRedo refuses a directory whose redo log is missing, of another time or damaged, if it may have commits that
// pawl.db lacks, and one whose pawl.db lacks a run that has commits in the redo log. It changes nothing.
//
// A pawl.db that was closed has everything, whatever lies beside it. That there is no row of a run shows damage which
// looks like a loss of power: the transaction that began the run was synced before its first commit came there.
func (d *Dir) checkRedo(db *sqlite.Conn, m lockRecord) (err error) {
	if d.redo.found, err = d.redoMark(db); err != nil || !m.mayLackCommits() {
		return err
	}
	if d.redo.found.Life == 0 {
		return d.checkUnnamedRedo(db, m)
	}
	data, err := d.readRedo()
	if err != nil || !redo.IsSynced(data) {
		return err
	}
	r := index.Replay{DB: db}
	return d.lacksCommits(redo.Read(data, r.CheckRows(d.redo.found.Purged)), "it lacks a run of which "+redoFile+" has commits")
}

// lacksCommits returns an error of a check as one of pawl.db, if it says that commits are missing there.
func (d *Dir) lacksCommits(err error, what string) error {
	if errors.Is(err, index.ErrLacksCommits) {
		return &CorruptError{File: d.pathOf(indexFile), What: "commits would be lost: " + what}
	}
	return err
}

// mayLackCommits reports whether pawl.db may lack commits that a redo log has: it was not closed, or nothing is known.
func (m lockRecord) mayLackCommits() bool { return m.state != stateClosed || m.epoch == 0 }

// redoMark returns which redo log pawl.db names.
func (d *Dir) redoMark(db *sqlite.Conn) (m index.RedoMark, err error) {
	m, err = index.ReadRedoMark(db)
	if errors.Is(err, index.ErrDamagedSecret) {
		err = &CorruptError{File: d.pathOf(indexFile), What: "what its table meta says of the redo log is damaged"}
	}
	return m, err
}

// checkUnnamedRedo refuses a directory whose pawl.db names no redo log, but lacks commits that the one of its last life
// has: then the transaction that named it, which was synced before the first of those, is damaged, and looks as if a loss of
// power had cut it.
//
// A redo log that is not named any more has nothing that pawl.db lacks, and where commits are not synced pawl.db may be behind.
//
// Without a lock record pawl.db may be of another time than the redo log, and then lacks whole runs. It is of the same time if its epoch is
// the life of the redo log, in which runs may have been purged, or that of the engine which took over the redo log, and executed it.
func (d *Dir) checkUnnamedRedo(db *sqlite.Conn, m lockRecord) error {
	unknown := m == lockRecord{}
	if m.state != stateSynced && !unknown {
		return nil
	}
	data, err := d.readSparse(redoFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	life, owner, err := redo.OwnerOf(data)
	if err != nil {
		return nil //nolint:nilerr // it is no redo log, and nothing names it
	}
	epoch := m.epoch
	if unknown {
		if epoch, err = index.ReadEpoch(db); err != nil {
			return err
		}
	}
	r := index.Replay{DB: db}
	check := r.CheckPresent
	switch here := uint64(epoch); {
	case life == here && redo.IsSynced(data):
	case unknown && life != here && owner != here:
		check = func(frame []byte) error { return errors.Join(r.CheckRows(0)(frame), r.CheckPresent(frame)) }
	default:
		return nil
	}
	err = redo.Read(data, check)
	if errors.Is(err, redo.ErrDamaged) {
		return nil
	}
	return d.lacksCommits(err, "it does not name "+redoFile+", which has them")
}

// readRedo returns the bytes of the redo log that has commits which pawl.db may lack, nil without such a log. It fails with
// ErrCorrupt if frames cannot be read, with the bytes.
func (d *Dir) readRedo() (data []byte, err error) {
	life := d.redo.found.Life
	if life == 0 {
		return nil, nil
	}
	data, err = d.readSparse(redoFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &CorruptError{File: d.pathOf(redoFile), What: "it is missing, but the last engine did not close"}
	}
	if err != nil {
		return nil, err
	}
	found, _, err := redo.OwnerOf(data)
	if err == nil && found != life {
		return nil, &CorruptError{File: d.pathOf(redoFile), What: fmt.Sprintf("it is of another time: its life is %016x, not %016x", found, life)}
	}
	if err == nil {
		err = redo.Read(data, index.CheckFrame)
	}
	if err != nil {
		return data, &CorruptError{File: d.pathOf(redoFile), What: "commits would be lost", Err: err}
	}
	return data, nil
}

// takeRedo executes what the redo log of the last engine has that pawl.db lacks, and writes the epoch of this life,
// in one transaction.
//
// An earlier owner that still lives may append to the file: it is taken over before it is read. The file stays as
// it is until everything of it is durable in pawl.db, which then names it no more.
func (d *Dir) takeRedo() error {
	putEpochs := func() error { _, err := d.db.Exec(putEpoch, int64(d.epoch)); return err }
	if !d.was.mayLackCommits() {
		return errors.Join(index.KeepRedoMark(d.db, index.RedoMark{}), putEpochs())
	}
	if data, err := d.readRedo(); err != nil || data == nil {
		return errors.Join(err, putEpochs())
	}
	f, err := d.root.OpenFile(redoFile, os.O_RDWR|noFollow, 0)
	if err != nil {
		return err
	}
	err = redo.TakeOver(f, uint64(d.epoch))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	d.hook.Hit("redo.taken")
	data, err := d.readRedo()
	if err != nil {
		return err
	}
	return d.inTransaction(func() error {
		r := index.Replay{DB: d.db, Whole: redo.IsSynced(data)}
		if err := redo.Read(data, r.Execute); err != nil {
			return err
		}
		return errors.Join(index.KeepRedoMark(d.db, index.RedoMark{}), putEpochs())
	})
}

// replayRedo executes what the redo log has in the copy of pawl.db, as far as it can be read.
func (in *Inspection) replayRedo(m lockRecord) {
	if !m.mayLackCommits() {
		return
	}
	if err := in.dir.checkRedo(in.dir.db, m); err != nil {
		file := indexFile
		if c := (*CorruptError)(nil); errors.As(err, &c) && c.File == in.dir.pathOf(redoFile) {
			file = redoFile
		}
		in.distrustIndex(file, in.dir.indexError(err))
	}
	data, err := in.dir.readRedo()
	if data == nil {
		return
	}
	err = in.dir.inTransaction(func() error {
		r := index.Replay{DB: in.dir.db, Whole: err != nil || redo.IsSynced(data), All: true}
		if err == nil {
			return redo.Read(data, r.Execute)
		}
		// A missing frame damages the runs in it, and no others.
		err := redo.Salvage(data, func(frame []byte) error {
			if index.CheckFrame(frame) != nil {
				return nil
			}
			return r.Execute(frame)
		})
		if errors.Is(err, redo.ErrDamaged) {
			err = nil // it is in the faults
		}
		return err
	})
	if err != nil {
		in.distrustIndex(indexFile, in.dir.indexError(err))
	}
}

// inTransaction runs statements as one transaction.
//
// It is for Open, when nobody else commits yet.
func (d *Dir) inTransaction(run func() error) error {
	if _, err := d.db.Exec(begin); err != nil {
		return err
	}
	err := run()
	if err == nil {
		_, err = d.db.Exec(commit)
	}
	if err != nil {
		_, _ = d.db.Exec(rollback) // err is what the caller has to know
	}
	return err
}
