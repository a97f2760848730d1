package store

import (
	"context"
	"errors"
	"iter"
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
	nextOutcomes   = `SELECT coalesce(max(id), 0), count(*) FILTER (WHERE at < ?` + notOurs + `) FROM (SELECT id, at, key FROM outcomes WHERE id > ? ORDER BY id LIMIT ?)`
	dropOldOutcome = `DELETE FROM outcomes WHERE id > ? AND id <= ? AND at < ?` + notOurs
	dropOldRefs    = `DELETE FROM blob_refs WHERE num IN (SELECT -id FROM outcomes WHERE id > ? AND id <= ? AND at < ?` + notOurs + `)`
	getKept        = `SELECT key, value, at, crc FROM outcomes WHERE key > ? AND key < ? ORDER BY key LIMIT ?`
	dropKept       = `DELETE FROM outcomes WHERE key >= ? AND key < ?`
	dropKeptRefs   = `DELETE FROM blob_refs WHERE num IN (SELECT -id FROM outcomes WHERE key >= ? AND key < ?)`
)

// ScheduleKeys is how the keys begin under which schedules are kept: rows of outcomes, so that copies, logs outside, verification
// and repair have them without knowing of them. Nothing is a schedule's but what has such a key.
const ScheduleKeys = "pawl:schedule"

// notOurs leaves out the rows of schedules, and those of tasks, which go with their runs: no age makes them needless.
const notOurs = ` AND NOT (key >= 'pawl:' AND key < 'pawl;')`

// A Kept is a value of the JSON model that is kept under a key.
type Kept struct {
	Key   string
	Value any
	At    time.Time
}

// A keptRow is a Kept as it is written.
type keptRow struct {
	key, text string
	at        int64
	refs      []blob.Ref
}

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
	return d.KeepOutcomes(Kept{key, v, at})
}

// KeepOutcomes keeps several values, all of them or none.
func (d *Dir) KeepOutcomes(all ...Kept) error {
	rows, err := d.encodeKept(all)
	if err != nil {
		return err
	}
	return d.updateIndex(func(db *sqlite.Conn) error { return writeKept(db, rows) })
}

// KeepAtStart has the first commit of a new run keep values as well: if the run begins, they are kept, and not otherwise.
func (r *Run) KeepAtStart(all ...Kept) (err error) {
	r.kept, err = r.dir.encodeKept(all)
	return err
}

// encodeKept seals values, and finds the blobs that they refer to.
func (d *Dir) encodeKept(all []Kept) ([]keptRow, error) {
	rows := make([]keptRow, len(all))
	for i, k := range all {
		refs, err := blob.Refs(k.Value)
		if err != nil {
			return nil, err
		}
		text, err := d.sealer.SealText(index.OutcomePlace(k.Key), string(value.Encode(k.Value)))
		if err != nil {
			return nil, err
		}
		rows[i] = keptRow{k.Key, text, k.At.UnixMilli(), refs}
	}
	return rows, nil
}

// writeKept writes rows in the transaction that is under way.
func writeKept(db *sqlite.Conn, rows []keptRow) error {
	for _, k := range rows {
		if _, err := db.Exec(dropRefsOf, k.key); err != nil { // what is replaced gets another id
			return err
		}
		if _, err := db.Exec(putOutcome, index.RowWithCRC(k.key, k.text, k.at)...); err != nil {
			return err
		}
		if len(k.refs) == 0 {
			continue
		}
		var id int64
		if _, err := db.One(getOutcomeID, func(r *sqlite.Row) error { id = r.Int64(0); return nil }, k.key); err != nil {
			return err
		}
		for _, ref := range k.refs {
			if _, err := db.Exec(putRef, index.RowWithCRC(ref.Hash, -id, int64(0))...); err != nil {
				return err
			}
		}
	}
	return nil
}

// keptPage is how many values are read, or forgotten, at once.
const keptPage = 256

// OutcomesUnder yields what is kept under the keys that begin with a prefix of ASCII, in their order, page by page. An error that has
// a key is of that value alone: ErrCorrupt or ErrSealed. Any other ends the list, such as that of ctx.
func (d *Dir) OutcomesUnder(ctx context.Context, prefix string) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		for after := prefix; ; {
			rows, err := d.readKept(ctx, after, endOfPrefix(prefix))
			if err != nil {
				yield(Kept{}, err)
				return
			}
			for i := range rows {
				if err := d.openKept(&rows[i]); !yield(rows[i].Kept, err) {
					return
				}
			}
			if len(rows) < keptPage {
				return
			}
			after = rows[len(rows)-1].Key
		}
	}
}

// A foundRow is a Kept as it was read.
type foundRow struct {
	Kept
	text  string
	sound bool
}

// readKept reads a page of values, which are opened without the lock.
func (d *Dir) readKept(ctx context.Context, after, end string) (out []foundRow, err error) {
	err = d.readIndexUntil(ctx, func(db *sqlite.Conn) error {
		return db.Each(getKept, func(r *sqlite.Row) error {
			out = append(out, foundRow{Kept{Key: r.Text(0), At: time.UnixMilli(r.Int64(2)).UTC()}, r.Text(1), index.CRCMatches(r, 1, 3)})
			return nil
		}, after, end, int64(keptPage))
	})
	return out, err
}

// openKept opens a value that was read.
func (d *Dir) openKept(f *foundRow) (err error) {
	if !f.sound {
		return &CorruptError{File: d.pathOf(indexFile), What: "the value kept under " + f.Key + " is damaged"}
	}
	text, err := d.sealer.OpenText(index.OutcomePlace(f.Key), f.text)
	if err == nil {
		f.Value, err = codec.DecodeValue([]byte(text))
	}
	return err
}

// ForgetOutcomesUnder erases what is kept under the keys that begin with prefixes of ASCII, all of it or nothing.
func (d *Dir) ForgetOutcomesUnder(prefixes ...string) error {
	return d.updateIndex(func(db *sqlite.Conn) error {
		d.eraseSoon()
		for _, p := range prefixes {
			if _, err := db.Exec(dropKeptRefs, p, endOfPrefix(p)); err != nil {
				return err
			}
			if _, err := db.Exec(dropKept, p, endOfPrefix(p)); err != nil {
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

// ForgetOutcomes forgets what hosts have kept since before an instant, and returns how many outcomes that were, also with an error. It
// goes page by page: commits go on in between.
func (d *Dir) ForgetOutcomes(before time.Time) (n int, err error) {
	at := before.UnixMilli()
	for after, end := int64(0), int64(-1); end != 0; after = end {
		old := int64(0)
		err := d.readIndex(func(db *sqlite.Conn) error {
			_, err := db.One(nextOutcomes, func(r *sqlite.Row) error { end, old = r.Int64(0), r.Int64(1); return nil }, at, after, int64(keptPage))
			return err
		})
		if err == nil && (old > 0 || after == 0) { // the first page also asks whether anything may be committed
			old, err = d.forgetBetween(after, end, at)
		}
		if err != nil {
			return n, err
		}
		n += int(old)
	}
	return n, nil
}

// forgetBetween forgets the outcomes with ids behind one, up to another, that were kept before an instant, and returns how many.
func (d *Dir) forgetBetween(after, end, at int64) (n int64, err error) {
	err = d.updateIndex(func(db *sqlite.Conn) error {
		d.eraseSoon()
		_, err := db.Exec(dropOldRefs, after, end, at)
		if err == nil {
			n, err = db.Exec(dropOldOutcome, after, end, at)
		}
		return err
	})
	return n, err
}
