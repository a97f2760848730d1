package store

import (
	"crypto/rand"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Run is the handle of a run for the one goroutine that owns it. It keeps the
// records that are not filed yet, no descriptor and no goroutine. Of several
// handles of one run the first that commits lives on.
type Run struct {
	dir     *Dir
	graph   *workflow.Graph
	row     row
	doc     string // of the definition, before the first commit
	fresh   bool   // the index does not know the run
	adopted bool   // it comes from another directory
	dead    error  // why the handle cannot be used any more

	unfiled []entry      // committed since the last Materialize
	bytes   int64        // that they take
	size    atomic.Int64 // of the file

	request request
	batch   []entry        // of the commit under way
	next    Head           // after it
	state   []driver.Value // what its row says of next, if that changes
	inputs  []string       // of the dead letters in next.Listings, encoded
	refs    []blobRef      // that it brings
}

// New returns the handle of a run that does not exist yet. Nothing is written
// before its first Commit, which fails with workflow.ErrRunExists if the id is
// taken by then. Of head, what does not change with commits is kept; Run must
// be set.
func (d *Dir) New(head Head, g *workflow.Graph) *Run {
	d.definitions.add(g)
	head.Workflow, head.Version, head.Definition = g.Definition.Name, versionOf(g), g.Hash
	head.Status, head.Seq, head.File = workflow.RunCreated, 0, ""
	if head.Room = 0; head.Root == "" {
		head.Room = g.Limits.Descendants
	}
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	r := d.handle(row{
		Head: head, num: d.lastNum.Add(1), nonce: binary.LittleEndian.Uint64(nonce[:]), sum: firstSum(head.Run),
		sound: [rowPartCount]bool{true, true, true, true, true},
	}, g)
	r.fresh = true
	return r
}

func (d *Dir) handle(row row, g *workflow.Graph) *Run {
	r := &Run{dir: d, graph: g, row: row}
	r.size.Store(row.fileSize)
	r.request = request{apply: r.write, answer: make(chan error, 1)}
	return r
}

// Commit makes records durable, together with what head says of the run after
// them. Their sequences must go on from the last commit. It blocks until that
// is done. After any error the handle is dead; with ErrUnknown it may have been
// done: load the run again. It fails with ErrNoSpace, ErrFenced, ErrClosed, or,
// at the first commit, with workflow.ErrRunExists.
func (r *Run) Commit(records []decision.Record, head Head) error {
	if r.dead != nil {
		return r.dead
	}
	if len(records) == 0 {
		return nil
	}
	err := r.encode(records, head)
	if err == nil {
		err = r.commit()
	}
	if err != nil {
		r.dead = fmt.Errorf("commit run %q: %w", string(r.row.Run), err)
		return r.dead
	}
	r.committed()
	return nil
}

// encode prepares a commit: everything that does not need the database.
func (r *Run) encode(records []decision.Record, head Head) error {
	r.batch = r.batch[:0]
	seq, sum := r.row.Seq, r.row.sum
	for _, rec := range records {
		e, err := rec.Encode()
		if err != nil {
			return err
		}
		if rec.Seq != seq+1 || rec.Seq > maxSeq {
			return fmt.Errorf("record %d after record %d", rec.Seq, seq)
		}
		seq, sum = rec.Seq, sum.next(&e)
		r.batch = append(r.batch, entry{Encoded: e, sum: sum})
	}
	return r.prepare(records, head)
}

// commit makes the batch durable.
func (r *Run) commit() error {
	r.dir.filer.waitForRoom()
	if err := r.dir.putAside(r.batch); err != nil {
		return err
	}
	for i := range r.batch {
		if r.batch[i].parts == 0 {
			r.request.bytes += int(r.batch[i].size())
		}
	}
	err := r.dir.committer.do(&r.request)
	if err != nil {
		r.dir.takeBack(r.row.num, r.batch, err)
	}
	return err
}

// adopt is Commit for records that another directory has kept: their text and
// their checksums stay as they are. A child run finds room, whatever its root
// says.
func (r *Run) adopt(entries []entry, records []decision.Record, head Head) error {
	r.batch, r.adopted = append(r.batch[:0], entries...), true
	err := r.prepare(records, head)
	if err == nil {
		err = r.commit()
	}
	if err != nil {
		return fmt.Errorf("restore run %q: %w", string(r.row.Run), err)
	}
	r.committed()
	return nil
}

// prepare prepares what the batch of a commit brings besides its records.
func (r *Run) prepare(records []decision.Record, head Head) error {
	r.findRefs(records)
	r.next = r.row.Head
	seq := records[len(records)-1].Seq
	r.next.Seq, r.next.Status, r.next.Alarm = seq, head.Status, head.Alarm
	r.next.EndedAt, r.next.Output, r.next.Failure = head.EndedAt, head.Output, head.Failure
	r.next.Listings = head.Listings
	r.next.Artifacts, r.next.Dropped = head.Artifacts, head.Dropped
	var err error
	if r.fresh {
		r.next.StartedAt = head.StartedAt
		r.doc, err = r.dir.definitions.doc(r.graph)
	}
	r.encodeNext()
	return err
}

// encodeNext encodes what may be large: nothing else can be committed while a commit
// is written.
func (r *Run) encodeNext() {
	r.state, r.inputs, r.request.bytes = nil, make([]string, len(r.next.Listings)), 0
	if r.fresh || r.restates() {
		output := objectText(r.next.Output)
		r.state = r.stateValues(output)
		text, _ := output.(string)
		r.request.bytes = len(text)
	}
	for i, l := range r.next.Listings {
		if l.DeadLetter != nil {
			r.inputs[i] = string(value.Encode(l.DeadLetter.Input))
			r.request.bytes += len(r.inputs[i])
		}
	}
}

const (
	insertRun = `INSERT INTO runs (num,
		id, workflow, version, definition, input_hash, parent, root, nonce, started_at, start_crc, room, room_crc,
		status, alarm, ended_at, output, failure, artifacts, state_crc, seq, sum, at, last_crc,
		slot, filed, filed_sum, file_hash, file_size, file_crc)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
	getRoom    = `SELECT num, room, room_crc FROM runs WHERE id = ?`
	takeRoom   = `UPDATE runs SET room = ?, room_crc = ? WHERE num = ?`
	advanceRun = `UPDATE runs SET seq = ?, sum = ?, at = ?, last_crc = ? WHERE num = ? AND seq = ?`
	restateRun = `UPDATE runs SET seq = ?, sum = ?, at = ?, last_crc = ?,
		status = ?, alarm = ?, ended_at = ?, output = ?, failure = ?, artifacts = ?, state_crc = ? WHERE num = ? AND seq = ?`
)

// write runs the statements of a commit.
func (r *Run) write(db *sqlite.Conn) error {
	if err := r.writeRow(db); err != nil {
		return err
	}
	if err := r.writeListings(db); err != nil {
		return err
	}
	if err := r.writeRefs(db); err != nil {
		return err
	}
	failpoint.Hit("commit.row")
	for i := range r.batch {
		if err := appendLog(db, r.row.num, &r.batch[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeRow brings the run's row up to date, and refuses if that is not the one
// that the handle knows.
func (r *Run) writeRow(db *sqlite.Conn) error {
	end := &r.batch[len(r.batch)-1]
	last := checked(r.row.num, end.Seq, end.sum[:], millis(end.At))
	if r.fresh {
		return r.insert(db, last)
	}
	text := advanceRun
	if r.state != nil {
		text = restateRun
	}
	n, err := db.Exec(text, slices.Concat(last, r.state, []driver.Value{r.row.num, r.row.Seq})...)
	if err == nil && n == 0 {
		err = refuse("%w: another handle has committed behind record %d", ErrFenced, r.row.Seq)
	}
	return err
}

// restates reports whether a commit changes more of the row than its sequence.
func (r *Run) restates() bool {
	a, b := &r.row.Head, &r.next
	return a.Status != b.Status || !a.Alarm.Equal(b.Alarm) || !a.EndedAt.Equal(b.EndedAt) ||
		!reflect.DeepEqual(a.Failure, b.Failure) || a.Output != nil || b.Output != nil
}

// insert writes the row of a new run, of which last is the last part but its file.
func (r *Run) insert(db *sqlite.Conn, last []driver.Value) error {
	h, num := &r.next, r.row.num
	root, room, err := r.readRoom(db, h.Root)
	if err != nil {
		return err
	}
	n, err := db.Exec(insertRun, slices.Concat(
		checkedRow(num, string(h.Run), h.Workflow, int64(h.Version), h.Definition, h.InputHash,
			string(h.Parent), string(h.Root), int64(r.row.nonce), millis(h.StartedAt)),
		checked(num, int64(h.Room)), r.state, last, checked(num, int64(0), int64(0), nil, nil, int64(0)),
	)...)
	if err != nil {
		return err
	}
	if n == 0 {
		return &refusal{workflow.ErrRunExists}
	}
	if root != 0 {
		if _, err := db.Exec(takeRoom, append(checked(root, room-1), root)...); err != nil {
			return err
		}
	}
	return r.dir.keepDefinition(db, h.Definition, r.doc)
}

// readRoom returns the number of a child's root, 0 without, and how many descendants
// that may still have. It refuses the child if that is none, or the root is gone.
func (r *Run) readRoom(db *sqlite.Conn, id workflow.RunID) (root, room int64, err error) {
	if id == "" {
		return 0, 0, nil
	}
	sound := true
	_, err = db.One(getRoom, func(x *sqlite.Row) error {
		root, room, sound = x.Int64(0), x.Int64(1), intact(x, 1, 2)
		return nil
	}, string(id))
	switch {
	case err != nil:
	case !sound:
		err = &refusal{&CorruptError{Run: id, File: r.dir.at(indexFile), What: "its row in the index is damaged"}}
	case room <= 0 && !r.adopted:
		err = refuse("%w: run %q", ErrNoRoom, string(id))
	}
	return root, room, err
}

// stateValues returns what the row says of the run as it will be.
func (r *Run) stateValues(output driver.Value) []driver.Value {
	h := &r.next
	return checked(r.row.num, int64(h.Status), alarm(h), millis(h.EndedAt), output, failureText(h.Failure), artifactsText(h.Artifacts))
}

// alarm returns the alarm of a run that can still change.
func alarm(h *Head) any {
	if h.Status.Final() {
		return nil
	}
	return millis(h.Alarm)
}

// committed takes over what is durable now.
func (r *Run) committed() {
	if r.fresh {
		r.fresh, r.doc = false, ""
		r.dir.definitions.keep(r.next.Definition)
	}
	r.row.Head, r.row.sum = r.next, r.batch[len(r.batch)-1].sum
	for i := range r.batch {
		r.bytes += r.batch[i].size()
	}
	r.unfiled = append(r.unfiled, r.batch...)
	clear(r.batch)
	r.state, r.inputs = nil, nil
}

// Head returns the run's row as the last commit left it.
func (r *Run) Head() Head { return r.row.Head }

// Unfiled returns how many records were committed since the last Materialize,
// and about how many bytes of the log they take.
func (r *Run) Unfiled() (records int, bytes int64) { return len(r.unfiled), r.bytes }

// Bounds of what is worth filing in the middle of a run.
const (
	ripeRecords = 1000
	ripeBytes   = 1 << 20
	ripeShare   = 4 // of the file, which is written anew
)

// Ripe reports whether filing is worth its cost while the run goes on: there is
// much to file, and it is much compared with the file, so that the work stays
// in proportion to the run.
func (r *Run) Ripe() bool {
	return (len(r.unfiled) >= ripeRecords || r.bytes >= ripeBytes) && r.bytes >= r.size.Load()/ripeShare
}

// Materialize has the run's file brought up to date: ch is what has changed in
// the state since the last call, events what has happened. Both belong to the
// store from now on. It returns at once; done, which may be nil and must not
// block, is called when the file is durable and the log is not asked for the
// records any more, which are gone from it if nothing went wrong, or with an
// error: usually from another goroutine, before Materialize returns if the handle
// is dead. After an error the next Materialize tries again.
func (r *Run) Materialize(ch workflow.Changes, events []decision.Event, done func(error)) {
	err := r.file(&filing{changes: ch, events: events, entries: r.unfiled, seq: r.row.Seq, sum: r.row.sum, done: done, size: &r.size})
	if err != nil && done != nil {
		done(fmt.Errorf("materialise run %q: %w", string(r.row.Run), err))
	}
}

func (r *Run) file(f *filing) error {
	switch {
	case r.dead != nil:
		return r.dead
	case r.fresh:
		return ErrRunNotFound
	}
	r.unfiled, r.bytes = nil, 0
	return r.dir.filer.add(r.row.num, r.row.Run, f)
}

// Close ends the use of the handle. Filing that it asked for goes on.
func (r *Run) Close() error {
	if r.dead == nil {
		r.dead = ErrClosed
	}
	r.unfiled, r.batch = nil, nil
	return nil
}
