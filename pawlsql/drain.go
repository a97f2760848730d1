package pawlsql

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/traceparent"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// The bounds of what is taken at once.
const (
	headsAtOnce = 256      // runs
	rowsAtOnce  = 1024     // calls
	bytesAtOnce = 32 << 20 // of their bodies
	lanes       = 64       // runs whose calls are made at the same time
)

// How long the database may take to answer a statement of Run. Without these a connection whose other end is gone would keep Run for good.
const (
	answerTimeout = 5 * time.Second
	scanTimeout   = 5 * time.Minute // of a statement that may read a whole backlog
)

// errSilent says that the database has not answered in time. A statement that is not answered may have been done.
var errSilent = errors.New("the database does not answer")

// askInTime calls ask, whose statements end after a timeout.
func askInTime(ctx context.Context, timeout time.Duration, ask func(ctx context.Context) error) error {
	waits, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := ask(waits)
	if err != nil && ctx.Err() == nil && waits.Err() != nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

// A drain takes calls for an engine.
//
// The first call of a run that waits is its head. A process takes a run by a lease on its head: one UPDATE of this row, which
// succeeds for one process only. Its holder makes the calls behind the head as well, since no other process can have
// one of them while the head is there. So the order of a run holds among any number of processes, and nobody keeps a transaction open
// or waits for a lock of another.
//
// A lease may run out, by the clock of the database, while its holder is stopped. Then two make the same calls. Each call
// counts once in the engine, and the order of their first times is that of the rows.
type drain struct {
	outbox *Outbox
	engine Engine
	hook   *testhook.Hook

	allAt    time.Time     // when it looks among all calls again that are due
	allPause time.Duration // from one such look to the next, as long as they find nothing
}

// A row is a call that is to be made.
type row struct {
	identity
	body  string
	tries int

	blocks bool // it is not to be made now, and no later call of its run is

	// The outcome.
	taken  bool  // the engine has it
	err    error // why not; nil if it was not tried
	refuse bool  // it is not tried again
}

// An identity is what a row is known by. A server that takes over from another one may give the ids of calls that it never had to others,
// which were not made.
type identity struct {
	id      int64
	run     workflow.RunID
	kind    string
	created int64
}

const sameText = `id = ? AND run = ? AND kind = ? AND created = ?`

// listArgs are the parameters of sameText.
func (i identity) listArgs() []any { return []any{i.id, string(i.run), i.kind, i.created} }

// takeSome takes calls once. It returns how long there is nothing to do, unless somebody says that there is: 0 if there may be other calls.
func (d *drain) takeSome(ctx context.Context) (idle time.Duration, err error) {
	began := time.Now()
	heads, most, err := d.findHeads(ctx)
	if err != nil {
		return 0, err
	}
	if len(heads) == 0 {
		return d.findPause(ctx, began, most)
	}
	d.hook.Hit("calls.found")
	token := newToken()
	if err := d.claimHeads(ctx, heads, token); err != nil {
		// It may have been done: nobody makes these calls, and so the lease ends here.
		return 0, errors.Join(err, askInTime(context.WithoutCancel(ctx), answerTimeout, func(ctx context.Context) error {
			return d.settleRuns(ctx, nil, heads, token)
		}))
	}
	d.hook.Hit("calls.claimed")
	var runs [][]*row
	behindLease := max(d.outbox.options.Lease, answerTimeout)
	err = askInTime(ctx, behindLease, func(ctx context.Context) error { // when the lease has run out it is too late
		runs, err = d.readRuns(ctx, heads, token)
		return err
	})
	if err == nil { // the time for the calls begins now: a process that reads slowly would make no call ever
		callCtx, cancel := context.WithTimeout(ctx, d.outbox.options.Lease/2)
		err = d.makeCalls(callCtx, runs)
		cancel()
	}
	// The results are written also when ctx is done: or else other processes would wait for the lease.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), behindLease)
	defer cancel()
	return 0, errors.Join(err, d.settleRuns(ctx, runs, heads, token))
}

// clockRoom is more than two readings of the clock of a database are wrong by: that of SQLite counts milliseconds.
const clockRoom = 10 * time.Millisecond

// findPause returns how long it is until a call is due that waits because of an error, or of a lease whose holder may be dead: at
// most so long. Calls that have become due since an instant count as well.
func (d *drain) findPause(ctx context.Context, since time.Time, most time.Duration) (time.Duration, error) {
	var micros int64
	text := d.outbox.fillText(`SELECT COALESCE(MIN(due) - {now}, ?) FROM {calls} WHERE state = 0 AND due > {now} - ?`)
	for back := time.Duration(0); time.Since(since)+clockRoom > back; { // the database may have come to the statement only now
		back = 2 * (time.Since(since) + clockRoom)
		err := askInTime(ctx, scanTimeout, func(ctx context.Context) error {
			return d.outbox.db.QueryRowContext(ctx, text, most.Microseconds(), back.Microseconds()).Scan(&micros)
		})
		if err != nil {
			return 0, fmt.Errorf("look for calls that wait: %w", err)
		}
	}
	pause := time.Duration(min(micros, most.Microseconds())) * time.Microsecond
	return min(max(pause, time.Millisecond), most), nil
}

// newToken names a claim.
func newToken() string {
	var raw [16]byte
	for i := range raw {
		raw[i] = byte(rand.Uint32())
	}
	return hex.EncodeToString(raw[:])
}

// The head of a run is its first call that waits, if that is due; one that was refused does not count, unless it is a start, which nothing
// overtakes. Heads are looked for among the runs of the first calls that are due, so that a long backlog costs little, and among all if that finds
// nothing: the first may all be of one run. As long as that finds nothing either, it is done more and more seldom, and in between
// the last calls are looked at, among which new ones are. Each run costs one look into the index by run and id, however many
// calls it has.
const (
	headsText = `SELECT (SELECT CASE WHEN b.state = 0 AND b.due <= {now} THEN b.id ELSE 9223372036854775807 END FROM {calls} b{fromRun}
 AND (b.state = 0 OR b.kind = 'start') ORDER BY b.run, b.id LIMIT 1) AS head FROM (SELECT DISTINCT c.run FROM {among} c) r ORDER BY head LIMIT 256`
	dueText = `SELECT id, run FROM {calls} WHERE state = 0 AND due <= {now}`
	noHead  = math.MaxInt64 // of a run that has none
)

// findHeads returns heads, some of them. If there are none, most is how long nobody needs to look again, unless a call becomes
// due.
func (d *drain) findHeads(ctx context.Context) (ids []int64, most time.Duration, err error) {
	most = d.outbox.options.Poll
	ids, due, err := d.findHeadsAmong(ctx, answerTimeout, "("+dueText+" ORDER BY id LIMIT 1024)")
	switch now := time.Now(); {
	case err != nil || len(ids) > 0 || !due:
		d.allPause, d.allAt = 0, now
	case now.Before(d.allAt):
		most = min(most, d.allAt.Sub(now))
		ids, _, err = d.findHeadsAmong(ctx, answerTimeout, "("+dueText+" ORDER BY id DESC LIMIT 1024)")
	default:
		if ids, _, err = d.findHeadsAmong(ctx, scanTimeout, "("+dueText+")"); err != nil || len(ids) > 0 {
			d.allPause = 0
		} else {
			d.allPause = min(max(2*d.allPause, firstPause), lastPause)
		}
		d.allAt = time.Now().Add(d.allPause)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("look for calls: %w", err)
	}
	return ids, most, nil
}

// findHeadsAmong returns the heads among some calls, and whether any of these is due.
func (d *drain) findHeadsAmong(ctx context.Context, timeout time.Duration, among string) (ids []int64, due bool, err error) {
	err = askInTime(ctx, timeout, func(ctx context.Context) error {
		rows, err := d.outbox.db.QueryContext(ctx, d.outbox.fillText(strings.NewReplacer("{among}", among, "{fromRun}", d.outbox.dialect.fromRun).Replace(headsText)))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return err
			}
			if due = true; id != noHead {
				ids = append(ids, id)
			}
		}
		return rows.Err()
	})
	return ids, due, err
}

// claimHeads leases the heads that nobody else has leased meanwhile.
func (d *drain) claimHeads(ctx context.Context, heads []int64, token string) error {
	text, ids := d.outbox.fillTextOf(`UPDATE {calls}{byKey} SET taker = ?, due = {now} + ? WHERE state = 0 AND due <= {now} AND `+d.outbox.dialect.claimable("{ids}"), heads)
	args := append([]any{token, d.outbox.options.Lease.Microseconds()}, ids...)
	err := askInTime(ctx, answerTimeout, func(ctx context.Context) error {
		_, err := d.outbox.db.ExecContext(ctx, text, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("lease calls: %w", err)
	}
	return nil
}

// Heads come first: what is behind them is left to the next round if there is too much of it. A run gets its share of what is
// read, or fewestOfRun if that is more: otherwise all its calls, a million perhaps, would be read and sorted each time. The
// inner LIMIT has a planner look for the last one once for each run. MySQL still walks the entries of a run in the index.
const readText = `SELECT c.id, c.run, c.kind, c.created, c.body, c.tries, CASE WHEN c.id <> r.id AND (c.state = 1 OR c.due > {now}) THEN 1 ELSE 0 END
 FROM (SELECT r.id, r.run, COALESCE((SELECT b.id FROM {calls} b{fromHead} ORDER BY b.run, b.id LIMIT 1 OFFSET {share}), 9223372036854775807) AS last
 FROM {calls} r WHERE r.id IN ({ids}) AND r.taker = ? AND r.state = 0 LIMIT 256) r
 JOIN {calls} c ON c.run = r.run AND c.id >= r.id AND c.id <= r.last WHERE c.state = 0 OR c.kind = 'start'
 ORDER BY CASE WHEN c.id = r.id THEN 0 ELSE 1 END, c.id LIMIT 1024`

// fewestOfRun is how many calls of a run are read, if it has as many, where there are many runs.
const fewestOfRun = 16

// readRuns returns the calls of the runs that were leased, in their order, up to the first of each run that is not to be made now.
func (d *drain) readRuns(ctx context.Context, heads []int64, token string) (runs [][]*row, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	share := 1
	for share < max(rowsAtOnce/len(heads), fewestOfRun) { // powers of two, so that there are few texts
		share *= 2
	}
	text, ids := d.outbox.fillTextOf(strings.NewReplacer("{fromHead}", d.outbox.dialect.fromHead, "{share}", strconv.Itoa(share)).Replace(readText), heads)
	rows, err := d.outbox.db.QueryContext(ctx, text, append(ids, token)...)
	if err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	defer rows.Close()
	at := map[workflow.RunID]int{}
	for size := 0; rows.Next(); {
		if size >= bytesAtOnce {
			cancel() // Close would read the rest, 16 GiB perhaps
			return runs, nil
		}
		var r row
		var run string
		if err := rows.Scan(&r.id, &run, &r.kind, &r.created, &r.body, &r.tries, &r.blocks); err != nil {
			return nil, fmt.Errorf("read calls: %w", err)
		}
		r.run = workflow.RunID(run)
		size += len(r.body)
		i, ok := at[r.run]
		if !ok {
			i = len(runs)
			at[r.run] = i
			runs = append(runs, nil)
		}
		if n := len(runs[i]); n == 0 || !runs[i][n-1].blocks {
			runs[i] = append(runs[i], &r)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	return runs, nil
}

// makeCalls makes the calls of each run in their order, those of many runs at the same time. It fails with the first error
// that ends them all.
func (d *drain) makeCalls(ctx context.Context, runs [][]*row) error {
	var next atomic.Int64
	var group sync.WaitGroup
	var over atomic.Pointer[error]
	for range min(lanes, len(runs)) {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(runs) || over.Load() != nil {
					return
				}
				if err := d.makeCallsOf(ctx, runs[i]); err != nil {
					over.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	group.Wait()
	if err := over.Load(); err != nil {
		return *err
	}
	return nil
}

// makeCallsOf makes the calls of a run until one has to wait. Its error says that the engine takes no calls.
func (d *drain) makeCallsOf(ctx context.Context, rows []*row) error {
	for _, r := range rows {
		if r.blocks || ctx.Err() != nil {
			return nil
		}
		err := d.makeCall(ctx, r)
		d.hook.Hit("calls.made")
		if err == nil {
			r.taken = true
			continue
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil // nothing was said of the call
		}
		if isOver(err) {
			return fmt.Errorf("pawlsql: the engine takes no calls: %w", err)
		}
		r.err, r.refuse = err, isRefused(err) && !hasNoRoom(r, err)
		if !r.refuse || r.kind == KindStart {
			return nil
		}
	}
	return nil
}

// makeCall calls the engine.
func (d *drain) makeCall(ctx context.Context, r *row) error {
	var c call
	if err := json.Unmarshal(fromASCII(r.body), &c); err != nil {
		return fmt.Errorf("%w: the row is damaged: %w", pawl.ErrInvalid, err)
	}
	ctx = traceparent.With(ctx, c.Traceparent, c.Tracestate)
	switch r.kind {
	case KindStart:
		input, err := decodeValue(c.Input)
		if err != nil {
			return err
		}
		return d.engine.Start(ctx, workflow.Run{
			ID: r.run, Workflow: c.Workflow, Version: c.Version, Definition: c.Definition, Tenant: c.Tenant, Labels: c.Labels, MetaLimits: c.MetaLimits,
		}, input)
	case KindSignal:
		payload, err := decodeValue(c.Payload)
		if err != nil {
			return err
		}
		return d.engine.Do(ctx, r.run, pawl.Signal{Name: c.Name, ID: c.ID, Payload: payload, Transient: c.Transient, TTL: c.TTL, Early: c.Early})
	case KindCancel:
		return d.engine.Do(ctx, r.run, pawl.Cancel{Reason: c.Reason, Ended: true})
	}
	return fmt.Errorf("%w: a call of kind %.50q", pawl.ErrInvalid, r.kind)
}

func decodeValue(data json.RawMessage) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	v, err := value.Decode(data, value.Limits{Bytes: maxValueBytes})
	if err != nil {
		return nil, fmt.Errorf("%w: the row is damaged: %w", pawl.ErrInvalid, err)
	}
	return v, nil
}

// isOver reports whether an engine takes no call any more.
func isOver(err error) bool {
	return errors.Is(err, pawl.ErrClosed) || errors.Is(err, pawl.ErrFenced) || errors.Is(err, pawl.ErrFailed)
}

// isRefused reports whether an error answers a call for good, as things stand: not where the engine is busy, has no room, or nobody
// knows whether the call was done.
func isRefused(err error) bool {
	r := refusal.Of(err)
	switch {
	case errors.Is(err, context.Canceled), !refusal.Knows(err):
		return false
	case r.Code == refusal.CodeInvalid:
		return true
	}
	return !r.All && !r.Later && r.Status <= 500
}

// hasNoRoom reports whether a signal was refused since its run keeps too many: it is made when the run has taken some, and later
// calls do not overtake it. A signal that has no room in an empty run is refused.
func hasNoRoom(r *row, err error) bool {
	var limit *workflow.LimitError
	if r.kind != KindSignal || !errors.As(err, &limit) {
		return false
	}
	switch limit.Limit {
	case "signals":
		return true
	case limits.SignalBytes:
		var c call
		if json.Unmarshal(fromASCII(r.body), &c) != nil {
			return false
		}
		payload, err := decodeValue(c.Payload)
		return err == nil && int64(value.Size(payload)) <= limit.Max
	}
	return false
}

// settleRuns writes what has become of the calls. Runs whose calls were all made come first, so that no trouble with others has their calls
// repeated. Calls that are to wait are marked before the head of their run goes, so that nobody takes them sooner. A run with one that cannot be marked
// keeps its lease, and the others go on.
func (d *drain) settleRuns(ctx context.Context, runs [][]*row, heads []int64, token string) error {
	var first, last []identity
	var some [][]*row // runs with a call that has failed
	settled := map[int64]bool{}
	for _, rows := range runs {
		for _, r := range rows {
			settled[r.id] = r.taken || r.err != nil
		}
		if slices.ContainsFunc(rows, func(r *row) bool { return r.err != nil }) {
			some = append(some, rows)
		} else {
			first = append(first, takenOf(rows)...)
		}
	}
	if err := d.deleteMade(ctx, first); err != nil {
		return err
	}
	var failed error
	for _, rows := range some {
		if err := d.noteErrors(ctx, rows, token); err == nil {
			last = append(last, takenOf(rows)...)
		} else if failed == nil {
			failed = err
		}
	}
	d.hook.Hit("calls.noted")
	if err := d.deleteMade(ctx, last); err != nil {
		return errors.Join(failed, err)
	}
	left := slices.DeleteFunc(heads, func(id int64) bool { return settled[id] })
	if len(left) == 0 {
		return failed
	}
	text, ids := d.outbox.fillTextOf(`UPDATE {calls}{byKey} SET taker = '', due = 0 WHERE state = 0 AND taker = ? AND id IN ({ids})`, left)
	if _, err := d.outbox.db.ExecContext(ctx, text, append([]any{token}, ids...)...); err != nil {
		return errors.Join(failed, fmt.Errorf("end leases: %w", err))
	}
	return failed
}

// takenOf returns the calls that the engine has.
func takenOf(rows []*row) (taken []identity) {
	for _, r := range rows {
		if r.taken {
			taken = append(taken, r.identity)
		}
	}
	return taken
}

// deleteMade deletes calls that were made, the head of a run after what is behind it.
func (d *drain) deleteMade(ctx context.Context, made []identity) error {
	slices.Reverse(made)
	for part := range slices.Chunk(made, headsAtOnce) {
		if err := d.deletePart(ctx, part); err != nil {
			return fmt.Errorf("delete calls that were made: %w", err)
		}
		d.hook.Hit("calls.deleted")
	}
	return nil
}

// deletePart deletes calls in one transaction.
func (d *drain) deletePart(ctx context.Context, calls []identity) error {
	tx, err := d.outbox.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := d.outbox.deleteCalls(ctx, tx, calls); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// noteErrors keeps why calls of a run were not taken.
func (d *drain) noteErrors(ctx context.Context, rows []*row, token string) error {
	for _, r := range rows {
		if r.err == nil {
			continue
		}
		if r.refuse {
			d.outbox.options.Logger.WarnContext(ctx, "pawlsql: a call is refused: it stays until somebody retries or drops it", "run", string(r.run), "error", r.err)
		}
		message := shortenText(r.err.Error())
		err := d.noteError(ctx, r, token, message)
		if plain := shortenText(toASCII([]byte(message))); err != nil && plain != message { // the encoding of the database may lack a character
			err = d.noteError(ctx, r, token, plain)
		}
		if err != nil {
			return fmt.Errorf("note why a call was not taken: %w", err)
		}
	}
	return nil
}

// noteError keeps why a call was not taken, and that it is refused, or when it is tried again; not if another process has leased it meanwhile.
func (d *drain) noteError(ctx context.Context, r *row, token, message string) error {
	code, state := refusal.Of(r.err).Code, 0
	pause := min(firstPause<<min(r.tries, 10), time.Minute)
	if r.refuse {
		state, pause = 1, 0
	}
	args := append([]any{state, pause.Microseconds(), code, message}, r.listArgs()...)
	_, err := d.outbox.db.ExecContext(ctx, d.outbox.fillText(`UPDATE {calls} SET state = ?, due = {now} + ?, taker = '', tries = tries + 1, code = ?, message = ? WHERE `+sameText+` AND (taker = ? OR due <= {now})`),
		append(args, token)...)
	return err
}

const maxMessage = 1000 // bytes

// shortenText returns a message as any database takes it.
func shortenText(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
	if len(text) > maxMessage {
		text = text[:maxMessage]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	return text
}
