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
// pawl.db lacks. It changes nothing.
//
// A pawl.db that was closed has everything, whatever lies beside it.
func (d *Dir) checkRedo(m lockRecord) error {
	if !m.mayLackCommits() {
		return nil
	}
	_, err := d.readRedo()
	return err
}

// mayLackCommits reports whether pawl.db may lack commits that a redo log has: it was not closed, or nothing is known.
func (m lockRecord) mayLackCommits() bool { return m.state != stateClosed || m.epoch == 0 }

// namedRedo returns the life of the redo log that pawl.db names, 0 if none.
func (d *Dir) namedRedo(db *sqlite.Conn) (life uint64, err error) {
	life, err = index.ReadRedo(db)
	if errors.Is(err, index.ErrDamagedSecret) {
		err = &CorruptError{File: d.pathOf(indexFile), What: "what its table meta says of the redo log is damaged"}
	}
	return life, err
}

// checkUnnamedRedo refuses a directory whose pawl.db names no redo log, but lacks commits that the one of its last life
// has: then the transaction that named it, which was synced before the first of those, is damaged, and looks as if a loss of
// power had cut it.
//
// A redo log that is not named any more has nothing that pawl.db lacks, and where commits are not synced pawl.db may be behind.
func (d *Dir) checkUnnamedRedo(db *sqlite.Conn, m lockRecord) error {
	if d.redo.named != 0 || m.state != stateSynced {
		return nil
	}
	data, err := d.readFile(redoFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if life, err := redo.LifeOf(data); err != nil || life != uint64(m.epoch) {
		return nil
	}
	r := index.Replay{DB: db}
	err = redo.Read(data, r.CheckPresent)
	if errors.Is(err, index.ErrLacksCommits) {
		return &CorruptError{File: d.pathOf(redoFile), What: "commits would be lost: pawl.db does not name it, and lacks what it has"}
	}
	if errors.Is(err, redo.ErrDamaged) {
		return nil
	}
	return err
}

// readRedo returns the bytes of the redo log that has commits which pawl.db may lack, nil if there is none. It
// fails with ErrCorrupt if frames cannot be read, with the bytes.
func (d *Dir) readRedo() (data []byte, err error) {
	life := d.redo.named
	if life == 0 {
		return nil, nil
	}
	data, err = d.readFile(redoFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &CorruptError{File: d.pathOf(redoFile), What: "it is missing, but the last engine did not close"}
	}
	if err != nil {
		return nil, err
	}
	found, err := redo.LifeOf(data)
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
		return errors.Join(index.KeepRedo(d.db, 0), putEpochs())
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
		return errors.Join(index.KeepRedo(d.db, 0), putEpochs())
	})
}

// replayRedo executes what the redo log has in the copy of pawl.db, as far as it can be read.
func (in *Inspection) replayRedo(m lockRecord) {
	if !m.mayLackCommits() {
		return
	}
	var err error
	if in.dir.redo.named, err = in.dir.namedRedo(in.dir.db); err != nil {
		in.distrustIndex(indexFile, in.dir.indexError(err))
		return
	}
	if err := in.dir.checkUnnamedRedo(in.dir.db, m); err != nil {
		in.distrustIndex(redoFile, err)
	}
	data, err := in.dir.readRedo()
	if err != nil {
		in.distrustIndex(redoFile, err)
	}
	if data == nil {
		return
	}
	err = in.dir.inTransaction(func() error {
		r := index.Replay{DB: in.dir.db, Whole: err != nil || redo.IsSynced(data)}
		if err == nil {
			return redo.Read(data, r.Execute)
		}
		// What is missing damages the runs that it is of, and no others.
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
