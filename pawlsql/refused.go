package pawlsql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// A Refusal is a call that the engine has refused: it stays until somebody says what becomes of it.
type Refusal struct {
	ID      int64           `json:"id"` // of the row
	Run     workflow.RunID  `json:"run"`
	Kind    string          `json:"kind"` // start, signal or cancel
	Code    string          `json:"code"` // of the error, as of the HTTP API: docs/api.md has the table
	Message string          `json:"message"`
	Tries   int             `json:"tries"`   // that have failed
	Written time.Time       `json:"written"` // by the clock of the database
	Behind  int64           `json:"behind"`  // calls of the run that wait, because this is its start
	Call    json.RawMessage `json:"call"`    // what the engine was given
}

const listPage = 100

// Refused returns the calls that the engine has refused, in their order. It stops at the first error, which is that of the
// database or of ctx.
func (b *Outbox) Refused(ctx context.Context) iter.Seq2[Refusal, error] {
	return func(yield func(Refusal, error) bool) {
		for after := int64(-1); ; {
			page, err := b.refusedAfter(ctx, after)
			if err != nil {
				yield(Refusal{}, fmt.Errorf("pawlsql: list what was refused: %w", err))
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
				after = r.ID
			}
			if len(page) < listPage {
				return
			}
		}
	}
}

const refusedText = `SELECT c.id, c.run, c.kind, c.code, c.message, c.tries, c.created, c.body,
 CASE WHEN c.kind = 'start' THEN (SELECT COUNT(*) FROM {calls} w WHERE w.run = c.run AND w.id > c.id AND w.state = 0) ELSE 0 END
 FROM {calls} c WHERE c.state = 1 AND c.id > ? ORDER BY c.id LIMIT 100`

func (b *Outbox) refusedAfter(ctx context.Context, id int64) (page []Refusal, err error) {
	rows, err := b.db.QueryContext(ctx, b.fillText(refusedText), id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r Refusal
		var micros int64
		var run, body string
		if err := rows.Scan(&r.ID, &run, &r.Kind, &r.Code, &r.Message, &r.Tries, &micros, &body, &r.Behind); err != nil {
			return nil, err
		}
		r.Run, r.Written, r.Call = workflow.RunID(run), time.UnixMicro(micros), json.RawMessage(body)
		page = append(page, r)
	}
	return page, rows.Err()
}

// ErrNotRefused says that no refused call has an id: it was dropped, or is to be tried again.
var ErrNotRefused = errors.New("pawlsql: no refused call has this id")

// Retry has a refused call made again, in its place before those that were written after it for its run and are still there: once
// a definition is published, for instance. It fails with ErrNotRefused.
func (b *Outbox) Retry(ctx context.Context, id int64) error {
	text, args := `UPDATE {calls} SET state = 0, due = 0, tries = 0, taker = '' WHERE id = ? AND state = 1`, []any{id}
	if b.dialect.numbered { // as the insert does
		text, args = `WITH retried AS (`+text+` RETURNING id) SELECT pg_notify(?, '') FROM retried`, append(args, b.nameChannel())
	}
	r, err := b.db.ExecContext(ctx, b.fillText(text), args...)
	if err != nil {
		return fmt.Errorf("pawlsql: retry call %d: %w", id, err)
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrNotRefused)
	}
	b.Wake()
	return nil
}

// Drop deletes a refused call, and returns how many calls are gone: with a start those that wait behind it, up to the next start of its
// run, since they are for a run that never was. It fails with ErrNotRefused.
func (b *Outbox) Drop(ctx context.Context, id int64) (dropped int64, err error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("pawlsql: drop call %d: %w", id, err)
	}
	if dropped, err = b.dropIn(ctx, tx, id); err != nil {
		return 0, errors.Join(fmt.Errorf("pawlsql: drop call %d: %w", id, err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return 0, fmt.Errorf("pawlsql: drop call %d: %w", id, err)
	}
	return dropped, nil
}

// dropIn deletes the calls that it has read, and none that commits meanwhile.
func (b *Outbox) dropIn(ctx context.Context, tx *sql.Tx, id int64) (dropped int64, err error) {
	var run, kind string
	err = tx.QueryRowContext(ctx, b.fillText(`SELECT run, kind FROM {calls} WHERE id = ? AND state = 1`), id).Scan(&run, &kind)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, ErrNotRefused
	}
	var behind []identity
	if err == nil && kind == KindStart {
		behind, err = b.callsBehind(ctx, tx, run, id)
	}
	if err != nil {
		return 0, err
	}
	r, err := tx.ExecContext(ctx, b.fillText(`DELETE FROM {calls} WHERE id = ? AND state = 1`), id)
	if err != nil {
		return 0, err
	}
	if dropped, err = r.RowsAffected(); err != nil || dropped == 0 {
		return 0, errors.Join(err, ErrNotRefused)
	}
	for part := range slices.Chunk(behind, headsAtOnce) {
		n, err := b.deleteCalls(ctx, tx, part)
		if err != nil {
			return 0, err
		}
		dropped += n
	}
	return dropped, nil
}

// deleteCalls deletes calls in a transaction, and returns how many there were.
func (b *Outbox) deleteCalls(ctx context.Context, tx *sql.Tx, calls []identity) (deleted int64, err error) {
	size := deletedAtOnce
	if b.dialect.oneByOne {
		size = 1
	}
	for part := range slices.Chunk(calls, size) {
		named := 1 // few lengths, as those of textOf
		for named < len(part) {
			named *= 2
		}
		var args []any
		for i := range named {
			args = append(args, part[min(i, len(part)-1)].listArgs()...)
		}
		text := `DELETE FROM {calls} WHERE ` + sameText + strings.Repeat(` OR `+sameText, named-1)
		r, err := tx.ExecContext(ctx, b.fillText(text), args...)
		if err != nil {
			return 0, err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return 0, err
		}
		deleted += n
	}
	return deleted, nil
}

// deletedAtOnce bounds the calls that a statement names.
const deletedAtOnce = 64

// callsBehind returns the calls of a run behind one of them, up to the next start.
func (b *Outbox) callsBehind(ctx context.Context, tx *sql.Tx, run string, id int64) (calls []identity, err error) {
	rows, err := tx.QueryContext(ctx, b.fillText(`SELECT id, kind, created FROM {calls} WHERE run = ? AND id > ? ORDER BY id`), run, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		next := identity{run: workflow.RunID(run)}
		if err := rows.Scan(&next.id, &next.kind, &next.created); err != nil {
			return nil, err
		}
		if next.kind == KindStart {
			break
		}
		calls = append(calls, next)
	}
	return calls, rows.Err()
}

// A Backlog says how far the calls are.
type Backlog struct {
	Waiting int64         `json:"waiting"` // calls that are not taken yet
	Oldest  time.Duration `json:"oldest"`  // the age of the first of them, by the clock of the database
	Refused int64         `json:"refused"`
}

// Backlog counts the calls, for an alert: it reads all of them.
func (b *Outbox) Backlog(ctx context.Context) (out Backlog, err error) {
	var micros int64
	err = b.db.QueryRowContext(ctx, b.fillText(`SELECT COUNT(CASE WHEN state = 0 THEN 1 END), COUNT(CASE WHEN state = 1 THEN 1 END),
 COALESCE({now} - MIN(CASE WHEN state = 0 THEN created END), 0) FROM {calls}`)).Scan(&out.Waiting, &out.Refused, &micros)
	if err != nil {
		return Backlog{}, fmt.Errorf("pawlsql: count the calls: %w", err)
	}
	out.Oldest = max(0, time.Duration(micros)*time.Microsecond)
	return out, nil
}
