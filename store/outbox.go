package store

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/tally"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// An OutboxRow is what a commit of a run has to tell, or a part of that.
//
// A row is written by the commit that its events come from, and deleted when they are published;
// in between it does not change. IDs rise in the order of the commits, but may have gaps, of
// transactions that failed. seq is that of the first event; text is what the disk has, sealed if
// there is a codec.
type OutboxRow struct {
	ID       int64 // rises with the commits
	Run      workflow.RunID
	Workflow string           // name of its definition
	Version  int              // of its definition
	Tenant   string           // "" without
	Tag      uint64           // tells its events from those with the same numbers of another run, or of another life of a copy
	At       time.Time        // of the commit
	Events   []decision.Event // at least one
	Err      error            // why the events cannot be read: ErrCorrupt or ErrSealed

	seq, count, bytes int64  // seq is that of the first event
	text              string // the events as they are stored
	sound             bool
}

// Bounds of one write and of one read.
const (
	toldOnce = 256     // events in one row
	rowsRead = 64      // rows that are read at once
	textRead = 1 << 20 // bytes after which no further row is read
)

// An eventOutbox counts the events that wait to be published.
//
// It counts committed rows. last is used by the committer only, under the lock of the index. The
// zero limit belongs to a directory without a feed, into which nobody puts events.
type eventOutbox struct {
	last  atomic.Int64  // id
	limit int64         // bytes from which commits wait
	moved chan struct{} // gets a signal when there is more

	mu           sync.Mutex    // guards
	changed      chan struct{} // closed when there is less
	open         bool          // nobody waits any more
	count, bytes int64
	ages         tally.Ages // of the rows
}

func newEventOutbox(limit int64) *eventOutbox {
	return &eventOutbox{limit: limit, moved: make(chan struct{}, 1), changed: make(chan struct{})}
}

const (
	putTold  = `INSERT INTO outbox (id, run, workflow, version, tenant, tag, at, seq, count, bytes, events, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	getTold  = `SELECT id, run, workflow, version, tenant, tag, at, seq, count, bytes, events, crc FROM outbox WHERE id > ? ORDER BY id LIMIT ?`
	dropTold = `DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?))`
	sumTold  = `SELECT max(id), sum(count), sum(bytes), count(*), min(at) FROM outbox GROUP BY at / 1000`
)

// loadOutbox makes the outbox, if there is to be one, and counts what waits in it.
//
// A table that is there although nobody publishes now keeps its rows: whoever opens the directory
// with a feed again publishes them first.
func (d *Dir) loadOutbox() error {
	has, err := index.HasOutbox(d.db)
	if err == nil && d.options.Outbox > 0 {
		has, err = true, index.MakeOutbox(d.db)
	}
	if err != nil || !has {
		return err
	}
	o := d.outbox
	err = d.db.Each(sumTold, func(r *sqlite.Row) error {
		o.last.Store(max(o.last.Load(), r.Int64(0)))
		o.count, o.bytes = o.count+r.Int64(1), o.bytes+r.Int64(2)
		o.ages.Add(r.Int64(3), time.UnixMilli(r.Int64(4)))
		return nil
	})
	if err == nil && o.count > 0 && d.options.Outbox == 0 && !d.options.LogAway { // who only looks publishes nothing
		d.options.Logger.Warn("events wait to be published, and nobody publishes them", "directory", d.path, "events", o.count)
	}
	return err
}

// encodeTold encodes what a commit has to tell.
//
// An entry of the outbox is bounded by the number of its events, so that one which a fan-out of
// many branches makes is published in pieces. The tag is of the run and of the life in which the
// last record was planned: a copy that goes on by itself so tells other events under the same
// numbers apart.
func (r *Run) encodeTold(events []decision.Event) error {
	r.told = nil
	for some := range slices.Chunk(events, toldOnce) {
		row := OutboxRow{
			Run: r.row.Run, Workflow: r.row.Workflow, Version: r.row.Version, Tenant: r.row.Tenant,
			Tag: r.row.Nonce ^ uint64(r.pending[len(r.pending)-1].Epoch), At: some[len(some)-1].At,
		}
		if err := r.dir.encodeRow(&row, some, encodeEvents(some)); err != nil {
			return err
		}
		r.told = append(r.told, row)
		r.request.bytes += len(row.text)
	}
	return nil
}

// encodeRow gives a row its events, and their text.
//
// The place of the sealed text is that of the first event, which no other row of the run has.
func (d *Dir) encodeRow(row *OutboxRow, events []decision.Event, text string) (err error) {
	row.seq, row.count = events[0].Seq, int64(len(events))
	row.text, err = d.sealer.SealText(index.OutboxPlace(row.Run, row.seq), text)
	row.bytes = int64(len(row.text))
	return err
}

// writeTold puts what a commit has to tell into the outbox.
func (r *Run) writeTold(db *sqlite.Conn) error {
	if len(r.told) == 0 {
		return nil
	}
	for i := range r.told {
		if err := r.dir.putOutboxRow(db, &r.told[i]); err != nil {
			return err
		}
	}
	r.dir.hook.Hit("commit.events")
	return nil
}

// putOutboxRow inserts a row with the next id, within a transaction.
func (d *Dir) putOutboxRow(db *sqlite.Conn, t *OutboxRow) error {
	_, err := db.Exec(putTold, index.RowWithCRC(d.outbox.last.Add(1), string(t.Run), t.Workflow, int64(t.Version), t.Tenant, int64(t.Tag), //nolint:gosec // the 64 bits, signed
		t.At.UnixMilli(), t.seq, t.count, t.bytes, t.text)...)
	return err
}

// countTold counts what a commit had to tell, and says that there is more.
//
// It is called after the commit, as events that are not committed must neither count nor wake the
// feed.
func (r *Run) countTold() {
	if len(r.told) > 0 {
		r.dir.outbox.addRows(r.told)
		r.told = nil
	}
}

// addRows counts rows, and signals that there are some. The signal is kept if the feed is busy: one is enough, as all is read then.
func (o *eventOutbox) addRows(rows []OutboxRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range rows {
		o.count, o.bytes = o.count+rows[i].count, o.bytes+rows[i].bytes
		o.ages.Add(1, rows[i].At)
	}
	select {
	case o.moved <- struct{}{}:
	default:
	}
}

// waitForRoom returns when the outbox is below its bound, or has none any more.
//
// It is asked before the commit, so the bound may be passed by what several runs commit at the
// same time. It also lets everybody go on when the directory has failed, for then nobody
// publishes.
func (o *eventOutbox) waitForRoom(failed <-chan struct{}) {
	for {
		o.mu.Lock()
		full, changed := o.bytes >= o.limit && !o.open, o.changed
		o.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-changed:
		case <-failed:
			return
		}
	}
}

// OpenOutbox lets the outbox grow beyond its bound from now on: commits that wait go on.
//
// An engine that closes calls it: its runs must come to the end of their turns although nobody
// publishes any more.
func (d *Dir) OpenOutbox() {
	o := d.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open {
		o.open = true
		close(o.changed)
		o.changed = make(chan struct{})
	}
}

// OutboxMoved gets a signal when there is more in the outbox.
func (d *Dir) OutboxMoved() <-chan struct{} { return d.outbox.moved }

// OldestInOutbox returns when the oldest event in the outbox was committed, or a second before; zero if it is empty. It waits for no
// commit.
func (d *Dir) OldestInOutbox() time.Time {
	o := d.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ages.Oldest()
}

// OutboxSize returns how many events are in the outbox, and how many bytes they take.
func (d *Dir) OutboxSize() (events, bytes int64) {
	o := d.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count, o.bytes
}

// errFull ends a query.
var errFull = errors.New("enough")

// ReadOutbox returns rows of the outbox behind one with an id, in their order, as many as are
// published at once; none if there are none.
//
// A row that is damaged or sealed comes with its error, so that the feed can pass over it, and
// those behind it are published.
func (d *Dir) ReadOutbox(after int64) ([]OutboxRow, error) {
	var rows []OutboxRow
	bytes := 0
	err := d.readIndex(func(db *sqlite.Conn) error {
		err := db.Each(getTold, func(r *sqlite.Row) error {
			rows = append(rows, scanOutboxRow(r))
			if bytes += len(r.Text(10)); bytes >= textRead {
				return errFull
			}
			return nil
		}, after, int64(rowsRead))
		if errors.Is(err, errFull) {
			err = nil
		}
		return err
	})
	for i := range rows {
		d.openOutboxRow(&rows[i])
	}
	return rows, err
}

// scanOutboxRow reads the columns; the events are still to be opened, which is done without the
// lock.
func scanOutboxRow(r *sqlite.Row) OutboxRow {
	return OutboxRow{
		ID: r.Int64(0), Run: workflow.RunID(r.Text(1)), Workflow: r.Text(2), Version: r.Int(3), Tenant: r.Text(4), Tag: uint64(r.Int64(5)), //nolint:gosec // the 64 bits, signed
		At: time.UnixMilli(r.Int64(6)).UTC(), seq: r.Int64(7), count: r.Int64(8), bytes: r.Int64(9), text: r.Text(10), sound: index.CRCMatches(r, 1, 11),
	}
}

// openOutboxRow reads the events of a row.
func (d *Dir) openOutboxRow(t *OutboxRow) {
	err := errors.New("its checksum does not fit")
	text := ""
	if t.sound {
		text, err = d.sealer.OpenText(index.OutboxPlace(t.Run, t.seq), t.text)
	}
	t.text = "" // the events take its place
	if err == nil {
		t.Events, err = parseEvents(text)
	}
	switch {
	case errors.Is(err, ErrSealed):
		t.Err = err
	case err != nil:
		t.Err = &CorruptError{Run: t.Run, File: d.pathOf(indexFile), What: fmt.Sprintf("row %d of its outbox is damaged", t.ID), Err: err}
	}
}

// EachOutboxRow calls do with every row of the outbox, in order.
func (in *Inspection) EachOutboxRow(do func(*OutboxRow)) error {
	has := false
	err := in.dir.readIndex(func(db *sqlite.Conn) (err error) { has, err = index.HasOutbox(db); return err })
	for after := int64(0); err == nil && has; {
		var rows []OutboxRow
		rows, err = in.dir.ReadOutbox(after)
		for i := range rows {
			do(&rows[i])
			after = rows[i].ID
		}
		has = len(rows) > 0
	}
	return err
}

// KeepOutboxRows puts rows of the outbox of another directory behind those that there are. It
// fails if one has no events, or has some that no directory can have.
func (d *Dir) KeepOutboxRows(rows []OutboxRow) error {
	for i := range rows {
		if len(rows[i].Events) == 0 {
			return fmt.Errorf("keep events of run %q: %w", string(rows[i].Run), errNoEvents)
		}
		events, err := value.Normalize(listEvents(rows[i].Events), value.Limits{Depth: 2 * value.DefaultDepth, Bytes: -1})
		if err != nil {
			return fmt.Errorf("keep events of run %q: %w", string(rows[i].Run), err)
		}
		if err := d.encodeRow(&rows[i], rows[i].Events, string(value.Encode(events))); err != nil {
			return err
		}
	}
	err := d.updateIndex(func(db *sqlite.Conn) error {
		if err := index.MakeOutbox(db); err != nil {
			return err
		}
		for i := range rows {
			if err := d.putOutboxRow(db, &rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		d.outbox.addRows(rows)
	}
	return err
}

// DropOutbox deletes rows of the outbox that were read.
//
// It comes after they were published. A crash in between has them published once more: so each
// event is published at least once, and its reader knows a repetition by the run, the number and the tag.
func (d *Dir) DropOutbox(rows []OutboxRow) error {
	list := []byte{'['}
	for i := range rows {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, rows[i].ID, 10)
	}
	err := d.updateIndex(func(db *sqlite.Conn) error {
		_, err := db.Exec(dropTold, string(append(list, ']')))
		return err
	})
	if err != nil {
		return fmt.Errorf("drop events that are published: %w", err)
	}
	o := d.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range rows {
		o.count, o.bytes = o.count-rows[i].count, o.bytes-rows[i].bytes
		o.ages.Drop(rows[i].At)
	}
	close(o.changed)
	o.changed = make(chan struct{})
	return nil
}

// encodeEvents returns events as the outbox has them: a JSON list of lists, each of the eventFields
// and, unless it is nil, the data.
//
// The position of a field says which one it is, which keeps the rows small.
func encodeEvents(events []decision.Event) string { return string(value.Encode(listEvents(events))) }

func listEvents(events []decision.Event) []any {
	list := make([]any, len(events))
	for i := range events {
		e := &events[i]
		fields := []any{e.Seq, e.Record, e.At.UnixMilli(), string(e.Type), int64(e.Token), string(e.Node), int64(e.Group)}
		if e.Data != nil {
			fields = append(fields, e.Data)
		}
		list[i] = fields
	}
	return list
}

// eventFields is how many fields an event has at least.
const eventFields = 7

var errNoEvents = errors.New("it is no list of events")

// parseEvents is the inverse of encodeEvents.
//
// A list without events is refused, since no row was ever written without.
func parseEvents(text string) ([]decision.Event, error) {
	v, err := codec.DecodeValue([]byte(text))
	if err != nil {
		return nil, err
	}
	list, _ := v.([]any)
	out := make([]decision.Event, len(list))
	for i := range list {
		fields, _ := list[i].([]any)
		if len(fields) < eventFields {
			return nil, errNoEvents
		}
		f := fieldReader{fields: fields}
		out[i] = decision.Event{
			Seq: f.numberAt(0), Record: f.numberAt(1), At: time.UnixMilli(f.numberAt(2)).UTC(), Type: workflow.EventType(f.textAt(3)),
			Token: workflow.TokenID(f.numberAt(4)), Node: workflow.NodeID(f.textAt(5)), Group: workflow.GroupID(f.numberAt(6)),
		}
		if len(fields) > eventFields {
			data, ok := fields[eventFields].(map[string]any)
			out[i].Data, f.bad = data, f.bad || !ok
		}
		if f.bad {
			return nil, errNoEvents
		}
	}
	if len(out) == 0 {
		return nil, errNoEvents
	}
	return out, nil
}

// A fieldReader reads the fields of an event until one is bad.
type fieldReader struct {
	fields []any
	bad    bool
}

func (f *fieldReader) numberAt(i int) int64 {
	n, ok := f.fields[i].(int64)
	f.bad = f.bad || !ok
	return n
}

func (f *fieldReader) textAt(i int) string {
	s, ok := f.fields[i].(string)
	f.bad = f.bad || !ok
	return s
}
