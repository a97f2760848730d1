package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A Head is a run's row in the index: what can be known of it without loading
// it. It is never behind the run.
type Head struct {
	Run        workflow.RunID
	Workflow   string
	Version    int
	Definition string         // hash
	InputHash  string         // tells a repeated start from another one
	Parent     workflow.RunID // "" without
	Root       workflow.RunID // the first of its ancestors; "" without
	Room       int            // of a root: how many descendants it may still have
	StartedAt  time.Time

	// The rest changes with commits.
	Status    workflow.RunStatus
	Seq       int64               // of the last record
	Alarm     time.Time           // when time alone changes the run; zero if never
	EndedAt   time.Time           // zero while it runs
	Output    map[string]any      // of a completed run
	Failure   *workflow.Failure   // of any other end, or why it is suspended
	Artifacts []workflow.Artifact // of a run that has ended

	File string // of the run, below the directory; "" before it has one
}

// Outcome returns how the run ended, or how it stands.
func (h *Head) Outcome() workflow.Outcome {
	return workflow.Outcome{
		Run: h.Run, Status: h.Status, Output: h.Output, Failure: h.Failure,
		StartedAt: h.StartedAt, EndedAt: h.EndedAt, Artifacts: h.Artifacts,
	}
}

// A RunFilter selects runs of the index. The zero value selects all.
type RunFilter struct {
	Workflow string               // its name; "" is any
	Parent   workflow.RunID       // "" is any
	Status   []workflow.RunStatus // none is any
}

// statusMask returns the statuses as bits.
func (f RunFilter) statusMask() int64 {
	var mask int64
	for _, s := range f.Status {
		mask |= 1 << s
	}
	return mask
}

// A row is a Head with what only the store knows of the run.
type row struct {
	Head
	num        int64
	nonce      uint64
	sum        runfile.Checksum
	slot       slot
	flushed    int64
	flushedSum runfile.Checksum
	fileHash   []byte
	fileSize   int64
	texts      [3]string          // Output, Failure and Artifacts, until decode
	sound      [rowPartCount]bool // by part: it is what was written
}

const (
	headColumns = `SELECT num,
		id, workflow, version, definition, input_hash, parent, root, nonce, started_at, start_crc,
		room, room_crc,
		status, alarm, ended_at, output, failure, artifacts, state_crc,
		seq, sum, at, last_crc,
		slot, filed, filed_sum, file_hash, file_size, file_crc FROM runs `
	getHead       = headColumns + `WHERE id = ?`
	scanHead      = headColumns + `NOT INDEXED WHERE id = ?`
	listHeads     = headColumns + `WHERE id > ? AND (? = '' OR workflow = ?) AND (? = '' OR parent = ?) AND (? = 0 OR ? >> status & 1) ORDER BY id LIMIT ?`
	listChildren  = headColumns + `WHERE id > ? AND (? = '' OR workflow = ?) AND parent <> '' AND ? <> '' AND parent = ? AND (? = 0 OR ? >> status & 1) ORDER BY id LIMIT ?`
	getUnfinished = `SELECT id, num, 0 FROM runs WHERE status < 4 AND ? <= 0 AND num > ? ORDER BY num LIMIT ?`
	getLeftover   = `SELECT id, num, 0 FROM runs WHERE status >= 4 AND seq > filed AND ? <= 0 AND num > ? AND num IN (SELECT key >> 32 FROM log) ORDER BY num LIMIT ?`
	getQuiet      = `SELECT id, num, at, seq FROM runs WHERE status = 1 AND (at <= ? OR at > ?) AND num > ? ORDER BY num LIMIT ?`
	getDue        = `SELECT id, num, alarm FROM runs WHERE (alarm, num) > (?, ?) AND alarm <= ? ORDER BY alarm, num LIMIT ?`
	getNextAlarm  = `SELECT alarm FROM runs WHERE alarm > ? ORDER BY alarm LIMIT 1`
)

// The parts of a row, each of which is written by itself and has a checksum.
const (
	rowStart = iota
	rowRoom
	rowState
	rowLast
	rowFile
	rowPartCount
)

// rowParts are the first columns of the parts, as headColumns has them, and the
// columns of their checksums.
var rowParts = [rowPartCount]struct{ first, crc int }{{1, 10}, {11, 12}, {13, 19}, {20, 23}, {24, 29}}

func scanRow(r *sqlite.Row) row {
	out := row{
		num: r.Int64(0), nonce: uint64(r.Int64(8)), slot: slot(r.Int64(24)),
		flushed: r.Int64(25), fileHash: r.Bytes(27), fileSize: r.Int64(28),
	}
	out.Head = Head{
		Run: workflow.RunID(r.Text(1)), Workflow: r.Text(2), Version: r.Int(3), Definition: r.Text(4),
		InputHash: r.Text(5), Parent: workflow.RunID(r.Text(6)), Root: workflow.RunID(r.Text(7)), StartedAt: column.TimeAt(r, 9),
		Room: r.Int(11), Status: workflow.RunStatus(r.Int64(13)), Alarm: column.TimeAt(r, 14), EndedAt: column.TimeAt(r, 15), Seq: r.Int64(20),
	}
	out.texts = [3]string{r.Text(16), r.Text(17), r.Text(18)}
	out.sound[rowState] = out.Status <= workflow.RunCancelled
	out.sound[rowLast] = out.sum.SetBytes(r.Bytes(21))
	out.sound[rowFile] = (out.flushed == 0 || out.flushedSum.SetBytes(r.Bytes(26))) && out.slot <= 2 && (out.slot == 0) == (out.flushed == 0)
	out.sound[rowStart], out.sound[rowRoom] = true, true
	for i, p := range rowParts {
		out.sound[i] = out.sound[i] && crcMatches(r, p.first, p.crc)
	}
	if out.slot == 1 || out.slot == 2 {
		out.File = fileName(out.Run, out.nonce, out.slot)
	}
	return out
}

// isDamaged reports whether a part of a row that was read is not what was written.
func (r *row) isDamaged() bool { return slices.Contains(r.sound[:], false) }

// decodeTexts completes a row that was read, and returns a *CorruptError if it is damaged.
// What it decodes may be large, so that nobody should wait for it: it is called
// without the lock.
func (r *row) decodeTexts(d *Dir) (err error) {
	texts := r.texts
	r.texts = [3]string{}
	r.Output, err = column.ParseObject(texts[0])
	if err == nil {
		r.Failure, err = column.ParseFailure(texts[1])
	}
	if err == nil && texts[2] != "" {
		err = json.Unmarshal([]byte(texts[2]), &r.Artifacts)
	}
	if r.isDamaged() || err != nil {
		return &CorruptError{Run: r.Run, File: d.pathOf(indexFile), What: "its row in the index is damaged", Err: err}
	}
	return nil
}

func artifactsText(as []workflow.Artifact) driver.Value {
	if len(as) == 0 {
		return nil
	}
	return column.JSONText(as)
}

// readRow reads the row of one run.
func (d *Dir) readRow(id workflow.RunID) (row, error) {
	var out row
	err := d.readIndex(func(db *sqlite.Conn) (err error) {
		out, err = queryRow(db, id)
		return err
	})
	if err == nil {
		err = out.decodeTexts(d)
	}
	return out, err
}

// queryRow reads a row, which is still to be decoded.
func queryRow(db *sqlite.Conn, id workflow.RunID) (out row, err error) {
	found, err := db.One(getHead, func(r *sqlite.Row) error { out = scanRow(r); return nil }, string(id))
	if err == nil && !found {
		err = fmt.Errorf("%w: %q", ErrRunNotFound, string(id))
	}
	return out, err
}

// Head returns the row of one run. It fails with ErrRunNotFound.
func (d *Dir) Head(id workflow.RunID) (Head, error) {
	r, err := d.readRow(id)
	return r.Head, err
}

// Heads returns up to limit rows of runs that fit the filter, in order of id,
// from the first behind after.
func (d *Dir) Heads(after workflow.RunID, f RunFilter, limit int) ([]Head, error) {
	var rows []row
	mask := f.statusMask()
	query := listHeads
	if f.Parent != "" {
		query = listChildren
	}
	err := d.readIndex(func(db *sqlite.Conn) error {
		return db.Each(query, func(r *sqlite.Row) error { rows = append(rows, scanRow(r)); return nil },
			string(after), f.Workflow, f.Workflow, string(f.Parent), string(f.Parent), mask, mask, int64(limit))
	})
	out := make([]Head, 0, len(rows))
	for i := range rows {
		if err == nil {
			err = rows[i].decodeTexts(d)
		}
		out = append(out, rows[i].Head)
	}
	return out, err
}

// Unfinished returns the runs that have not ended, oldest first.
func (d *Dir) Unfinished() ([]workflow.RunID, error) { return d.queryIDs(getUnfinished, 0) }

// Leftover returns the runs that have ended and are not flushed. The caller loads and
// flushes them.
func (d *Dir) Leftover() ([]workflow.RunID, error) { return d.queryIDs(getLeftover, 0) }

// DueAlarms returns the runs whose alarm is at or before an instant, earliest
// first.
func (d *Dir) DueAlarms(before time.Time) ([]workflow.RunID, error) {
	return d.queryIDs(getDue, math.MinInt64, before.UnixMilli())
}

// A QuietRun is one that has not ended and of which nothing was committed for a while.
type QuietRun struct {
	Run workflow.RunID
	Seq int64     // of its last record
	At  time.Time // of its last record
}

// Quiet returns the running runs whose last record is not after since, or is
// after until, that is, was made before the clock was set back; oldest run
// first.
func (d *Dir) Quiet(since, until time.Time) ([]QuietRun, error) {
	var out []QuietRun
	for num, n := int64(0), idPage; n == idPage; {
		n = 0
		err := d.readIndex(func(db *sqlite.Conn) error {
			return db.Each(getQuiet, func(r *sqlite.Row) error {
				out = append(out, QuietRun{Run: workflow.RunID(r.Text(0)), Seq: r.Int64(3), At: column.TimeAt(r, 2)})
				num = r.Int64(1)
				n++
				return nil
			}, since.UnixMilli(), until.UnixMilli(), num, int64(idPage))
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// idPage is how many ids are read at a time: commits go on in between.
const idPage = 512

// queryIDs returns all ids that a query finds in pages. It takes the order and the
// number of the last row before the page, rest, and the size of the page.
func (d *Dir) queryIDs(query string, order int64, rest ...driver.Value) ([]workflow.RunID, error) {
	var out []workflow.RunID
	for num, n := int64(0), idPage; n == idPage; {
		n = 0
		err := d.readIndex(func(db *sqlite.Conn) error {
			return db.Each(query, func(r *sqlite.Row) error {
				out = append(out, workflow.RunID(r.Text(0)))
				num, order = r.Int64(1), r.Int64(2)
				n++
				return nil
			}, append(append([]driver.Value{order, num}, rest...), int64(idPage))...)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// NextAlarm returns the earliest alarm of any run after an instant; zero if
// there is none.
func (d *Dir) NextAlarm(after time.Time) (time.Time, error) {
	from := int64(math.MinInt64)
	if !after.IsZero() {
		from = after.UnixMilli()
	}
	var at time.Time
	err := d.readIndex(func(db *sqlite.Conn) error {
		return db.Each(getNextAlarm, func(r *sqlite.Row) error { at = column.TimeAt(r, 0); return nil }, from)
	})
	return at, err
}

// AllHeads yields the rows of all runs that fit the filter, in order of id, in
// pages: commits go on in between.
func (d *Dir) AllHeads(f RunFilter) iter.Seq2[Head, error] {
	const page = 256
	return func(yield func(Head, error) bool) {
		for after, more := workflow.RunID(""), true; more; {
			heads, err := d.Heads(after, f, page)
			if err != nil {
				yield(Head{}, err)
				return
			}
			for h := range slices.Values(heads) {
				if !yield(h, nil) {
					return
				}
				after = h.Run
			}
			more = len(heads) == page
		}
	}
}
