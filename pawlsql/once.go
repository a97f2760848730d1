package pawlsql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/value"
)

// Once calls f, which changes the database in the transaction, and keeps its outcome there under the key of the task. If the
// transaction commits, every further Once of the same task returns that outcome and does not call f: so the effect happens once,
// however often the attempt is repeated, and whatever process dies when.
//
//	total, err := pawlsql.Once(ctx, outbox.In(tx), task, func(ctx context.Context) (int, error) {
//		_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = $2", amount, account)
//		return amount, err
//	})
//
// f neither commits nor rolls back the transaction, nor changes a table of MySQL by a statement that commits, such as CREATE: the task would have a key
// without an outcome, and fail until somebody deletes that.
//
// An outcome is anything that encoding/json writes, no io.Reader, and at most 16 MiB of it. Once returns what JSON makes of it the first time as well. If f
// fails, Once undoes in the transaction what f has done, and nothing is kept. After an error roll the transaction back and return it: the
// engine tries the task again if its node has a retry. Two attempts at the same time wait for each other. A task has one Once; its key is
// Task.EffectKey, which has the id of the run. It is kept until [Outbox.Forget].
func Once[T any](ctx context.Context, tx Tx, task pawl.Task, f func(context.Context) (T, error)) (out T, err error) {
	if err := checkOnce(ctx, tx, task, f == nil); err != nil {
		return out, err
	}
	e := newEffect(tx, task)
	kept, err := e.claimKey(ctx)
	if err != nil {
		return out, fmt.Errorf("pawlsql: once of task %q: %w", task.EffectKey, err)
	}
	if kept == nil {
		if kept, err = e.performEffect(ctx, func(ctx context.Context) (any, error) { return f(ctx) }); err != nil {
			return out, err
		}
	}
	if err := json.Unmarshal(kept, &out); err != nil {
		return out, fmt.Errorf("pawlsql: the outcome of task %q is no %T: %w", task.EffectKey, out, err)
	}
	return out, nil
}

func checkOnce(ctx context.Context, tx Tx, task pawl.Task, nothing bool) error {
	if err := checkTx(ctx, tx); err != nil {
		return err
	}
	if s, ok := tx.in.(standard); ok {
		if _, ok := s.q.(*sql.DB); ok {
			return &ArgumentError{What: "tx", Fault: "Once needs a transaction, and not a *sql.DB"}
		}
	}
	switch {
	case task.EffectKey == "":
		return &ArgumentError{What: "task", Fault: "it has no EffectKey: give the task that the handler got, as pawl.TaskFrom(ctx) has it"}
	case nothing:
		return &ArgumentError{What: "f", Fault: "it is nil"}
	}
	return nil
}

// An effect is a Once that is under way.
type effect struct {
	tx    Tx
	task  pawl.Task
	key   string
	point string // the savepoint before it: nested ones have other names
}

func newEffect(tx Tx, task pawl.Task) *effect {
	sum := sha256.Sum256([]byte(task.EffectKey))
	key := hex.EncodeToString(sum[:])
	return &effect{tx, task, key, "pawl_" + key[:16]}
}

func (e *effect) execStatement(ctx context.Context, statement string, args ...any) (int64, error) {
	return e.tx.in.Exec(ctx, e.tx.outbox.fillText(statement), args...)
}

// claimKey makes the key of the effect one of this transaction, or returns the outcome that another one has committed. It waits for
// transactions that have it and have not ended.
func (e *effect) claimKey(ctx context.Context) (kept []byte, err error) {
	d := e.tx.outbox.dialect
	if _, err := e.execStatement(ctx, "SAVEPOINT "+e.point); err != nil {
		return nil, err
	}
	n, err := e.execStatement(ctx, "INSERT"+d.ignore+" INTO {effects} (effect, run, created, outcome) VALUES (?, ?, {now}, '')"+d.ignored, e.key, string(e.task.Root))
	hook := testhook.From(ctx)
	if err != nil || n > 0 {
		hook.Hit("effect.claimed")
		return nil, err
	}
	var outcome string
	found, err := e.tx.in.QueryRow(ctx, e.tx.outbox.fillText("SELECT outcome FROM {effects} WHERE effect = ?"+d.current), []any{e.key}, &outcome)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, errors.New("its key was forgotten at this moment: try again")
	case outcome == "":
		return nil, fmt.Errorf("its key is there without an outcome: it is under way in this transaction, or its function has ended a transaction, which it must not do; then see what it has done, and delete the row of %s where effect is '%s'", e.tx.outbox.options.Effects, e.key)
	}
	_, err = e.execStatement(ctx, "RELEASE SAVEPOINT "+e.point)
	return []byte(outcome), err
}

// performEffect calls f and keeps its outcome. If f fails or panics, performEffect undoes what f has done.
func (e *effect) performEffect(ctx context.Context, f func(context.Context) (any, error)) (kept []byte, err error) {
	done := false
	defer func() {
		if !done {
			// A transaction that the database has ended has nothing to undo: then this fails as well.
			_, undo := e.execStatement(context.WithoutCancel(ctx), "ROLLBACK TO SAVEPOINT "+e.point)
			err = errors.Join(err, undo)
		}
	}()
	v, err := f(ctx)
	if err != nil {
		return nil, err
	}
	hook := testhook.From(ctx)
	hook.Hit("effect.done")
	if value.IsReader(v) {
		return nil, &ArgumentError{What: "f", Fault: fmt.Sprintf("its outcome is a %T, which is a reader: let it return what that reads", v)}
	}
	if kept, err = json.Marshal(v); err != nil {
		return nil, &ArgumentError{What: "f", Fault: fmt.Sprintf("its outcome is no JSON: %v", err)}
	}
	if len(kept) > maxValueBytes {
		return nil, &ArgumentError{What: "f", Fault: fmt.Sprintf("its outcome has %d bytes of JSON, at most %d", len(kept), maxValueBytes)}
	}
	kept = []byte(toASCII(kept))
	n, err := e.execStatement(ctx, "UPDATE {effects} SET outcome = ? WHERE effect = ?", string(kept), e.key)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows have its key", n)
	}
	if err == nil {
		_, err = e.execStatement(ctx, "RELEASE SAVEPOINT "+e.point)
	}
	if err != nil {
		return nil, fmt.Errorf("pawlsql: keep the outcome of task %q: %w", e.task.EffectKey, err)
	}
	done = true
	hook.Hit("effect.kept")
	return kept, nil
}

// Forget deletes the outcomes that Once has kept for longer than age, and returns how many. An attempt that is repeated after
// that does its effect again: age is longer than any task may take with all its attempts, and than anybody may retry it later.
func (b *Outbox) Forget(ctx context.Context, age time.Duration) (forgotten int64, err error) {
	if age < 0 {
		return 0, &ArgumentError{What: "age", Fault: fmt.Sprintf("it is %v, less than 0", age)}
	}
	r, err := b.db.ExecContext(ctx, b.fillText("DELETE FROM {effects} WHERE created < {now} - ?"), age.Microseconds())
	if err != nil {
		return 0, fmt.Errorf("pawlsql: forget outcomes: %w", err)
	}
	return r.RowsAffected()
}
