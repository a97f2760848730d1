package pawlsql

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// takeSome takes calls once. more says that there may be others.
func (d *drain) takeSome(ctx context.Context) (more bool, err error) {
	heads, err := d.findHeads(ctx)
	if err != nil {
		return false, err
	}
	if len(heads) == 0 {
		return false, nil
	}
	d.hook.Hit("calls.found")
	token := newToken()
	until := time.Now().Add(d.outbox.options.Lease / 2)
	if err := d.claimHeads(ctx, heads, token); err != nil {
		return false, err
	}
	d.hook.Hit("calls.claimed")
	var runs [][]*row
	err = askInTime(ctx, max(d.outbox.options.Lease, answerTimeout), func(ctx context.Context) error { // when the lease has run out it is too late
		runs, err = d.readRuns(ctx, heads, token)
		return err
	})
	if err == nil {
		callCtx, cancel := context.WithDeadline(ctx, until)
		err = d.makeCalls(callCtx, runs)
		cancel()
	}
	// The results are written also when ctx is done: or else other processes would wait for the lease.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.outbox.options.Lease)
	defer cancel()
	return true, errors.Join(err, d.settleRuns(ctx, runs, heads, token))
}

// newToken names a claim.
func newToken() string {
	var raw [16]byte
	for i := range raw {
		raw[i] = byte(rand.Uint32())
	}
	return hex.EncodeToString(raw[:])
}

// A call of a run is its head if no earlier one waits; one that was refused does not count, unless it is a start. Heads are looked for
// among the first calls that wait, so that a long backlog costs little, and among all if that finds nothing: the first may all be of one run.
const (
	headsText = `SELECT c.id FROM {among} c WHERE NOT EXISTS
 (SELECT 1 FROM {calls} b WHERE b.run = c.run AND b.id < c.id AND (b.state = 0 OR b.kind = 'start')) ORDER BY c.id LIMIT 256`
	dueText = `SELECT id, run FROM {calls} WHERE state = 0 AND due <= {now}`
)

func (d *drain) findHeads(ctx context.Context) ([]int64, error) {
	ids, err := d.findHeadsAmong(ctx, answerTimeout, "("+dueText+" ORDER BY id LIMIT 1024)")
	if err == nil && len(ids) == 0 {
		ids, err = d.findHeadsAmong(ctx, scanTimeout, "("+dueText+")")
	}
	if err != nil {
		return nil, fmt.Errorf("look for calls: %w", err)
	}
	return ids, nil
}

func (d *drain) findHeadsAmong(ctx context.Context, timeout time.Duration, among string) (ids []int64, err error) {
	err = askInTime(ctx, timeout, func(ctx context.Context) error {
		rows, err := d.outbox.db.QueryContext(ctx, d.outbox.fillText(strings.ReplaceAll(headsText, "{among}", among)))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	return ids, err
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

// Heads come first: what is behind them is left to the next round if there is too much of it.
const readText = `SELECT c.id, c.run, c.kind, c.created, c.body, c.tries, CASE WHEN c.id <> h.id AND (c.state = 1 OR c.due > {now}) THEN 1 ELSE 0 END
 FROM {calls} h JOIN {calls} c ON c.run = h.run AND c.id >= h.id
 WHERE h.id IN ({ids}) AND h.taker = ? AND h.state = 0 AND (c.state = 0 OR c.kind = 'start')
 ORDER BY CASE WHEN c.id = h.id THEN 0 ELSE 1 END, c.id LIMIT 1024`

// readRuns returns the calls of the runs that were leased, in their order, up to the first of each run that is not to be made now.
func (d *drain) readRuns(ctx context.Context, heads []int64, token string) (runs [][]*row, err error) {
	text, ids := d.outbox.fillTextOf(readText, heads)
	rows, err := d.outbox.db.QueryContext(ctx, text, append(ids, token)...)
	if err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	defer rows.Close()
	at := map[workflow.RunID]int{}
	for size := 0; size < bytesAtOnce && rows.Next(); {
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
	if err := json.Unmarshal([]byte(r.body), &c); err != nil {
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
		if json.Unmarshal([]byte(r.body), &c) != nil {
			return false
		}
		payload, err := decodeValue(c.Payload)
		return err == nil && int64(value.Size(payload)) <= limit.Max
	}
	return false
}

// settleRuns writes what has become of the calls. Runs whose calls were all made come first, so that no trouble with others has their calls
// repeated. Calls that are to wait are marked before the head of their run goes, so that nobody takes them sooner.
func (d *drain) settleRuns(ctx context.Context, runs [][]*row, heads []int64, token string) error {
	var first, last []identity
	var failed []*row
	settled := map[int64]bool{}
	for _, rows := range runs {
		var taken []identity
		n := len(failed)
		for _, r := range rows {
			settled[r.id] = r.taken || r.err != nil
			if r.taken {
				taken = append(taken, r.identity)
			} else if r.err != nil {
				failed = append(failed, r)
			}
		}
		if n == len(failed) {
			first = append(first, taken...)
		} else {
			last = append(last, taken...)
		}
	}
	if err := d.deleteMade(ctx, first); err != nil {
		return err
	}
	for _, r := range failed {
		if err := d.noteError(ctx, r, token); err != nil {
			return err
		}
	}
	d.hook.Hit("calls.noted")
	if err := d.deleteMade(ctx, last); err != nil {
		return err
	}
	left := slices.DeleteFunc(heads, func(id int64) bool { return settled[id] })
	if len(left) == 0 {
		return nil
	}
	text, ids := d.outbox.fillTextOf(`UPDATE {calls}{byKey} SET taker = '', due = 0 WHERE state = 0 AND taker = ? AND id IN ({ids})`, left)
	if _, err := d.outbox.db.ExecContext(ctx, text, append([]any{token}, ids...)...); err != nil {
		return fmt.Errorf("end leases: %w", err)
	}
	return nil
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

// noteError keeps why a call was not taken, and that it is refused, or when it is tried again; not if another process has leased it meanwhile.
func (d *drain) noteError(ctx context.Context, r *row, token string) error {
	code, state := refusal.Of(r.err).Code, 0
	pause := min(firstPause<<min(r.tries, 10), time.Minute)
	if r.refuse {
		state, pause = 1, 0
		d.outbox.options.Logger.WarnContext(ctx, "pawlsql: a call is refused: it stays until somebody retries or drops it", "run", string(r.run), "error", r.err)
	}
	args := append([]any{state, pause.Microseconds(), code, shortenText(r.err.Error())}, r.listArgs()...)
	_, err := d.outbox.db.ExecContext(ctx, d.outbox.fillText(`UPDATE {calls} SET state = ?, due = {now} + ?, taker = '', tries = tries + 1, code = ?, message = ? WHERE `+sameText+` AND (taker = ? OR due <= {now})`),
		append(args, token)...)
	if err != nil {
		return fmt.Errorf("note why a call was not taken: %w", err)
	}
	return nil
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
