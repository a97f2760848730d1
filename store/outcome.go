package store

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/value"
)

// ErrNoOutcome says that no outcome is kept under a key.
var ErrNoOutcome = errors.New("no outcome is kept under this key")

// References to blobs are of the outcome's id, as a negative number, so that they are never those
// of a run. They are dropped before the outcome, by which they are found.
const (
	getOutcome     = `SELECT key, value, at, crc FROM outcomes WHERE key = ?`
	putOutcome     = `INSERT OR REPLACE INTO outcomes (key, value, at, crc) VALUES (?, ?, ?, ?)`
	getOutcomeID   = `SELECT id FROM outcomes WHERE key = ?`
	dropOutcome    = `DELETE FROM outcomes WHERE key = ?`
	dropRefsOf     = `DELETE FROM blob_refs WHERE num = (SELECT -id FROM outcomes WHERE key = ?)`
	dropOldOutcome = `DELETE FROM outcomes WHERE at < ?`
	dropOldRefs    = `DELETE FROM blob_refs WHERE num IN (SELECT -id FROM outcomes WHERE at < ?)`
)

// Outcome returns the value of the JSON model that is kept under a key. It fails
// with ErrNoOutcome, and with the error of ctx.
//
// The checksum is compared before the text is opened or believed.
func (d *Dir) Outcome(ctx context.Context, key string) (any, error) {
	var out any
	err := d.readIndexUntil(ctx, func(db *sqlite.Conn) error {
		found, err := db.One(getOutcome, func(r *sqlite.Row) error {
			text, err := r.Text(1), error(nil)
			if index.CRCMatches(r, 1, 3) {
				if text, err = d.sealer.OpenText(index.OutcomePlace(key), text); err != nil {
					return err
				}
			}
			if out, err = codec.DecodeValue([]byte(text)); err != nil || !index.CRCMatches(r, 1, 3) {
				err = &CorruptError{File: d.pathOf(indexFile), What: "the outcome kept under " + key + " is damaged", Err: err}
			}
			return err
		}, key)
		if err == nil && !found {
			err = ErrNoOutcome
		}
		return err
	})
	return out, err
}

// KeepOutcome keeps a value of the JSON model under a key, durably.
//
// It is what an effect that must be made once writes down: whoever asks for the same key later
// gets this value, and does not make the effect again. A value that is there is replaced; to keep
// the first one is the caller's business.
func (d *Dir) KeepOutcome(key string, v any, at time.Time) error {
	refs, err := blob.Refs(v)
	if err != nil {
		return err
	}
	text, err := d.sealer.SealText(index.OutcomePlace(key), string(value.Encode(v)))
	if err != nil {
		return err
	}
	return d.updateIndex(func(db *sqlite.Conn) error {
		if _, err := db.Exec(dropRefsOf, key); err != nil { // what is replaced gets another id
			return err
		}
		if _, err := db.Exec(putOutcome, index.RowWithCRC(key, text, at.UnixMilli())...); err != nil || len(refs) == 0 {
			return err
		}
		var id int64
		if _, err := db.One(getOutcomeID, func(r *sqlite.Row) error { id = r.Int64(0); return nil }, key); err != nil {
			return err
		}
		for _, ref := range refs {
			if _, err := db.Exec(putRef, index.RowWithCRC(ref.Hash, -id, int64(0))...); err != nil {
				return err
			}
		}
		return nil
	})
}

// ForgetOutcome erases what is kept under a key, as Purge does.
func (d *Dir) ForgetOutcome(key string) error {
	return d.updateIndex(func(db *sqlite.Conn) error {
		d.eraseSoon()
		if _, err := db.Exec(dropRefsOf, key); err != nil {
			return err
		}
		_, err := db.Exec(dropOutcome, key)
		return err
	})
}

// endOfPrefix returns the first text behind all that begin with a prefix of ASCII: its last byte is raised by one.
func endOfPrefix(prefix string) string {
	return prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
}

// ForgetOutcomes forgets what has been kept since before an instant, and returns
// how many outcomes that were.
func (d *Dir) ForgetOutcomes(before time.Time) (n int, err error) {
	err = d.updateIndex(func(db *sqlite.Conn) error {
		d.eraseSoon()
		if _, err := db.Exec(dropOldRefs, before.UnixMilli()); err != nil {
			return err
		}
		rows, err := db.Exec(dropOldOutcome, before.UnixMilli())
		n = int(rows)
		return err
	})
	return n, err
}
