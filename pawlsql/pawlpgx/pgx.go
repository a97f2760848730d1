// Package pawlpgx is for hosts with pgx: transactions that are not of database/sql, and notifications.
package pawlpgx

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-run/pawl/pawlsql"
)

// In is [pawlsql.Outbox.In] for a transaction of pgx.
func In(b *pawlsql.Outbox, tx pgx.Tx) pawlsql.Tx {
	if tx == nil {
		return pawlsql.Tx{}
	}
	return b.With(statements{tx})
}

type statements struct{ tx pgx.Tx }

func (s statements) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := s.tx.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (s statements) QueryRow(ctx context.Context, statement string, args []any, into ...any) (found bool, err error) {
	err = s.tx.QueryRow(ctx, statement, args...).Scan(into...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Listen returns what pawlsql.Options.Listen takes: it connects to the database at an address, as pgx.Connect has it, and stays
// connected. The address is that of the server: a pooler that gives connections to transactions, as PgBouncer may do, loses
// notifications, which delays calls until the next poll and loses none.
func Listen(address string) func(ctx context.Context, channel string, wake func()) error {
	return func(ctx context.Context, channel string, wake func()) error {
		conn, err := pgx.Connect(ctx, address)
		if err != nil {
			return fmt.Errorf("listen for calls: %w", err)
		}
		defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it is lost either way
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return fmt.Errorf("listen for calls: %w", err)
		}
		wake() // what was written before
		for {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return fmt.Errorf("listen for calls: %w", err)
			}
			wake()
		}
	}
}
