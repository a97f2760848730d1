package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-run/pawl/store"
)

// Errors of this package; callers test with errors.Is.
var (
	// ErrNoTables says that the tables of package pg are not in the database, or are older ones: call Database.Migrate.
	ErrNoTables = errors.New("the tables of pawl are missing")
	// ErrUnsafeServer says that the server may lose what it has acknowledged.
	ErrUnsafeServer = errors.New("the PostgreSQL server may lose what it has acknowledged")
	// ErrNotReplicated says that somebody has cancelled the wait for a synchronous standby (pg_cancel_backend): what was committed is on the
	// primary, and perhaps nowhere else. A Log appends again until it is.
	ErrNotReplicated = errors.New("the wait for the synchronous standby was cancelled: the entry is on the primary alone")
)

// answerTimeout is how long a statement may take to be answered, but for what it carries. A statement that is not answered may have been done.
const answerTimeout = 5 * time.Second

// slowestLink is how many bytes a second the network carries at least: what a statement carries makes its timeout longer.
const slowestLink = 256 << 10

// errSilent says that the server has not answered in time.
var errSilent = errors.New("no answer in time: it may have been done or not")

// keepsCommit is a part of statements that makes their commit wait for the disk, and for the synchronous standbys, whatever the user's or the
// database's synchronous_commit is. remote_apply, which waits for more, stays. The warning that a wait was cancelled is sent whatever client_min_messages
// is: without it nobody would know.
const keepsCommit = `set_config('client_min_messages', 'warning', true) AS warns, set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)`

// keepsHere is a part of statements whose commit waits for the disk of the primary, and for no standby.
const keepsHere = `set_config('synchronous_commit', 'local', true)`

// keepsLater is a part of statements whose commit waits for nothing: who loses it loses nothing.
const keepsLater = `set_config('synchronous_commit', 'off', true)`

// lostWait is the key under which a connection notes that a commit has not waited for its standby.
const lostWait = "pawl: lost wait"

// noteLostWaits has connections note the warning that a commit did not wait for its standby: PostgreSQL reports success then.
//
// The name of the server's function tells the warning, as its text is translated.
func noteLostWaits(c *pgx.ConnConfig) {
	before := c.OnNotice
	c.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.Routine == "SyncRepWaitForLSN" {
			conn.CustomData()[lostWait] = true
		}
		if before != nil {
			before(conn, n)
		}
	}
}

// query runs a statement in a transaction of its own, and calls scan, which may be nil, with each row. It returns how many rows the statement has
// touched. carries is how many bytes go over the network, about: to the server, or from there to the standby that its commit waits for.
func (d *Database) query(ctx context.Context, carries int64, sql string, args []any, scan func(pgx.Rows) error) (int64, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	timeout := d.answers + time.Duration(carries)*(time.Second/slowestLink)
	waits, cancel := context.WithTimeoutCause(ctx, timeout, errSilent)
	defer cancel()
	scanned := false // then scan must not get the rows again
	scanRow := func(r pgx.Rows) error {
		scanned = true
		if scan == nil {
			return nil
		}
		return scan(r)
	}
	n, err := d.queryOnce(waits, sql, args, scanRow)
	for tries := 0; notRun(err) && tries < d.connections() || wasUndone(err) && !scanned && tries < mostConflicts; tries++ {
		n, err = d.queryOnce(waits, sql, args, scanRow)
	}
	switch {
	case err == nil:
		return n, nil
	case context.Cause(ctx) != nil:
		return n, context.Cause(ctx)
	case context.Cause(waits) != nil:
		d.pool.Reset() // the way to the server may be dead
		return n, errSilent
	}
	return n, d.explain(err)
}

// notRun reports whether a statement was certainly not run, because its connection was dead before: the server has ended it as idle, for example.
func notRun(err error) bool {
	var said *pgconn.PgError
	return err != nil && (pgconn.SafeToRetry(err) || errors.As(err, &said) && said.Code == codeIdle)
}

// mostConflicts is how often a statement is done again that others have undone: each time one of these was done.
const mostConflicts = 100

// wasUndone reports whether the server has undone a statement because of another one at the same time: as the default isolation of a user or a database
// is above READ COMMITTED, or because of a deadlock.
func wasUndone(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && (said.Code == codeConflict || said.Code == codeDeadlock)
}

// connections is how many connections may be dead, and one.
func (d *Database) connections() int { return int(d.pool.Config().MaxConns) + 1 }

func (d *Database) queryOnce(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) (int64, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	noted := conn.Conn().PgConn().CustomData()
	delete(noted, lostWait)
	rows, err := conn.Query(ctx, d.names.Replace(sql), args...)
	if err != nil {
		return 0, d.connectionError(conn.Conn(), err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return 0, err
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return 0, d.connectionError(conn.Conn(), err)
	}
	if noted[lostWait] != nil {
		return 0, ErrNotReplicated
	}
	return rows.CommandTag().RowsAffected(), nil
}

// connectionError returns an error. If the connection broke with it, the others are likely to be as old: they are closed as well.
func (d *Database) connectionError(conn *pgx.Conn, err error) error {
	if conn.IsClosed() {
		d.pool.Reset()
	}
	return err
}

// queryRow runs a statement that yields one row. It fails with pgx.ErrNoRows if there is no row.
func (d *Database) queryRow(ctx context.Context, sql string, args []any, into ...any) error {
	found := false
	_, err := d.query(ctx, 0, sql, args, func(r pgx.Rows) error {
		found = true
		return r.Scan(into...)
	})
	if err == nil && !found {
		err = pgx.ErrNoRows
	}
	return err
}

// severityError is that of an error that undoes a transaction, and nothing else.
const severityError = "ERROR"

// Codes of PostgreSQL.
const (
	codeNoSchema  = "3F000"
	codeNoTable   = "42P01"
	codeForbidden = "42501"
	codeDiskFull  = "53100"
	codeIdle      = "57P05"
	codeConflict  = "40001"
	codeDeadlock  = "40P01"
	codeCancelled = "57014"
	codeReadOnly  = "25006"
	codeBadPage   = "XX001"
	codeBadIndex  = "XX002"
)

// explain returns what the server says with what is to be done about it.
func (d *Database) explain(err error) error {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return err
	}
	switch said.Code {
	case codeNoSchema, codeNoTable:
		return fmt.Errorf("%w: call Migrate, or set Options.Schema and Prefix: %w", ErrNoTables, err)
	case codeForbidden:
		return fmt.Errorf("the user of the connection needs USAGE of the schema %s, and SELECT, INSERT, UPDATE and DELETE on its tables: %w", d.options.Schema, err)
	case codeDiskFull:
		if said.SeverityUnlocalized != severityError { // the server ends, perhaps with the commit on its disk
			return fmt.Errorf("the server has no room, perhaps for its WAL: make some, and start it again if it has ended: %w", err)
		}
		return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
	case codeCancelled:
		return fmt.Errorf("statement_timeout of the user or the database ends statements too early, or somebody has cancelled it: %w", err)
	case codeReadOnly:
		return fmt.Errorf("the server is a standby, or default_transaction_read_only is on: connect to the primary: %w", err)
	case codeBadPage, codeBadIndex:
		return &store.CorruptError{File: "the database", What: "PostgreSQL cannot read it", Err: err}
	}
	return err
}

// deleteParts calls deleteRows, which deletes at most so many rows and returns how many, until there are none. If a part takes
// too long, the next one is half of it: one row at least. A part that does not is followed by one that is larger by a quarter, up
// to most: silences that have nothing to do with the size add up to nothing.
func deleteParts(most int64, deleteRows func(most int64) (int64, error)) error {
	for part := most; ; {
		n, err := deleteRows(part)
		switch {
		case tookTooLong(err) && part > 1:
			part /= 2
		case err != nil || n == 0:
			return err
		default:
			part = min(part+part/4+1, most)
		}
	}
}

// tookTooLong reports whether a statement has ended without an answer in time, or the server has ended it, for its time or because somebody said so.
func tookTooLong(err error) bool {
	var said *pgconn.PgError
	return errors.Is(err, errSilent) || errors.As(err, &said) && said.Code == codeCancelled
}
