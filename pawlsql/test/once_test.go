package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/pawlsql"
)

// A total is an outcome with fields.
type total struct {
	Cents int64     `json:"cents"`
	Note  string    `json:"note"`
	At    time.Time `json:"at"`
}

// The outcome of an effect that committed is returned on each repetition; what did not commit has not happened.
func TestOnce(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		d.exec(t, "CREATE TABLE {}_effect (n INTEGER)")
		task := pawl.Task{EffectKey: "order ü/pay/7", Root: "order ü"}
		want := total{1 << 60, "ä😀", time.Unix(1, 5).UTC()}
		insert := func(tx *sql.Tx) func(context.Context) (total, error) {
			return func(ctx context.Context) (total, error) {
				_, err := tx.ExecContext(ctx, d.text("INSERT INTO {}_effect (n) VALUES (1)"))
				return total{1 << 60, "ä😀", time.Unix(1, 5).In(time.FixedZone("x", 0))}, err
			}
		}
		for _, commit := range []bool{false, true, true, false, true} {
			d.in(t, commit, func(tx *sql.Tx) error {
				got, err := pawlsql.Once(ctx, b.In(tx), task, insert(tx))
				require.NoError(t, err)
				require.True(t, want.At.Equal(got.At))
				got.At = want.At
				require.Equal(t, want, got)
				return err
			})
		}
		require.Equal(t, 1, d.count(t, "SELECT COUNT(*) FROM {}_effect"))

		// Another type than that of the outcome is an error, and so is a Once within that of the same task.
		d.in(t, false, func(tx *sql.Tx) error {
			_, err := pawlsql.Once(ctx, b.In(tx), task, func(context.Context) (int, error) { return 1, nil })
			require.ErrorContains(t, err, "is no int")
			return nil
		})
		d.in(t, false, func(tx *sql.Tx) error {
			_, err := pawlsql.Once(ctx, b.In(tx), pawl.Task{EffectKey: "nested"}, func(ctx context.Context) (int, error) {
				return pawlsql.Once(ctx, b.In(tx), pawl.Task{EffectKey: "nested"}, func(context.Context) (int, error) { return 1, nil })
			})
			require.ErrorContains(t, err, "under way")
			return nil
		})

		// A function that commits the transaction leaves a key that says so.
		ends := pawl.Task{EffectKey: "ends"}
		tx, err := d.db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = pawlsql.Once(ctx, b.In(tx), ends, func(context.Context) (int, error) { return 1, tx.Commit() })
		require.Error(t, err)
		var fault string
		d.in(t, false, func(tx *sql.Tx) error {
			_, err := pawlsql.Once(ctx, b.In(tx), ends, func(context.Context) (int, error) { return 1, nil })
			require.ErrorContains(t, err, "or its function has ended a transaction, which it must not do")
			fault = err.Error()
			return nil
		})
		_, advice, found := strings.Cut(fault, "delete the row of ")
		require.True(t, found)
		row, _, found := strings.Cut(advice, " is ")
		require.True(t, found)
		_, id, found := strings.Cut(advice, "'")
		require.True(t, found)
		d.exec(t, "DELETE FROM "+row+" = '"+id)

		n, err := b.Forget(ctx, time.Hour)
		require.NoError(t, err)
		require.Zero(t, n)
		_, err = b.Forget(ctx, -1)
		require.ErrorIs(t, err, pawl.ErrInvalid)
		eventually(t, func() bool {
			n, err := b.Forget(ctx, time.Millisecond)
			require.NoError(t, err)
			return n == 1
		})
		d.in(t, true, func(tx *sql.Tx) error {
			_, err := pawlsql.Once(ctx, b.In(tx), task, insert(tx))
			return err
		})
		require.Equal(t, 2, d.count(t, "SELECT COUNT(*) FROM {}_effect"), "an outcome that is forgotten is made again")
	})
}

// An effect that fails or panics is undone even if its transaction commits, and happens at the next attempt.
func TestOnceFails(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		d.exec(t, "CREATE TABLE {}_effect (n INTEGER NOT NULL)")
		insert := func(tx *sql.Tx, n string) {
			_, err := tx.ExecContext(ctx, d.text("INSERT INTO {}_effect (n) VALUES ("+n+")"))
			require.NoError(t, err)
		}
		broken := errors.New("broken")
		task := pawl.Task{EffectKey: "k"}
		ways := map[string]func(tx *sql.Tx) (any, error){
			"error":   func(*sql.Tx) (any, error) { return nil, broken },
			"panic":   func(*sql.Tx) (any, error) { panic(broken) },
			"outcome": func(*sql.Tx) (any, error) { return func() {}, nil },
			"reader":  func(*sql.Tx) (any, error) { return strings.NewReader("{}"), nil },
			"sql": func(tx *sql.Tx) (any, error) {
				_, err := tx.ExecContext(ctx, d.text("INSERT INTO {}_effect (n) VALUES (NULL)"))
				return nil, err
			},
		}
		for name, way := range ways {
			d.in(t, true, func(tx *sql.Tx) error {
				insert(tx, "7")
				var err error
				func() {
					defer func() {
						if r := recover(); r != nil {
							err = broken
						}
					}()
					_, err = pawlsql.Once(ctx, b.In(tx), task, func(context.Context) (any, error) {
						insert(tx, "1")
						return way(tx)
					})
				}()
				require.Error(t, err, name)
				return nil
			})
		}
		require.Zero(t, d.count(t, "SELECT COUNT(*) FROM {}_effect WHERE n = 1"))
		require.Equal(t, len(ways), d.count(t, "SELECT COUNT(*) FROM {}_effect WHERE n = 7"))
		d.in(t, true, func(tx *sql.Tx) error {
			_, err := pawlsql.Once(ctx, b.In(tx), task, func(context.Context) (any, error) { insert(tx, "1"); return nil, nil })
			return err
		})
		require.Equal(t, 1, d.count(t, "SELECT COUNT(*) FROM {}_effect WHERE n = 1"))
		d.in(t, true, func(tx *sql.Tx) error {
			out, err := pawlsql.Once(ctx, b.In(tx), task, func(context.Context) (any, error) { insert(tx, "1"); return 1, nil })
			require.Nil(t, out, "an outcome may be nil")
			return err
		})
		require.Equal(t, 1, d.count(t, "SELECT COUNT(*) FROM {}_effect WHERE n = 1"))
	})
}

// Attempts at the same time have one effect: the later ones get its outcome, or an error with which they are tried again.
func TestOnceAtTheSameTime(t *testing.T) {
	forEach(t, func(t *testing.T, d database) {
		ctx := t.Context()
		b := d.outbox(t)
		d.exec(t, "CREATE TABLE {}_effect (n INTEGER)")
		tasks, attempts := 10, 4
		var all sync.WaitGroup
		for i := range tasks * attempts {
			all.Go(func() {
				for {
					tx, err := d.db.BeginTx(ctx, nil)
					require.NoError(t, err)
					k := i % tasks
					out, err := pawlsql.Once(ctx, b.In(tx), pawl.Task{EffectKey: fmt.Sprint(k)}, func(ctx context.Context) (int, error) {
						_, err := tx.ExecContext(ctx, d.text(fmt.Sprint("INSERT INTO {}_effect (n) VALUES (", k, ")")))
						return k, err
					})
					if err == nil {
						require.Equal(t, k, out)
						err = tx.Commit()
					} else {
						_ = tx.Rollback()
					}
					if err == nil {
						return
					}
				}
			})
		}
		all.Wait()
		require.Equal(t, tasks, d.count(t, "SELECT COUNT(*) FROM {}_effect"))
		require.Equal(t, tasks, d.count(t, "SELECT COUNT(DISTINCT n) FROM {}_effect"))
	})
}
