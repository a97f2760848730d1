package store

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A migration makes of a pawl.db of one format one of the next. It changes neither the table meta, which Open has read
// by then, nor the file of any run: those of older formats are read as they are. It is called inside the transaction that
// makes the next format the present one, so it need not be able to go on in the middle.
type migration func(db *sqlite.Conn) error

// migrations are the steps that lead to the present format, each by the format that it begins with. There are none yet:
// format 8 is the first that was released.
//
// For a new format raise index.Version, and put a step that leads there from the last one into migrations. Open runs
// the steps in one transaction that also names the new format, checks the schema and every row of the result, and is
// killed there in TestKillAMigration. A step leaves the table meta and the files of runs alone: every released
// runfile.Version stays readable. Add the archives of the new format to internal/testing/golden (-golden.rewrite with
// their names in goldens); archives of released formats are never written again, and must open, verify and come to
// their recorded ends. Remove the number from TestOtherVersions, and say in the changelog that an earlier program
// cannot go back.
var migrations = map[uint32]migration{}

// migrationFrom returns what leads from a format to the next; nil if nothing does.
func (d *Dir) migrationFrom(version uint32) migration {
	if step := d.hook.Migration(version); step != nil {
		return func(db *sqlite.Conn) error { return step(db.Script) }
	}
	return migrations[version]
}

// checkFormat fails if pawl.db is of a format that this program neither has nor can bring to its own. A directory with a log
// elsewhere is not brought to another one: its log has what others are still to read.
//
// It looks at the file alone; the log behind it may be of the present format already, if a crash
// came between the migration and the next checkpoint: see isOlder.
func (d *Dir) checkFormat(data []byte) error {
	err := d.checkHeader(data, indexFile, index.ID, index.Version)
	older := (*VersionError)(nil)
	if !errors.As(err, &older) || older.Version > index.Version {
		return err
	}
	for version := older.Version; version < index.Version; version++ {
		if d.migrationFrom(version) == nil {
			return err
		}
	}
	if d.remote != nil {
		return keptFormat(err)
	}
	d.older = true
	return nil
}

// keptFormat says why a directory of an earlier format is not brought to the present one, and what to do.
func keptFormat(err error) error {
	return fmt.Errorf("%w: it has a log outside of it, which others are still to read: open it with RemoteOptions.Detach, and then with a new log", err)
}

// isOlder reports whether the pawl.db that a connection reads is of an older format: the file may be of one when the
// log behind it is not any more.
func (d *Dir) isOlder(db *sqlite.Conn) (bool, error) {
	if !d.older {
		return false, nil
	}
	version, err := formatOf(db)
	return version < index.Version, err
}

func formatOf(db *sqlite.Conn) (version uint32, err error) {
	err = db.Each(`PRAGMA user_version`, func(r *sqlite.Row) error { version = uint32(r.Int(0)); return nil }) //nolint:gosec // 32 bits of the header
	return version, err
}

// checkMarkAndFormat checks with which key values are sealed, and brings an older pawl.db to the present format, in one
// transaction, unless it has a log elsewhere. The lock record first says that nothing is known of pawl.db any more, as before every other change.
func (d *Dir) checkMarkAndFormat() error {
	if err := d.checkMark(); err != nil {
		return err
	}
	if older, err := d.isOlder(d.db); err != nil || !older {
		return d.indexError(err)
	}
	if d.logAway {
		version, err := formatOf(d.db)
		return errors.Join(err, keptFormat(&VersionError{File: d.pathOf(indexFile), Version: version, Known: index.Version}))
	}
	if err := d.forgetClosing(); err != nil {
		return err
	}
	if err := d.db.Script(`BEGIN IMMEDIATE`); err != nil {
		return d.indexError(err)
	}
	err := d.migrateIndex()
	if err == nil {
		err = d.db.Script(`COMMIT`)
	}
	if err != nil {
		_ = d.db.Script(`ROLLBACK`) // it fails where SQLite has done that
	}
	return d.indexError(err)
}

// migrateIndex makes one format after the other of pawl.db, and checks what has come of it.
//
// The number of the format changes in the same transaction, so a crash leaves the one or the
// other.
func (d *Dir) migrateIndex() error {
	from, err := formatOf(d.db)
	if err != nil {
		return err
	}
	for version := from; version < index.Version; version++ {
		step := d.migrationFrom(version)
		if step == nil {
			return &VersionError{File: d.pathOf(indexFile), Version: version, Known: index.Version}
		}
		if err := step(d.db); err != nil {
			return fmt.Errorf("bring %s from format %d to %d: %w", indexFile, version, version+1, err)
		}
	}
	if err := d.db.Script(fmt.Sprintf(`PRAGMA user_version=%d`, index.Version)); err != nil {
		return err
	}
	wrong, err := index.CheckIntegrity(d.db)
	if err == nil && wrong == "" {
		wrong, err = index.ChangedRow(d.db)
	}
	if err == nil && wrong != "" {
		err = &CorruptError{File: d.pathOf(indexFile), What: fmt.Sprintf("it was of format %d, and what became of it is wrong: %s", from, wrong)}
	}
	return err
}
