package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// ErrNotQuery says that a text is not one query: it writes, or has to do with something else than the database.
var ErrNotQuery = errors.New("it is not a query that only reads")

// AllowQueries keeps a connection from everything but queries from now on. read is told each table that a statement
// reads when it is prepared.
func (c *Conn) AllowQueries(read func(table string)) error {
	raw, ok := c.conn.(sqlite.AuthorizerRegisterer)
	if !ok {
		return errors.New("the driver of SQLite has no authorizer")
	}
	return raw.RegisterAuthorizer(func(action sqlite.AuthorizerActionCode, first, second, _, _ string) sqlite.AuthorizerReturnCode {
		switch {
		case action == lib.SQLITE_READ:
			read(first)
		case action == lib.SQLITE_FUNCTION && second != "load_extension", action == lib.SQLITE_SELECT, action == lib.SQLITE_RECURSIVE:
		default:
			return sqlite.AuthorizerDeny
		}
		return sqlite.AuthorizerOK
	})
}

// LimitLength bounds each value, and each row, in bytes: functions such as printf and zeroblob make values of any length, which would take
// as much memory.
//
// The driver sets limits through package database/sql alone, so the connection is lent to a pool that never gets it back, and is closed
// without it.
func (c *Conn) LimitLength(most int) error {
	pool := sql.OpenDB(lender{c.conn})
	lent, err := pool.Conn(context.Background())
	if err == nil {
		_, err = sqlite.Limit(lent, lib.SQLITE_LIMIT_LENGTH, most)
	}
	return errors.Join(err, pool.Close())
}

// A lender hands out a connection that is open.
type lender struct{ conn driver.Conn }

// Connect implements driver.Connector.
func (l lender) Connect(context.Context) (driver.Conn, error) { return l.conn, nil }

// Driver implements driver.Connector.
func (l lender) Driver() driver.Driver { return nil }

// CheckQuery fails with ErrNotQuery if text is not one query, of a connection that only allows those, and with what
// SQLite says of a query that is wrong.
func (c *Conn) CheckQuery(text string) error {
	if err := c.tryPrepare(text); err != nil {
		return err
	}
	if c.tryPrepare("SELECT * FROM (\n"+text+"\n)") != nil { // only a query may stand there, and only one
		return ErrNotQuery
	}
	return nil
}

func (c *Conn) tryPrepare(text string) error {
	s, err := c.conn.PrepareContext(context.Background(), text)
	if errorCode(err) == lib.SQLITE_AUTH {
		return ErrNotQuery
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// Answer runs a query. It calls head with the names of the columns, once, and row with each row; an error of theirs, and
// the end of ctx, ends it. Neither may use c.
func (c *Conn) Answer(ctx context.Context, text string, head func([]string) error, row func(*Row) error) error {
	raw, err := c.conn.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	rows, err := raw.(driverStmt).QueryContext(ctx, nil)
	if err == nil {
		if err = head(rows.Columns()); err == nil {
			err = eachRow(rows, func(r *Row) error {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				return row(r)
			})
		}
		err = errors.Join(err, rows.Close())
	}
	return errors.Join(err, raw.Close())
}
